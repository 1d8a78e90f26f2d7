"""Decoding over static caches on a GPU: the same kernels at every step, replayed from a CUDA graph.

With observers or hooks, which take Python at every step, the same steps are launched kernel by kernel; nothing else
depends on them. Graphs are kept for the shapes that were used last, and end with their model.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.dispatch import observed
from regard.data.batches import START, Sequences
from regard.decoding.decode import Limits, MakeSearch, RowKeys, evaluating, per_row, report_rows
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.models.cuda_graph import Captured, Capturing, Readback
from regard.models.protocols import Checks, StaticState

_MULTIPLE = 16  # of tokens, that limits and sources are rounded up to: fewer shapes
_MAX_SHAPES = 8  # of searches and caches, for a model
_MAX_SOURCES = 64  # shapes of sources, for each of those
_LOOK_EVERY = 8  # steps between two looks whether all texts are over
_LOOK_AHEAD = 2  # steps that are launched before the answer is waited for: the GPU is never without work


def static_decode(
    model: Any,
    source: Any,
    make: MakeSearch,
    *,
    limits: Limits,
    name: tuple[Hashable, ...],
    group: int,
    row_keys: RowKeys | None = None,
) -> list[list[Hypothesis]] | None:
    """The texts of every source; None where the model has no static caches of this size."""
    if isinstance(model, Checks):
        model.check(source)
    most = per_row(limits, len(source))
    capacity = _rounded(max(most))
    shape = (*name, capacity, *_shape(source))
    graphs = _graphs.setdefault(model, _Graphs())
    with graphs.lock:  # threads that decode with one model take turns: its graphs share their buffers
        known, watched = graphs.by_shape.get(shape), observed(model)
        with torch.no_grad():
            begun = known is not None and not watched and known.begin_early(source, most, row_keys)
        surveyed = survey(model)  # while the GPU reads the source
        with evaluating(model) if surveyed.training else torch.no_grad():
            if watched or surveyed.hooked:
                state = model.start(source)
                eager = _StaticDecode.of(model, state, make, most, capacity, group)
                if eager is None:
                    return None
                texts = eager.prepared(most, row_keys).run(model, most)
                report_rows(model, texts, int(eager.state.at))
                return texts
            if known is None or known.weights != surveyed.weights:
                made = _StaticDecode.of(model, model.start(source), make, most, capacity, group)
                if made is None:
                    return None
                known, begun = _CapturedDecode(made, model, surveyed.weights), False
            graphs.keep(shape, known)
            if not begun:
                known.decode.prepared(most, row_keys)
                known.begin(model, source)
            return known.run(most)


class _StaticDecode:
    """The buffers of a decode of one shape: caches and search. Holds no reference to the model."""

    def __init__(self, state: StaticState, search: Search) -> None:
        self.state, self.search = state, search

    @classmethod
    def of(
        cls, model: Any, state: Any, make: MakeSearch, most: list[int], capacity: int, group: int
    ) -> "_StaticDecode | None":
        static = model.static_state(state, capacity=capacity, group=group)
        if static is None:
            return None
        made = cls(static, make(most, capacity=capacity, device=static.at.device))
        made.search.begin(START)
        return made

    def prepared(self, most: list[int], row_keys: RowKeys | None) -> "_StaticDecode":
        """With the limits, and the random keys, of the next sources."""
        self.search.limit(most)
        if row_keys is not None:
            self.search.use_row_keys(row_keys(len(most)))
        return self

    def begin(self, model: Any, source: Any) -> None:
        """Read the sources, and start over."""
        self.state.take(model.start(source))
        self.search.begin(START)

    def step(self, model: Any) -> None:
        """One token more for every text that is not over."""
        logits = model.step_static(self.search.tokens, self.state)
        self.state.advance(self.search.advance(logits, self.state.at))

    def run(self, model: Any, most: list[int]) -> list[list[Hypothesis]]:
        """Step by step."""
        for _ in range(max(most)):
            self.step(model)
            if bool(self.search.over.all()):
                break
        return self.search.texts(range(len(most)))


class _CapturedDecode:
    """A decode of one shape whose steps are replayed from a CUDA graph."""

    def __init__(self, decode: _StaticDecode, model: nn.Module, weights: int) -> None:
        self.decode, self.weights = decode, weights
        self._addresses = [(weight, weight.data_ptr()) for weight in model.parameters()]
        self._capturing = Capturing()
        self._step: Captured[None] | None = None
        self._begins: OrderedDict[Hashable, _Begin] = OrderedDict()
        self._over = Readback(decode.search.over.all())

    def begin_early(self, source: Any, most: list[int], row_keys: RowKeys | None) -> bool:
        """Begin before the model was surveyed, if that takes no module and the weights are where they were."""
        begin = self._begins.get(_shapes(source))
        if begin is None or not begin.captured:
            return False
        if any(weight.data_ptr() != address for weight, address in self._addresses):
            return False
        self.decode.prepared(most, row_keys)
        begin.replay(source)
        return True

    def begin(self, model: Any, source: Any) -> None:
        """Read the sources, and start over."""
        decode = self.decode
        if self._step is None:
            with self._capturing.eagerly():
                for _ in range(2):  # libraries choose their kernels in the first steps
                    decode.begin(model, source)
                    decode.step(model)
            self._step = self._capturing.capture(lambda: decode.step(model))
        begin = self._begins.setdefault(_shapes(source), _Begin())
        self._begins.move_to_end(_shapes(source))
        if len(self._begins) > _MAX_SOURCES:
            self._begins.popitem(last=False)
        begin(decode, model, source, self._capturing)

    def run(self, most: list[int]) -> list[list[Hypothesis]]:
        """The texts of the sources that were read."""
        if self._step is None:
            raise RuntimeError("a decode runs after it began")
        for step in range(1, max(most) + 1):
            self._step.replay()
            if step % _LOOK_EVERY == 0:
                self._over.send(self.decode.search.over.all())
            elif step > _LOOK_EVERY and step % _LOOK_EVERY == _LOOK_AHEAD and bool(self._over.wait()):
                break
        return self.decode.search.texts(range(len(most)))


class _Begin:
    """Reading sources of one shape: captured when the shape comes a second time, if it can be."""

    def __init__(self) -> None:
        self._times = 0
        self._source: Any = None
        self._graph: Captured[None] | None = None

    def __call__(self, decode: _StaticDecode, model: Any, source: Any, capturing: Capturing) -> None:
        self._times += 1
        if self._times == 2:
            held = replace(source, **{name: part.clone() for name, part in _named(source)})
            self._source = held
            with capturing.eagerly():
                decode.begin(model, held)
            try:
                self._graph = capturing.capture(lambda: decode.begin(model, held))
            except RuntimeError:  # an encoder that waits for the device
                torch.cuda.current_stream().synchronize()
        if self._graph is None:
            decode.begin(model, source)
        else:
            self.replay(source)

    @property
    def captured(self) -> bool:
        """Whether no module is called."""
        return self._graph is not None

    def replay(self, source: Any) -> None:
        """Read these sources as they were captured."""
        if self._graph is None:
            raise RuntimeError("nothing was captured")
        for buffer, new in zip(_tensors(self._source), _tensors(source), strict=True):
            buffer.copy_(new, non_blocking=True)
        self._graph.replay()


class _Graphs:
    """The captured decodes of a model, by shape; the one used last is the last."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a hook may decode with its own model
        self.by_shape: OrderedDict[Hashable, _CapturedDecode] = OrderedDict()

    def keep(self, shape: Hashable, decode: _CapturedDecode) -> None:
        """Keep this one, and let go of the one not used for longest if there are too many."""
        self.by_shape[shape] = decode
        self.by_shape.move_to_end(shape)
        if len(self.by_shape) > _MAX_SHAPES:
            self.by_shape.popitem(last=False)


