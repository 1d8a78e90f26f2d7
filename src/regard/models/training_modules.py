"""Which modules of a model have a form for training in mixed precision, and putting them in place."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn import functional as F

from regard.attention.multihead import InProjection, MultiHeadAttention
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual, SwiGLU
from regard.layers.mixed_precision import (
    AddedDropout,
    ForkedNorm,
    MixedFeedForward,
    MixedLinear,
    MixedNorm,
    MixedPrecision,
    MixedProjection,
    MixedResidual,
    RectifiedLinear,
    become,
    norm_obstacle,
    residual_obstacle,
    weight_obstacle,
)
from regard.models.objective import MixedWordLoss, WordLoss
from regard.models.optimise import GPU_DTYPES, OptimisationReport, altered, refuse_optimised, restore


class TrainingModules:
    """The modules of a model that have a form for mixed precision, and the report of them.

    A module gets another class and keeps all else: its parameters, its name, its hooks, and every reference to it.
    `with modules.in_place():` is for a training that evaluates with the plain modules.
    """

    def __init__(self, model: nn.Module, precision: str, *, compiled_blocks: bool = False) -> None:
        if precision not in GPU_DTYPES:
            raise RegardError(
                f"precision={precision!r} for training: give {', '.join(map(repr, GPU_DTYPES))}"
            )
        refuse_optimised(model)
        restore(model)
        self._dtype = GPU_DTYPES[precision]
        self._classes: dict[nn.Module, type[nn.Module]] = {}
        self._kept: Counter[tuple[str, str]] = Counter()
        if precision != "float32":
            self._plan(model, compiled_blocks=compiled_blocks)
        replaced = Counter((type(part).__name__, kind.__name__) for part, kind in self._classes.items())
        place = "on a GPU" if any(weight.is_cuda for weight in model.parameters()) else "on the CPU"
        self.report = OptimisationReport(
            summary=f"optimised for training: {precision} {place}, modules replaced: {len(self._classes)}",
            replaced=tuple((count, *names) for names, count in replaced.items()),
            kept=tuple((count, *names) for names, count in self._kept.items()),
        )

    def install(self) -> None:
        """Put the optimised modules in place."""
        for part, kind in self._classes.items():
            become(part, kind, self._dtype)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The optimised modules, for a while; then those that were there before, so that it may be nested."""
        before = [(part, type(part)) for part in self._classes]
        try:
            self.install()
            yield
        finally:
            for part, kind in before:
                become(part, kind, self._dtype if issubclass(kind, MixedPrecision) else None)

    def _plan(self, model: nn.Module, *, compiled_blocks: bool) -> None:
        compiled = {
            inner
            for block in model.modules()
            if compiled_blocks and isinstance(block, EncoderBlock | DecoderBlock)
            for inner in block.modules()
        }
        for part in model.modules():
            for norm in (getattr(part, name) for name in getattr(part, "product_norms", ())):
                if not isinstance(norm, nn.Identity):
                    self._swap(norm, MixedNorm, norm_obstacle(norm))
            if type(part) is WordLoss:
                self._swap(part, MixedWordLoss, None)
            elif part in compiled:
                if isinstance(part, EncoderBlock | DecoderBlock):
                    self._kept[type(part).__name__, "torch.compile fuses its modules"] += 1
            elif type(part) is Residual:
                self._swap_residual(part)
            elif isinstance(part, InProjection | MultiHeadAttention | FeedForward | SwiGLU):
                self._swap_maps(part)

    def _swap(self, part: nn.Module, kind: type[nn.Module], why: str | None) -> None:
        if why is None:
            self._classes[part] = kind
        else:
            self._kept[type(part).__name__, why] += 1

    def _swap_residual(self, part: Residual) -> None:
        inside = (part.norm, part.dropout, part.depth)
        why = (
            "a module in it has hooks, or a forward of its own"
            if any(map(altered, inside))
            else residual_obstacle(part)
        )
        self._swap(part, MixedResidual, why)
        if why is None:
            self._classes |= {part.norm: ForkedNorm, part.dropout: AddedDropout}

    def _swap_maps(self, part: nn.Module) -> None:
        for child in part.children():
            if type(child) is nn.Linear:
                self._swap(child, MixedLinear, weight_obstacle(child.weight))
        if type(part) is InProjection and any(child in self._classes for child in part.children()):
            self._classes[part] = MixedProjection
        elif type(part) is FeedForward and part.activation is F.relu and self._rectifies(part.inner):
            self._classes |= {part: MixedFeedForward, part.inner: RectifiedLinear}

    def _rectifies(self, inner: nn.Module) -> bool:
        """Whether a product can have its ReLU in it. Hooks see what is before the ReLU."""
        return inner in self._classes and inner.bias is not None and altered(inner) is None
