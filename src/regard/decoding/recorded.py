"""Decoding on a GPU: a step is recorded once for each shape of batch, and from then on started with one call.

A small decoder waits for its kernels to start far longer than for what they compute. Recorded are the kernels of
`steady`; the host looks up every few steps whether all texts have ended. Whoever watches, changes or hooks into the
model needs Python at every step: then nothing is recorded, and the ordinary loops decode.
"""

import weakref
from collections import OrderedDict
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.dispatch import observed
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.batches import PAD, Sequences
from regard.decoding.evaluating import evaluating
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits, per_row
from regard.decoding.steady import Steady, SteadyGreedy
from regard.decoding.steady_beam import SteadyBeam
from regard.errors import RegardError
from regard.models.protocols import AnyModel, Checks, Stands, Stood

_ROUND = 16  # tokens that limits and sources are rounded up to: fewer shapes
_SHAPES = 8  # that are kept for a model; of more, those not used for longest are forgotten
_LOOK = 8  # steps between two looks whether all texts have ended
_AHEAD = 2  # steps that are started before the answer is waited for: the GPU is never without work


Shape = tuple[Any, ...]


class Record:
    """A decode of one shape, as the GPU knows it."""

    def __init__(self, model: Any, source: Any, steady: Steady, addresses: int) -> None:
        self.source, self.steady, self.addresses = source, steady, addresses
        self._model = weakref.ref(model)  # the records of a model end with it
        self._weights = [(weight, weight.data_ptr()) for weight in model.parameters()]
        self._ended = torch.zeros((), dtype=torch.bool, pin_memory=True)
        self._asked = torch.cuda.Event()  # type: ignore[no-untyped-call]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries choose their kernels in the first steps
                self._begin()
                steady.step()
        torch.cuda.current_stream().wait_stream(stream)
        self._beginning: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
        self._step = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._step, stream=stream):
            steady.step()
        try:
            with torch.cuda.graph(self._beginning, stream=stream, pool=self._step.pool()):
                self._begin()
        except RuntimeError:  # an encoder that asks the device something: it is started anew each time
            torch.cuda.synchronize()
            self._beginning = None

    @property
    def ready(self) -> bool:
        """Whether the sources can be read without Python, and the weights that were recorded are where they were."""
        unmoved = all(weight.data_ptr() == address for weight, address in self._weights)
        return self._beginning is not None and unmoved

    def begin(self, source: Any, most: Int[Tensor, " s"]) -> None:
        """Have the GPU read a source of this shape."""
        for held, new in zip(_tensors(self.source), _tensors(source), strict=True):
            if held.shape != new.shape:  # texts that are filled up
                held.fill_(PAD)
                held = held[:, : new.shape[1]]
            held.copy_(new, non_blocking=True)
        self.steady.limit(most)
        if self._beginning is None:
            self._begin()
        else:
            self._beginning.replay()

    def finish(self, longest: int) -> list[list[Hypothesis]]:
        """Its texts, of so many tokens at most."""
        for step in range(1, longest + 1):
            self._step.replay()
            if step % _LOOK == 0:
                self._ended.copy_(self.steady.over.all(), non_blocking=True)
                self._asked.record()
            elif step > _LOOK and step % _LOOK == _AHEAD:
                self._asked.synchronize()
                if bool(self._ended):
                    break
        return self.steady.found()

    def _begin(self) -> None:
        model: Any = self._model()
        self.steady.standing.take(model.start(self.source))
        self.steady.begin()


_records: "weakref.WeakKeyDictionary[nn.Module, OrderedDict[Shape, Record]]" = weakref.WeakKeyDictionary()