_graphs: "weakref.WeakKeyDictionary[nn.Module, _Graphs]" = weakref.WeakKeyDictionary()


def _rounded(count: int) -> int:
    return -(-count // _MULTIPLE) * _MULTIPLE


def _named(source: Any) -> list[tuple[str, Tensor]]:
    parts = ((each.name, getattr(source, each.name)) for each in fields(source))
    return [(name, part) for name, part in parts if isinstance(part, Tensor)]


def _tensors(source: Any) -> list[Tensor]:
    return [part for _, part in _named(source)]


def _shapes(source: Any) -> Hashable:
    """What sources that are read alike have in common."""
    return tuple((part.shape, part.dtype) for part in _tensors(source))


def _shape(source: Any) -> tuple[Hashable, ...]:
    """What sources that share caches have in common: the second axis of texts is rounded up."""
    if isinstance(source, Sequences):
        rows, longest = source.tokens.shape
        return Sequences, rows, _rounded(longest), source.tokens.dtype
    return type(source), *((part.shape, part.dtype) for part in _tensors(source))


@dataclass(frozen=True)
class Survey:
    """What every decode has to know about all modules of a model."""

    hooked: bool  # whether one has hooks
    training: bool  # whether one is in training mode
    weights: int  # which modules and weights there are, and where: what was captured reads them there


def survey(model: nn.Module) -> Survey:
    """In one walk: `modules()` and `parameters()` would take as long as several steps."""
    hooked = training = False
    identities = []
    parts, seen = [model], {model}
    for part in parts:  # grows meanwhile
        inside = part.__dict__
        hooked = hooked or bool(inside["_forward_hooks"] or inside["_forward_pre_hooks"])
        training = training or inside["training"]
        identities.append(id(part))
        for weight in inside["_parameters"].values():
            if weight is not None:
                identities.append(weight.data_ptr())
        for child in inside["_modules"].values():
            if child is not None and child not in seen:
                seen.add(child)
                parts.append(child)
    return Survey(hooked, training, hash(tuple(identities)))
