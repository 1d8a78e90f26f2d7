"""One update: score the parts of a batch, sum their gradients, check them, and only then change the weights."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dispatch import observed
from regard.data.batches import Batch, Feed
from regard.errors import RegardError
from regard.layers.inference_only import packable
from regard.models.protocols import Loss, Trains
from regard.models.training_modules import TrainingModules
from regard.runs.settings import Training
from regard.training.captured_update import CapturedUpdate, CapturedUpdates
from regard.training.distribution import BatchPlace, World, apart, scored, share_of
from regard.training.observers import Update
from regard.training.shapes import evened
from regard.training.state import TrainingState, normalise_

WIDE = 512  # on two cores with AVX-512 a step took 0.67× at width 512, as long at 256, and 1.35× at 128


@dataclass(frozen=True, eq=False)
class Work:
    """What this process does of an update: its batches, already where the model is."""

    place: BatchPlace
    batches: Sequence[Batch]
    idle: bool  # there were fewer rows than processes, and none for this one


@dataclass(frozen=True, eq=False)
class Pending:
    """Sums over an update that may still be under way on a GPU: not synchronised yet."""

    sums: Float[
        Tensor, " n"
    ]  # total, count, processes asked to stop, the metrics; if captured, the gradient's norm
    metrics: Sequence[str]
    stop: bool = False  # this process was asked to
    captured: CapturedUpdate | None = None  # the CUDA graph under way


class Updater:
    """Makes the updates of a training: `prepare`, `compute`, `apply`.

    The mathematics does not depend on the number of processes or parts: gradients are sums, divided by the count
    over all of them. Random numbers are a function of (seed, step, process), so none have to be remembered.
    """

    def __init__(self, state: TrainingState, settings: Training, *, world: World, seed: int) -> None:
        self.state, self.settings, self.world, self.seed = state, settings, world, seed
        self._scored: nn.Module | None = None
        self._metrics: Sequence[str] = ()
        precision = chosen_precision(settings, world.device, state.model)
        self._mixed = precision != "float32"
        if self._mixed and world.device.type == "cpu":
            _refuse_lstm(state.model)
        self._modules = TrainingModules(
            state.model, precision, compiled_blocks=settings.cuda_graphs == "compiled"
        )
        self.report = self._modules.report
        suited = settings.cuda_graphs != "never" and CapturedUpdates.suits(settings, world)
        self._captured = CapturedUpdates(state, settings, self._sums) if suited else None

    @property
    def uncaptured(self) -> str | None:
        """Why updates on a GPU are computed without CUDA graphs though they may be; None while they are captured."""
        settings = self.settings
        if self.world.device.type != "cuda" or settings.cuda_graphs == "never":
            return None
        if self._captured is None:
            parts = f"{self.world.size} processes, {settings.accumulate} parts an update"
            return f"captured are updates of one process in one part, not of {parts}"
        return self._captured.refusal

    def prepare(self, feed: Feed[Any], place: BatchPlace) -> Work:
        """This process's rows of an update as batches."""
        if not len(place.samples):
            raise RegardError(f"batch {place.position} of epoch {place.epoch} has no samples")
        share = share_of(
            place.samples, rank=self.world.rank, size=self.world.size, parts=self.settings.accumulate
        )
        batches = [feed.batch(each) for each in share or [place.samples[:1]]]
        if self._captured is not None:
            batches = [self._captured.shaped(batch) for batch in batches]
        elif self._mixed and self.world.device.type == "cpu":
            batches = [evened(batch) for batch in batches]
        return Work(place, [batch.to(self.world.device) for batch in batches], idle=not share)

    def compute(self, work: Work, *, stop: bool) -> Pending:
        """Leave the summed gradients in the weights. Says `stop` to the other processes."""
        if self._scored is None:
            self._scored = scored(self.state.model, self.world, first=work.batches[0])
        model = self._scored
        seed = seed_of(self.seed, self.state.progress.step + 1, self.world.rank)
        torch.manual_seed(seed)  # after all that draws once a process, such as the batch that is tried out
        if self._captured is None:
            sums = self._computed(model, work, stop=stop)
            return Pending(sums, self._metrics, stop=stop)
        if observed(self.state.model):
            if self.settings.cuda_graphs == "compiled":
                raise RegardError(
                    "cuda_graphs = compiled: compiled blocks cannot be watched; train with cuda_graphs = auto to watch"
                )
            return Pending(self._computed(model, work, stop=stop), self._metrics, stop=stop)
        captured = self._captured.update_of(work.batches[0])
        if captured is None:
            with self._captured.eagerly():
                return Pending(self._computed(model, work, stop=stop), self._metrics, stop=stop)
        torch.manual_seed(seed)  # again, for capturing draws too
        captured.compute()
        return Pending(captured.found, self._metrics, stop=stop, captured=captured)

    def _computed(self, model: nn.Module, work: Work, *, stop: bool) -> Float[Tensor, " n"]:
        """The sums of an update computed without a CUDA graph, part by part."""
        self.state.optimiser.zero_grad(set_to_none=True)
        losses = []
        for number, batch in enumerate(work.batches, 1):
            with apart(model, sync=number == len(work.batches)):
                with self._in_precision():
                    loss = model(batch, idle=work.idle)
                loss.total.backward()
            losses.append(loss)
        self._metrics = sorted(losses[0].metrics)
        return self.world.sum_(_summed(losses, self._metrics, stop=stop, device=self.world.device))

    @contextmanager
    def _in_precision(self) -> Iterator[None]:
        """The modules optimised for training, and torch's autocast for all others; evaluations see the plain model."""
        device = self.world.device.type
        with (
            self._modules.in_place(),
            torch.autocast(device, dtype=torch.bfloat16, enabled=self._mixed),
        ):
            yield

    def _sums(self, batch: Batch) -> Float[Tensor, " n"]:
        """One part of one process, for what is captured."""
        with self._in_precision():
            loss = cast(Trains[Batch], self.state.model).loss(batch)
        loss.total.backward()  # type: ignore[no-untyped-call]
        return _summed([loss], sorted(loss.metrics), stop=False, device=self.world.device)

    def apply(self, work: Work, pending: Pending) -> tuple[Update, bool]:
        """Change the weights, unless a number is not finite. What the update was; whether to stop after it.

        Waits for the GPU once: everything that has to be known comes over in one piece.
        """
        state, step = self.state, self.state.progress.step + 1
        rate = rate_at(step, self.settings)
        for group in state.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if pending.captured is not None:
            pending.captured.applying.replay()  # a GPU goes on while the host learns what was found
            values = pending.captured.values()
        else:
            values = self._normalised(pending.sums).tolist()
        total, count, stops, *metrics, length = values
        if not (math.isfinite(total) and math.isfinite(length)):
            raise RegardError(_not_finite(step, work.place, total / max(count, 1), length))
        if pending.captured is None:
            state.optimiser.step()
        if state.mean is not None:
            state.mean.update(step)
        update = Update(
            step=step,
            epoch=work.place.epoch,
            total=total,
            count=int(count),
            metrics=dict(zip(pending.metrics, metrics, strict=True)),
            rate=rate,
            norm=length,
        )
        return update, pending.stop or stops > 0

    def _normalised(self, sums: Float[Tensor, " n"]) -> Float[Tensor, " m"]:
        """Gradients as means, and their norm beside the sums."""
        gradients = self.state.gradients()
        if not gradients:
            raise RegardError("the loss depends on no weight that is trained: are the wrong parts frozen?")
        # Processes are averaged over by DistributedDataParallel, so the sum is this many times what is there.
        norm = normalise_(gradients, sums[1].clamp(min=1) / self.world.size, clip=self.settings.clip)
        return torch.cat([sums, norm.to(sums)[None]])