def recorded(
    model: AnyModel,
    source: Any,
    *,
    limits: Limits,
    size: int | None = None,  # of the beam; None: greedy
    count: int = 1,
    penalty: float = 0.0,
) -> list[list[Hypothesis]] | None:
    """The `count` best texts of every row of the source; None where the ordinary loops have to find them."""
    if not isinstance(model, nn.Module) or _unfit(model, source) is not None:
        return None
    if isinstance(model, Checks):
        model.check(source)
    most = per_row(limits, len(source), device=torch.device("cpu"))
    longest = int(most.max())
    room = -(-longest // _ROUND) * _ROUND
    records = _records.setdefault(model, OrderedDict())
    shape = (size, count, penalty, room, *_shape(source))
    record = records.get(shape)
    begun = record is not None and record.ready
    with torch.no_grad():
        if record is not None and begun:
            record.begin(source, most)
        looked = _survey(model)  # while the GPU reads
        if looked.hooked:
            return None
        if record is None or looked.addresses != record.addresses:
            begun = False
            with evaluating(model):
                steady = _steady(model, source, most, size=size, count=count, penalty=penalty, room=room)
                if steady is None:
                    return None
                record = records[shape] = Record(model, *steady, looked.addresses)
            if len(records) > _SHAPES:
                records.popitem(last=False)
        if not begun:
            with evaluating(model):
                record.begin(source, most)
        records.move_to_end(shape)
        return record.finish(longest)


def obstacle(model: nn.Module, source: Any) -> str | None:
    """Why the decodes of a model are not recorded; None where they are."""
    hooked = "a module has hooks, which take Python at every step"
    return _unfit(model, source) or (hooked if _survey(model).hooked else None)


def _unfit(model: nn.Module, source: Any) -> str | None:
    weight = next(model.parameters(), None)
    if weight is None or weight.device.type != "cuda":
        return "the model is not on a GPU"
    if not isinstance(model, Stands) or not is_dataclass(source):
        return f"a {type(model).__name__} changes its shape from step to step"
    if observed(model):
        return "its attention is watched or changed, which takes Python at every step"
    lengths: Tensor | None = getattr(source, "lengths", None)
    if lengths is None or (len(lengths) > 0 and TRITON_INSTALLED and weight.dtype != torch.float64):
        return None  # the kernels of a step give zeros to whoever sees nothing
    if len(lengths) == 0 or int(lengths.min()) < 1:
        return "a source is empty: whoever looks at it sees nothing"
    return None


def _steady(
    model: Any, source: Any, most: Tensor, *, size: int | None, count: int, penalty: float, room: int
) -> tuple[Any, Steady] | None:
    """A source of this shape whose tensors are nobody else's, and its decode; None where it cannot stand."""
    source = _rounded(source)
    source = replace(source, **{name: part.clone() for name, part in _named(source)})
    state = model.start(source)
    try:
        standing: Stood | None = model.stand(state, room=room, group=size or 1)
    except RegardError:  # not so many positions: the ordinary loop says so when it comes to them
        return None
    if standing is None:
        return None
    limits = most.to(state.first.device)
    if size is None:
        return source, SteadyGreedy(standing, limits, room=room)
    return source, SteadyBeam(standing, limits, size=size, count=count, penalty=penalty, room=room)


def _rounded(source: Any) -> Any:
    """Texts filled up to a round number of tokens."""
    if not isinstance(source, Sequences):
        return source
    more = -source.tokens.shape[1] % _ROUND
    return Sequences(F.pad(source.tokens, (0, more), value=PAD), source.lengths)


def _named(source: Any) -> list[tuple[str, Tensor]]:
    parts = ((each.name, getattr(source, each.name)) for each in fields(source))
    return [(name, part) for name, part in parts if isinstance(part, Tensor)]


def _tensors(source: Any) -> list[Tensor]:
    return [part for _, part in _named(source)]


def _shape(source: Any) -> Shape:
    """What sources of one record have in common: texts are filled up to a round number of tokens."""
    if isinstance(source, Sequences):
        rows, longest = source.tokens.shape
        return Sequences, rows, -(-longest // _ROUND), source.tokens.dtype
    return type(source), *((part.shape, part.dtype) for part in _tensors(source))


@dataclass(frozen=True)
class _Survey:
    hooked: bool  # whether a module has hooks
    training: bool  # whether one is being trained
    addresses: int  # where the weights lie: what was recorded reads them there


def _survey(model: nn.Module) -> _Survey:
    """All that every decode asks of all modules, in one walk: those of torch would take as long as several steps."""
    hooked = training = False
    addresses = []
    parts, seen = [model], {model}
    for part in parts:  # grows meanwhile
        inside = part.__dict__
        if inside["_forward_hooks"] or inside["_forward_pre_hooks"]:
            hooked = True
        if inside["training"]:
            training = True
        for weight in inside["_parameters"].values():
            if weight is not None:
                addresses.append(weight.data_ptr())
        for child in inside["_modules"].values():
            if child is not None and child not in seen:
                seen.add(child)
                parts.append(child)
    return _Survey(hooked, training, hash(tuple(addresses)))
