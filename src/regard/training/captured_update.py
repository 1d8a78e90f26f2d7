"""Updates on a GPU captured as CUDA graphs, one for each shape of batch, and launched as such from then on.

A graph launches the same kernels in the same order, so an update comes out as if it had not been captured, dropout
included: random numbers are a function of the seed that is set before each. What is captured must not depend on
anything but the shapes of its batch, which is so for packed texts filled up to a round number of tokens, and for padded
ones that a recurrence reads cell by cell.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernels.varlen import CaptureError
from regard.data.batches import Batch, Packed, Pairs, Sequences
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.embedding import Learned
from regard.models.cuda_graph import Captured, Capturing, Readback
from regard.models.recurrent import RecurrentTranslator
from regard.runs.settings import Training
from regard.training.distribution import World
from regard.training.shapes import filled_up, reaching, rounded
from regard.training.state import TrainingState, normalise_

_WARM = 2  # updates of a shape before it is captured: libraries choose their kernels in the first ones
_MAX_SHAPES = 32  # that are captured; others are computed as they come

Sums = Callable[[Batch], Float[Tensor, " n"]]  # leaves summed gradients in the weights


@dataclass(frozen=True, eq=False)
class CapturedUpdate:
    """One update: its batch, and its two halves."""

    batch: Batch
    longest: tuple[int, ...]
    computing: Captured["_Found"]
    applying: Captured[None]  # which changes nothing if what was found is not finite
    readback: Readback

    @property
    def found(self) -> Float[Tensor, " n"]:
        """Sums, then the norm of the gradient."""
        return self.computing.result.numbers

    def compute(self) -> None:
        """The first half; what it finds is sent to the host."""
        self.computing.replay()
        self.readback.send(self.found)

    def values(self) -> list[float]:
        """What was found. Waits for the first half alone."""
        return self.readback.wait().tolist()


@dataclass(frozen=True, eq=False)
class _Found:
    """What the first half leaves behind, for as long as the second reads it."""

    numbers: Float[Tensor, " n"]
    gradients: Sequence[Tensor]
    astray: Float[Tensor, ""]  # 1 if a number is not finite


class CapturedUpdates:
    """Captures updates, and launches those that are captured."""

    def __init__(self, state: TrainingState, settings: Training, sums: Sums) -> None:
        self.state, self.settings, self._sums = state, settings, sums
        self._capturing = Capturing()  # one for all: never are two updates under way
        self._updates: dict[tuple[Any, ...], CapturedUpdate] = {}
        self._seen: dict[tuple[Any, ...], int] = {}
        self._compiled: dict[nn.Module, Any] = {}
        learned = (part.table.shape[0] for part in state.model.modules() if isinstance(part, Learned))
        self._end = min(learned, default=None)  # of the positions that are known
        self.refusal: str | None = None  # why nothing is captured
        for group in state.optimiser.param_groups:
            group["capturable"] = True
            group["lr"] = torch.tensor(float(group["lr"]), device="cuda")

    @staticmethod
    def suits(settings: Training, world: World) -> bool:
        """Whether updates are to be captured: one process, one part, on a GPU."""
        if settings.cuda_graphs == "never":
            return False
        able = world.size == 1 and settings.accumulate == 1 and world.device.type == "cuda"
        if settings.cuda_graphs == "always" and not able:
            raise RegardError(
                f"cuda_graphs = always, with {world.size} processes on {world.device} and accumulate = "
                f"{settings.accumulate}: updates are captured in one process, in one part, on a GPU; set cuda_graphs = auto"
            )
        return able

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

    def update_of(self, batch: Batch) -> CapturedUpdate | None:
        """The captured update for a batch, already holding it; None while there is none."""
        if self.refusal is None and not _shaped(batch):
            self.refusal = _unshaped(batch)
        if self.refusal is not None:
            if self.settings.cuda_graphs == "always":
                raise RegardError(f"cuda_graphs = always, and updates cannot be captured: {self.refusal}")
            return None
        shape = tuple((tuple(part.shape), part.dtype) for part in _tensors(batch))
        known = self._updates.get(shape)
        if known is not None and all(a <= b for a, b in zip(_longest(batch), known.longest, strict=True)):
            for held, new in zip(_tensors(known.batch), _tensors(batch), strict=True):
                held.copy_(new)
            return known
        self._seen[shape] = self._seen.get(shape, 0) + 1
        if self._seen[shape] <= _WARM or (known is None and len(self._updates) == _MAX_SHAPES):
            return None
        try:
            self._updates[shape] = self._captured(batch)
        except CaptureError as error:
            self.refusal = str(error)
            return self.update_of(batch)
        return self._updates[shape]

    @contextlib.contextmanager
    def eagerly(self) -> Iterator[None]:
        """Compute on the stream that is captured from, with the blocks compiled if they are to be."""
        with self._blocks_compiled(), self._capturing.eagerly():
            yield

    def _captured(self, batch: Batch) -> CapturedUpdate:
        optimiser = self.state.optimiser
        optimiser.zero_grad(set_to_none=True)
        with self._blocks_compiled():
            computing = self._capturing.capture(lambda: self._find(batch))
        # torch's way to have an optimiser leave everything as it is.
        optimiser.found_inf = computing.result.astray  # type: ignore[attr-defined]
        try:
            applying = self._capturing.capture(self._step)
        finally:
            del optimiser.found_inf  # type: ignore[attr-defined]
        readback = Readback(computing.result.numbers)
        return CapturedUpdate(batch, _longest(batch), computing, applying, readback)

    def _find(self, batch: Batch) -> _Found:
        sums = self._sums(batch)
        gradients = self.state.gradients()
        norm = normalise_(gradients, sums[1].clamp(min=1), clip=self.settings.clip)
        numbers = torch.cat([sums, norm.to(sums)[None]])
        astray = (~torch.stack([numbers[0], numbers[-1]]).isfinite()).any().float()
        return _Found(numbers, gradients, astray)

    def _step(self) -> None:
        self.state.optimiser.step()

    @contextlib.contextmanager
    def _blocks_compiled(self) -> Iterator[None]:
        """Blocks compiled while they train; evaluating and decoding find them as they were."""
        if self.settings.cuda_graphs != "compiled":
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


def _shaped(batch: Batch) -> bool:
    """Whether a batch is of texts whose number and lengths need not be known on the host."""
    sides = (batch.source, batch.target) if isinstance(batch, Pairs) else (batch,)
    return all(isinstance(side, Packed) or (isinstance(side, Sequences) and side.filled) for side in sides)


def _unshaped(batch: Batch) -> str:
    """Why the updates of such batches are not captured."""
    texts = batch.target if isinstance(batch, Pairs) else batch
    if isinstance(texts, Sequences) and not (
        isinstance(batch, Pairs) and not isinstance(batch.source, Sequences)
    ):
        return "the lengths of padded texts differ from batch to batch; training.packing=true ends that"
    return "that is done with packed texts and with recurrent translators"


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