def seed_of(seed: int, step: int, rank: int) -> int:
    """A seed that has nothing to do with that of the step before, or of the next process."""
    return int.from_bytes(hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()[:7])


def _summed(
    losses: Sequence[Loss], names: Sequence[str], *, stop: bool, device: torch.device
) -> Float[Tensor, " n"]:
    asked = torch.full((1,), float(stop), dtype=torch.float64, device=device)
    parts = []
    for loss in losses:
        total, count, *metrics = (
            value.detach().to(device, torch.float64)
            for value in (loss.total, loss.count, *(loss.metrics[name] for name in names))
        )
        parts.append(torch.cat([torch.stack([total, count]), asked, *(metric[None] for metric in metrics)]))
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def _not_finite(step: int, place: BatchPlace, loss: float, norm: float) -> str:
    some = ", ".join(str(number) for number in list(place.samples)[:8])
    more = ", …" if len(place.samples) > 8 else ""
    return (
        f"step {step} stops before its update: the loss is {loss}, the norm of the gradient {norm} "
        f"(epoch {place.epoch}, batch {place.position}, samples {some}{more}); "
        "the weights are as they were: lower the rate, warm up longer, or look at these samples"
    )


def inverse_square_root(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, √(w / t)): up in a line, then down with the root (Vaswani 2017, eq. 3).

    The paper's d_model^-½ · min(t^-½, t · w^-1½) has the same shape; here its peak, at t = w, is `rate`.
    """
    warmup = max(warmup, 1)
    return rate * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, rate: float, warmup: int, steps: int) -> float:
    """rate · ½(1 + cos π(t - w) / (T + 1 - w)): half a wave from the peak down (Loshchilov 2017, eq. 5).

    It reaches zero one update after the last, so that the last still learns something.
    """
    if step < warmup:
        return rate * step / warmup
    share = min((step - warmup) / max(steps + 1 - warmup, 1), 1.0)
    return rate * 0.5 * (1 + math.cos(math.pi * share))


def constant(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, 1): up in a line, then level."""
    return rate * min(step / max(warmup, 1), 1.0)


