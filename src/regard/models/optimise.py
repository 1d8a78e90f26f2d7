"""A model made faster for inference or for training: modules replaced by equivalents, and a report of it."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kernels.native import NOT_BUILT, Kernels, kernels
from regard.attention.multihead import InProjection
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, FeedForward, Residual
from regard.layers.inference_only import (
    KINDS,
    FusedResidual,
    Int8Linear,
    PackedProjection,
    obstacle,
    packable,
)
from regard.layers.mixed_precision import MixedPrecision, become

GPU_DTYPES = {"float32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_KEPT = {  # why a module with weights of its own is as it was
    "Embedding": "a table that is read, not multiplied",
    "LayerNorm": "no sum before it",
    "RMSNorm": "no sum before it",
}


@runtime_checkable
class TiesOutput(Protocol):
    """A model that may use its embedding table as the output layer too."""

    output: nn.Module | None  # used instead, once there is one

    def tied_output(self) -> Tensor | None:
        """That table; None where the output layer has weights of its own."""


@runtime_checkable
class FusesStep(Protocol):
    """A model whose decoder can step with few kernels on a GPU."""

    def fuse_step(self) -> str | None:
        """Do so from now on; the reason why not, where that cannot be."""


@dataclass(frozen=True, kw_only=True)
class OptimisationReport:
    """What was replaced by what, what was not, and why: one line for each kind of module."""

    summary: str
    replaced: tuple[tuple[int, str, str], ...]  # how many, what, by what
    kept: tuple[tuple[int, str, str], ...]  # how many, what, why

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"  replaced  {count:>3} {what} → {by}" for count, what, by in self.replaced]
        lines += [f"  kept      {count:>3} {what}: {why}" for count, what, why in self.kept]
        return "\n".join(lines)


class Optimised(NamedTuple):
    """A model with faster modules, and what was done to it."""

    model: nn.Module
    report: OptimisationReport


def optimise(
    model: nn.Module, *, for_: Literal["inference", "training"] = "inference", precision: str = "float32"
) -> Optimised:
    """Replace modules by faster ones on the model's device, in place. `print(optimise(model).report)`.

    For inference on the CPU, linear maps are packed in float32, bf16 or int8, and everything else stays float32. On a GPU,
    the whole model is cast to float32, fp16 or bf16. A sum with a norm after it becomes one kernel on both. The modules put
    in place raise under gradients and in training; nothing chooses between kernels afterwards.

    For training in bf16 or fp16, products are computed in 16 bits and their gradients in float32; run the model under
    `torch.autocast` in the same dtype, which computes what was not replaced. Weights and their names stay as they are.
    `restore(model)` undoes it.
    """
    if for_ == "training":
        from regard.models.training_modules import TrainingModules  # which reports as this module does

        modules = TrainingModules(model, precision)
        modules.install()
        model.optimised = modules.report.summary  # type: ignore[assignment]
        return Optimised(model, modules.report)
    if for_ != "inference":
        raise RegardError(f"for_={for_!r}: give 'inference' or 'training'")
    restore(model)
    weights = list(model.parameters())
    other = next((weight.dtype for weight in weights if weight.dtype != torch.float32), None)
    if other is not None:
        raise RegardError(f"precision={precision!r} is for float32 models, and this one is {other}")
    whole = nn.ModuleList([model]).eval()  # so that the model itself can be replaced
    work = _Optimising()
    if weights and weights[0].device.type != "cpu":
        if precision not in GPU_DTYPES:
            raise RegardError(f"precision={precision!r} on a GPU: give {', '.join(map(repr, GPU_DTYPES))}")
        whole.to(GPU_DTYPES[precision])
        summary = f"optimised for inference: {precision} on a GPU"
        work.fuse_steps(whole)
        work.fuse_residuals(whole, None)
        work.keep(whole, f"as it is, in {precision}")
    else:
        if precision not in KINDS:
            raise RegardError(f"precision={precision!r} on the CPU: give {', '.join(map(repr, KINDS))}")
        found = kernels()
        summary = f"optimised for inference: {precision}, {built()}"
        work.fuse_residuals(whole, found)
        work.pack(whole, precision, found)
        work.keep(whole, "no faster form of it")
    done: nn.Module = whole[0].requires_grad_(False)
    done.optimised = summary  # type: ignore[assignment]  # what `repr` of a loaded run says
    return Optimised(done, work.report(summary))


def built() -> str:
    """Which C kernels inference on this CPU uses, in words."""
    found = kernels()
    return NOT_BUILT if found is None else f"C kernels ({found.level})"


def restore(model: nn.Module) -> nn.Module:
    """Give the modules of a model optimised for training their plain classes back."""
    for part in model.modules():
        if isinstance(part, MixedPrecision):
            become(part, type(part).plain)
    model.__dict__.pop("optimised", None)
    return model


def hooked(layer: nn.Module) -> bool:
    """Whether a layer has forward or backward hooks."""
    return any(
        (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    )


class _Optimising:
    """Replaces and counts."""

    def __init__(self) -> None:
        self._replaced: Counter[tuple[str, str]] = Counter()
        self._kept: Counter[tuple[str, str]] = Counter()
        self._why: dict[nn.Module, str] = {}

    def fuse_steps(self, model: nn.Module) -> None:
        for part in model.modules():
            if isinstance(part, FusesStep):
                why = part.fuse_step()
                if why is None:
                    self._replaced["decoding step", "FusedStep"] += 1
                else:
                    self._kept["decoding step", why] += 1

    def fuse_residuals(self, model: nn.Module, found: Kernels | None) -> None:
        for part in list(model.modules()):
            for name, child in list(part.named_children()):
                if type(child) is not Residual:
                    continue
                why = "it has hooks" if hooked(child) or hooked(child.norm) else obstacle(child, found)
                if why is None:
                    setattr(part, name, FusedResidual(child, found))
                    self._replaced["Residual", "FusedResidual"] += 1
                else:
                    self._kept["Residual", why] += 1

    def pack(self, model: nn.Module, precision: str, found: Kernels | None) -> None:
        if not packable():
            if precision != "float32":
                raise RegardError(
                    f"precision={precision!r} needs a torch built with oneDNN, and this one is not"
                )
            self._kept["Linear", "this torch is built without oneDNN, which packs weights"] += sum(
                type(part) is nn.Linear for part in model.modules()
            )
            return
        kind = KINDS[precision]
        crosses = {part.cross.input for part in model.modules() if isinstance(part, DecoderBlock)}
        for part in list(model.modules()):
            if isinstance(part, InProjection):
                continue
            for name, child in list(part.named_children()):
                if isinstance(child, InProjection):
                    if not child.packed:
                        self._why |= dict.fromkeys(child.modules(), "query, key and value differ in width")
                    elif hooked(child) or hooked(child.all):
                        self._why |= dict.fromkeys(child.modules(), "it has hooks")
                    else:
                        setattr(part, name, PackedProjection(child, kind, found, apart=child in crosses))
                        self._replaced["InProjection", f"PackedProjection of {kind.__name__}"] += 1
                elif type(child) is nn.Linear:
                    if hooked(child):
                        self._why[child] = "it has hooks"
                        continue
                    setattr(part, name, kind(child.weight, child.bias, found))
                    self._replaced["Linear", kind.__name__] += 1
            if (
                isinstance(part, FeedForward)
                and part.activation is F.relu
                and isinstance(part.outer, Int8Linear)
            ):
                part.activation, part.outer.rectifies = nn.Identity(), True
                self._replaced["ReLU of a FeedForward", "part of the Int8Linear after it"] += 1
            if isinstance(part, TiesOutput) and (table := part.tied_output()) is not None:
                part.output = kind(table, None, found)
                self._replaced["tied output layer", kind.__name__] += 1

    def keep(self, model: nn.Module, otherwise: str) -> None:
        """Note the modules that still have weights of their own."""
        for part in model.modules():
            name = type(part).__name__
            if next(part.parameters(recurse=False), None) is not None and name != "AddedNorm":
                self._kept[name, self._why.get(part, _KEPT.get(name, otherwise))] += 1

    def report(self, summary: str) -> OptimisationReport:
        return OptimisationReport(
            summary=summary,
            replaced=tuple((count, *names) for names, count in self._replaced.items()),
            kept=tuple((count, *names) for names, count in self._kept.items()),
        )
