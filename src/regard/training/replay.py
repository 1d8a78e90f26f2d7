"""Replay: an update on a GPU recorded once for each shape of batch, and from then on started with one call.

A small model waits for its kernels to start far longer than for what they compute. Recorded are the same kernels in
the same order, so an update comes out as if it had not been recorded, dropout included: random numbers are a function
of the seed that is set before each. What is recorded must not depend on anything but the shapes of its batch, which
is so for packed texts filled up to a round number of tokens, and for padded ones that a recurrence reads cell by cell.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernels.packed import ReplayError
from regard.data.batches import Batch, Packed, Pairs, Sequences
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.positions import Learned
from regard.models.recurrent import RecurrentTranslator
from regard.runs.settings import Training
from regard.training.distribution import World
from regard.training.optimiser import normalise_
from regard.training.shapes import filled_up, reaching, rounded
from regard.training.state import State

_WARM = 2  # updates of a shape before it is recorded: libraries choose their kernels in the first ones
_SHAPES = 32  # that are recorded; others are computed as they come

Sums = Callable[[Batch], Float[Tensor, " n"]]  # leaves summed gradients in the weights


@dataclass(frozen=True, eq=False)
class Record:
    """One update: its batch, the two halves of its work, and what is known between them."""

    batch: Batch
    longest: tuple[int, ...]
    between: Sequence[Tensor]  # which the second half reads: they must live as long as it does
    found: Float[Tensor, " n"]  # sums, then the norm of the gradient
    computing: torch.cuda.CUDAGraph
    applying: torch.cuda.CUDAGraph  # which changes nothing if what was found is not finite
    told: Float[Tensor, " n"]  # what was found, where the host can read it
    arrived: torch.cuda.Event

    def compute(self) -> None:
        """The first half; what it finds is sent to the host on its way."""
        self.computing.replay()
        self.told.copy_(self.found, non_blocking=True)
        self.arrived.record()

    def values(self) -> list[float]:
        """What was found. Waits for the first half alone."""
        self.arrived.synchronize()
        return self.told.tolist()


class Replay:
    """Records updates and replays them."""

    def __init__(self, state: State, settings: Training, sums: Sums) -> None:
        self.state, self.settings, self._sums = state, settings, sums
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # One for all records: never are two under way, and what one leaves behind is used up before the next begins.
        self._pool = torch.cuda.graph_pool_handle()
        self._records: dict[tuple[Any, ...], Record] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._compiled: dict[nn.Module, Any] = {}
        learned = (part.table.shape[0] for part in state.model.modules() if isinstance(part, Learned))
        self._end = min(learned, default=None)  # of the positions that are known
        self.refusal: str | None = None  # why nothing is recorded
        for group in state.optimiser.param_groups:
            group["capturable"] = True
            group["lr"] = torch.tensor(float(group["lr"]), device="cuda")

    @staticmethod
    def suits(settings: Training, world: World) -> bool:
        """Whether updates are to be recorded: one process, one part, on a GPU."""
        alone = world.size == 1 and settings.accumulate == 1
        return settings.replay != "none" and alone and world.device.type == "cuda"

    def shaped(self, batch: Batch) -> Batch:
        """Texts filled up to a round shape, ready to be sent over; other batches as they are."""
        if isinstance(self.state.model, RecurrentTranslator) and isinstance(batch, Pairs):
            return Pairs(*(side.pinned() for side in rounded(batch.source, batch.target)))
        if not _shaped(batch):
            return batch
        given = (batch.source, batch.target) if isinstance(batch, Pairs) else (batch,)
        sides = [side.pinned() for side in filled_up(*given, budget=self.settings.batch)]
        if self.refusal is None:
            sides = [reaching(side, self._end) for side in sides]
        return Pairs(*sides) if isinstance(batch, Pairs) else sides[0]

    def record_of(self, batch: Batch) -> Record | None:
        """What to replay for a batch, already holding it; None while there is nothing."""
        if self.refusal is not None or not _shaped(batch):
            return None
        shape = tuple((tuple(part.shape), part.dtype) for part in _tensors(batch))
        known = self._records.get(shape)
        if known is not None and all(a <= b for a, b in zip(_longest(batch), known.longest, strict=True)):
            for held, new in zip(_tensors(known.batch), _tensors(batch), strict=True):
                held.copy_(new)
            return known
        self._seen[shape] = self._seen.get(shape, 0) + 1
        if self._seen[shape] <= _WARM or (known is None and len(self._records) == _SHAPES):
            return None
        try:
            self._records[shape] = self._recorded(batch)
        except ReplayError as error:
            self.refusal = str(error)
            return None
        return self._records[shape]

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Compute on the stream that is recorded from, with the blocks compiled if they are to be."""
        with self._blocks_compiled():
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                yield
            torch.cuda.current_stream().wait_stream(self._stream)

    def _recorded(self, batch: Batch) -> Record:
        optimiser = self.state.optimiser
        computing, applying = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        optimiser.zero_grad(set_to_none=True)
        with self._blocks_compiled(), torch.cuda.graph(computing, stream=self._stream, pool=self._pool):
            sums = self._sums(batch)
            gradients = gradients_of(self.state)
            norm = normalise_(gradients, sums[1].clamp(min=1), clip=self.settings.clip)
            found = torch.cat([sums, norm.to(sums)[None]])
            astray = (~torch.stack([found[0], found[-1]]).isfinite()).any().float()
        optimiser.found_inf = astray  # type: ignore[attr-defined]  # torch's way to tell it to leave all as it is
        try:
            with torch.cuda.graph(applying, stream=self._stream, pool=self._pool):
                optimiser.step()
        finally:
            del optimiser.found_inf  # type: ignore[attr-defined]
        told = torch.empty(found.shape, dtype=found.dtype, pin_memory=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        between = [*gradients, astray]
        return Record(batch, _longest(batch), between, found, computing, applying, told, arrived)

    @contextlib.contextmanager
    def _blocks_compiled(self) -> Iterator[None]:
        """Blocks compiled for as long as they train; who evaluates or decodes finds them as they were."""
        if self.settings.replay != "compiled":
            yield
            return
        blocks = [
            part for part in self.state.model.modules() if isinstance(part, EncoderBlock | DecoderBlock)
        ]
        for block in blocks:
            if block not in self._compiled:
                block.compile()
                self._compiled[block] = block._compiled_call_impl
            block._compiled_call_impl = self._compiled[block]
        try:
            yield
        finally:
            for block in blocks:
                block._compiled_call_impl = None


def gradients_of(state: State) -> list[Tensor]:
    """The gradients there are."""
    trained = (weight for group in state.optimiser.param_groups for weight in group["params"])
    return [weight.grad for weight in trained if weight.grad is not None]


def _shaped(batch: Batch) -> bool:
    """Whether a batch is of texts whose number and lengths are the device's affair alone."""
    sides = (batch.source, batch.target) if isinstance(batch, Pairs) else (batch,)
    return all(isinstance(side, Packed) or (isinstance(side, Sequences) and side.filled) for side in sides)


def _tensors(batch: Any) -> list[Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(batch, Tensor):
        return [batch]
    if not is_dataclass(batch):
        return []
    return [tensor for each in fields(batch) for tensor in _tensors(getattr(batch, each.name))]


def _longest(batch: Any) -> tuple[int, ...]:
    """Of packed texts, the only ones whose shape does not tell."""
    sides = (batch.source, batch.target) if isinstance(batch, Pairs) else (batch,)
    return tuple(side.longest for side in sides if isinstance(side, Packed))