def rate_at(step: int, settings: Training) -> float:
    """The learning rate that a training asks for at an update."""
    rate, warmup = settings.learning_rate, settings.warmup
    if settings.schedule == "cosine":
        return cosine(step, rate=rate, warmup=warmup, steps=settings.steps)
    if settings.schedule == "constant":
        return constant(step, rate=rate, warmup=warmup)
    return inverse_square_root(step, rate=rate, warmup=warmup)


def chosen_precision(
    settings: Training, device: torch.device, model: nn.Module
) -> Literal["float32", "bf16"]:
    """The precision of the products that the settings ask for.

    "auto" is bf16 on a GPU that has it, and on a CPU that has it for models wide enough to gain from it.
    """
    wanted = settings.precision == "bfloat16"
    if settings.precision == "auto" and device.type == "cuda":
        wanted = torch.cuda.is_bf16_supported(including_emulation=False)
    elif settings.precision == "auto" and device.type == "cpu":
        wanted = torch.cpu._is_avx512_bf16_supported() and _width(model) >= WIDE
    return "bf16" if wanted else "float32"


def _refuse_lstm(model: nn.Module) -> None:
    """Raise where a CPU without 16-bit products would have to train an LSTM in them, which oneDNN cannot."""
    if not packable() or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for name, part in model.named_modules():
        if isinstance(part, nn.LSTM):
            raise RegardError(
                f"training.precision=bfloat16 for an LSTM ({name or 'the model'}) "
                "needs a CPU that multiplies 16-bit numbers, and this one does not: give training.precision=float32"
            )


def _width(model: nn.Module) -> float:
    """The shorter side of a typical matrix."""
    return median([min(weight.shape) for weight in model.parameters() if weight.ndim == 2] or [0])
