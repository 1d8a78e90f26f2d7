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
    AddedNorm,
    Float32Linear,
    FusedResidual,
    Int8Linear,
    PackedLinear,
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

    def line(self) -> str:
        """The summary, and how many modules were replaced and kept."""
        replaced, kept = (sum(count for count, *_ in each) for each in (self.replaced, self.kept))
        return f"{self.summary}; modules replaced: {replaced}, kept: {kept}"


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
        model.optimised = modules.report  # type: ignore[assignment]
        return Optimised(model, modules.report)
    if for_ != "inference":
        raise RegardError(f"for_={for_!r}: give 'inference' or 'training'")
    refuse_optimised(model)
    weights = list(model.parameters())
    on_gpu = bool(weights) and weights[0].device.type != "cpu"
    _check_precision(model, precision, on_gpu=on_gpu)
    restore(model)
    whole = nn.ModuleList([model]).eval()  # so that the model itself can be replaced
    work = _Optimising()
    if on_gpu:
        whole.to(GPU_DTYPES[precision])
        summary = f"optimised for inference: {precision} on a GPU"
        work.fuse_steps(whole)
        work.fuse_residuals(whole, None)
        work.keep(whole, f"as it is, in {precision}")
    else:
        found = kernels()
        summary = f"optimised for inference: {precision}, {built()}"
        work.fuse_residuals(whole, found)
        work.pack(whole, precision, found)
        work.keep(whole, "no faster form of it")
    done: nn.Module = whole[0].requires_grad_(False)
    report = work.report(summary)
    done.optimised = report  # type: ignore[assignment]  # for whoever is given the model without the report
    return Optimised(done, report)


def built() -> str:
    """Which C kernels inference on this CPU uses, in words."""
    found = kernels()
    return NOT_BUILT if found is None else f"C kernels ({found.level})"


def device_of(model: nn.Module) -> torch.device:
    """Where a model computes. One whose weights are all packed has no parameters, and is on the CPU."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def restore(model: nn.Module) -> nn.Module:
    """Give the modules of a model optimised for training their plain classes back."""
    replaced = [part for part in model.modules() if isinstance(part, MixedPrecision)]
    for part in replaced:
        become(part, type(part).plain)
    if str(getattr(model, "optimised", "")).startswith("optimised for training"):
        del model.optimised
    return model


def refuse_optimised(model: nn.Module) -> None:
    """Raise where modules of a model are optimised for inference: they have no plain form to begin from."""
    kinds = PackedLinear | AddedNorm
    found = Counter(type(part).__name__ for part in model.modules() if isinstance(part, kinds))
    if found:
        there = ", ".join(f"{count} {name}" for name, count in found.items())
        raise RegardError(
            f"this model is optimised for inference already ({there}): begin from a plain one, "
            "regard.load(…, optimise=False)"
        )


def _check_precision(model: nn.Module, precision: str, *, on_gpu: bool) -> None:
    """Refuse before anything is replaced what could not be replaced."""
    other = next((weight.dtype for weight in model.parameters() if weight.dtype != torch.float32), None)
    if other is not None:
        raise RegardError(f"precision={precision!r} is for float32 models, and this one is {other}")
    known, place = (GPU_DTYPES, "a GPU") if on_gpu else (KINDS, "the CPU")
    if precision not in known:
        raise RegardError(f"precision={precision!r} on {place}: give {', '.join(map(repr, known))}")
    if not on_gpu and precision != "float32" and not packable():
        raise RegardError(f"precision={precision!r} needs a torch built with oneDNN, and this one is not")
    if not on_gpu and precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise RegardError(
            "precision='bf16' needs a CPU that multiplies 16-bit numbers (AVX-512), and this one does not: give 'float32' or "
            "'int8'"
        )
    if precision == "int8":
        for name, part in model.named_modules():
            if type(part) is nn.Linear and not bool(part.weight.isfinite().all()):
                raise RegardError(
                    f"precision='int8': {f'{name}.weight'.lstrip('.')} holds inf or NaN, which no integer can represent"
                )


def altered(layer: nn.Module) -> str | None:
    """Why a layer must be called as it is: hooks, or a forward of its own. None: it may be replaced."""
    hooks = (
        layer._forward_hooks,
        layer._forward_pre_hooks,
        layer._backward_hooks,
        layer._backward_pre_hooks,
    )
    if any(hooks):
        return "it has hooks"
    return "it has a forward of its own" if "forward" in vars(layer) else None


_TORCHS = (nn.TransformerEncoder.forward, nn.TransformerEncoderLayer.forward)


def _read_by_torch(model: nn.Module) -> set[nn.Module]:
    """Linear maps whose weights the fast path of torch's encoder reads without calling them."""
    encoders = [part for part in model.modules() if type(part).forward in _TORCHS]
    return {inner for part in encoders for inner in part.modules() if type(inner) is nn.Linear}


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
                inside = (child, child.norm, child.dropout, child.depth)
                why = next(filter(None, map(altered, inside)), None) or obstacle(child, found)
                if why is None:
                    setattr(part, name, FusedResidual(child, found))
                    self._replaced["Residual", "FusedResidual"] += 1
                else:
                    self._kept["Residual", why] += 1

    def pack(self, model: nn.Module, precision: str, found: Kernels | None) -> None:
        if not packable():
            self._kept["Linear", "this torch is built without oneDNN, which packs weights"] += sum(
                type(part) is nn.Linear for part in model.modules()
            )
            return
        kind = KINDS[precision]
        crosses = {part.cross.input for part in model.modules() if isinstance(part, DecoderBlock)}
        self._why |= dict.fromkeys(_read_by_torch(model), "torch's encoder reads its weights")
        for part in list(model.modules()):
            if isinstance(part, InProjection):
                continue
            for name, child in list(part.named_children()):
                if isinstance(child, InProjection):
                    if not child.packed:
                        self._why |= dict.fromkeys(child.modules(), "query, key and value differ in width")
                    elif (why := altered(child) or altered(child.all)) is not None:
                        self._why |= dict.fromkeys(child.modules(), why)
                    else:
                        setattr(part, name, PackedProjection(child, kind, found, apart=child in crosses))
                        self._replaced["InProjection", f"PackedProjection of {kind.__name__}"] += 1
                elif type(child) is nn.Linear and child not in self._why:
                    if (why := altered(child)) is not None:
                        self._why[child] = why
                        continue
                    setattr(part, name, kind(child.weight, child.bias, found))
                    self._replaced["Linear", kind.__name__] += 1
            if (
                isinstance(part, FeedForward)
                and part.activation is F.relu
                and isinstance(part.outer, Float32Linear | Int8Linear)
                and altered(part.dropout) is None
            ):
                part.activation, part.outer.rectifies = nn.Identity(), True
                self._replaced["ReLU of a FeedForward", f"part of the {kind.__name__} after it"] += 1
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
