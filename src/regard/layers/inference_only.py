"""Modules optimised for inference, put in the place of plain ones by `optimise`. They refuse gradients and training.

On the CPU: linear maps with weights packed once in float32, bfloat16 or 8-bit integers, which have no parameters and
whose inputs and outputs are float32. On both CPU and GPU: a residual whose sum and norm are one kernel.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int, Int8, Integer
from torch import Tensor, nn

from regard.attention.kernels.native import Kernels, in_float_panels, in_panels
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.multihead import InProjection
from regard.data.given import vectors
from regard.errors import RegardError
from regard.layers.blocks import Layer, Residual, after


def refuse_gradients(module: nn.Module, *inputs: Tensor) -> None:
    """Raise where a module that gives no gradients is in training, traced, or given what asks for gradients."""
    if module.training:
        raise RegardError(
            f"{type(module).__name__} is optimised for inference and cannot be trained; {_INSTEAD}"
        )
    if torch._C._get_tracing_state() is not None:
        raise RegardError(
            f"{type(module).__name__} is optimised for inference and cannot be traced; {_INSTEAD}"
        )
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        raise RegardError(
            f"{type(module).__name__} is optimised for inference and gives no gradients, but its input asks for them; "
            f"{_INSTEAD}"
        )


_INSTEAD = "use a plain model: regard.load(…, optimise=False)"


_TINY = 1e-30  # in the place of the largest number of a row of zeros, which divides its numbers
_EXACT = 1024  # products of two whole numbers up to 127 whose sum float32 holds


class PackedLinear(nn.Module, ABC):
    """Wx + b over the last axis, with a W that was packed when the layer was made."""

    def __init__(
        self,
        weight: Float[Tensor, "out in"],
        bias: Float[Tensor, " out"] | None,
        kernels: Kernels | None = None,  # None: torch's operations
    ) -> None:
        super().__init__()
        self.kernels = kernels
        self.out_features, self.in_features = weight.shape
        # Plain attributes: buffers are looked up slowly, and packed weights can neither move nor be saved.
        self.bias = None if bias is None else bias.detach().float().clone()
        self.pack(weight.detach().float())
        self.eval()

    @abstractmethod
    def pack(self, weight: Float[Tensor, "out in"]) -> None:
        """Hold the weights as they are multiplied."""

    def forward(self, x: Float[Tensor, "*b in"]) -> Float[Tensor, "*b out"]:
        """The same map at every position."""
        refuse_gradients(self, x)
        if x.dtype != torch.float32 or not x.is_cpu:
            raise RegardError(
                f"{type(self).__name__} is packed for float32 inputs on the CPU, and was given {x.dtype} on {x.device}: give it "
                "float32, without autocast"
            )
        if x.ndim < 1 or x.shape[-1] != self.in_features:
            raise RegardError(
                f"x is {list(x.shape)}, and {type(self).__name__} maps vectors of {self.in_features} features: make them equal"
            )
        return self.rows(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """As nn.Linear writes it."""
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"

    @abstractmethod
    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """The map of each row."""

    def _apply(self, fn: Any, recurse: bool = True) -> "PackedLinear":
        """Refuse to be moved or cast: torch would do so to the other modules alone."""
        like = fn(torch.zeros(1, device="cpu"))
        if like.dtype != torch.float32 or like.device.type != "cpu":
            raise RegardError(
                f"{type(self).__name__} is packed for float32 inputs on the CPU, and cannot become {like.dtype} on "
                f"{like.device}: regard.load(…, device=…, precision=…), or move a plain model and optimise it there"
            )
        return self

    def _save_to_state_dict(self, *args: Any) -> None:
        """Refuse: a dict without these weights would look whole."""
        raise RegardError(f"{type(self).__name__}: packed weights cannot be saved; {_INSTEAD}")

    def _load_from_state_dict(self, *args: Any) -> None:
        """Refuse: weights would be left as they are."""
        raise RegardError(f"{type(self).__name__}: packed weights cannot be loaded; {_INSTEAD}")

    def __getstate__(self) -> dict[str, Any]:
        """What torch can copy: weights reordered for oneDNN as dense ones, without what is packed on first use."""
        state = {name: value for name, value in self.__dict__.items() if name != "packed"}
        return state | {"weight": self.weight.to_dense()} if "weight" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if "weight" in state:
            self.weight = _reordered(state["weight"])


class Float32Linear(PackedLinear):
    """The map as it is, in the layout in which the C kernel or oneDNN multiplies. Where it `rectifies`, of max(x, 0).

    In the C kernel a row's result depends on that row alone, to the bit, however many rows there are.
    """

    rectifies = False

    def pack(self, weight: Float[Tensor, "out in"]) -> None:
        """In float32."""
        self.panels: Tensor | None = None
        if self.kernels is not None and self.kernels.multiplies_float32:
            self.panels = in_float_panels(weight)
        else:
            self.weight = _reordered(weight)

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """One product."""
        if self.panels is not None and self.kernels is not None:
            outputs, rectified = self.out_features, self.rectifies
            return self.kernels.float32_linear(x, self.panels, outputs, self.bias, rectified=rectified)
        x = x.relu() if self.rectifies else x
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class Bfloat16Linear(PackedLinear):
    """Weights and inputs with 8 bits of mantissa; the sums are kept in float32 and rounded once."""

    def pack(self, weight: Float[Tensor, "out in"]) -> None:
        """In bfloat16."""
        self.weight = _reordered(weight.bfloat16())

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """One product, and the bias in float32."""
        mapped = torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self.weight, None, "none", [], "").float()
        return mapped if self.bias is None else mapped.add_(self.bias)


def int8_rows(weight: Float[Tensor, "rows n"]) -> tuple[Int8[Tensor, "rows n"], Float[Tensor, " rows"]]:
    """round(w / s) of every row in 8 bits, and s = max |w| / 127."""
    if not bool(weight.isfinite().all()):
        raise RegardError("int8: the weights hold inf or NaN, which no integer can represent")
    scale = weight.abs().amax(-1).clamp_min(_TINY) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


class Int8Linear(PackedLinear):
    """Integers of 8 bits: W ≈ diag(scale) · Q with one scale an output, x ≈ largest / 127 · q with one a row.

    The products of integers are summed as integers, so a row's result depends on that row alone, to the bit, however
    many rows there are. A row of zeros stays one. Where it `rectifies`, it maps max(x, 0), whose largest number it
    looks for anyway.

    oneDNN adds pairs of such products in 16 bits on CPUs without VNNI, where they overflow. There whole numbers are
    multiplied as float32, which is exact up to 2²⁴, some features at a time.
    """

    rectifies = False
    sums_exactly = staticmethod(torch.cpu._is_vnni_supported)  # whether oneDNN does

    def pack(self, weight: Float[Tensor, "out in"]) -> None:
        """As integers and their scales."""
        whole, scale = int8_rows(weight)
        self.whole = whole
        self.scale = scale / 127  # 127 from the rows too
        self.zeros = torch.zeros(self.out_features, dtype=torch.long, device="cpu")
        self.most = torch.tensor(127.0, device="cpu")
        self.panels = in_panels(whole) if self.kernels is not None and self.kernels.multiplies_int8 else None

    @cached_property
    def packed(self) -> Tensor:
        """The weights as oneDNN multiplies them."""
        return torch.ops.onednn.qlinear_prepack(self.whole, None)

    @cached_property
    def parts(self) -> tuple[Tensor, ...]:
        """The weights as float32, some features at a time."""
        return tuple(torch.split(self.whole.float(), _EXACT, dim=1))

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """Round, multiply integers, scale back. Each step rounds once, so that no compiler can fuse two of them."""
        if self.kernels is not None:
            return self._in_c(x, self.kernels)
        x, size = (x.relu(),) * 2 if self.rectifies else (x, x.abs())
        largest = size.amax(-1, keepdim=True).clamp_min_(_TINY)
        bytes_ = (x * torch.div(self.most, largest)).add_(128.5).to(torch.uint8)  # 1 … 255, where 128 is 0
        if x.shape[0] == 1:
            mapped = self._summed((bytes_ ^ 128).view(torch.int8)).float().mul_(self.scale)
        else:
            mapped = self._multiplied(bytes_)
        mapped.mul_(largest)
        return mapped if self.bias is None else mapped.add_(self.bias)

    def _in_c(self, x: Float[Tensor, "r in"], kernels: Kernels) -> Float[Tensor, "r out"]:
        """The same to the bit, in fewer passes."""
        if self.panels is not None:
            return kernels.int8_linear(
                x, self.panels, self.scale, self.bias, tiny=_TINY, rectified=self.rectifies
            )
        alone = x.shape[0] == 1
        bytes_, largest = kernels.quantise(x, tiny=_TINY, signed=alone, rectified=self.rectifies)
        if alone:
            return kernels.finish_whole(self._summed(bytes_), self.scale, largest, self.bias)
        return kernels.finish(self._multiplied(bytes_), largest, self.bias)

    def _summed(self, whole: Int8[Tensor, "r in"]) -> Int[Tensor, "r out"]:
        """The sums of products of whole numbers."""
        if self.sums_exactly():
            return torch._int_mm(whole, self.whole.t())
        sums = [
            some.float() @ part.t()
            for some, part in zip(torch.split(whole, _EXACT, dim=1), self.parts, strict=True)
        ]
        return sum((each.to(torch.int32) for each in sums[1:]), sums[0].to(torch.int32))

    def _multiplied(self, bytes_: Integer[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        if not self.sums_exactly():
            return self._summed((bytes_ ^ 128).view(torch.int8)).float().mul_(self.scale)
        return torch.ops.onednn.qlinear_pointwise(
            bytes_,
            1.0,
            128,
            self.packed,
            self.scale,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )


class PackedProjection(nn.Module):
    """The maps to queries, keys and values: one for all three, or with `apart`, for cross-attention, one of them for queries."""

    def __init__(
        self, maps: InProjection, kind: type[PackedLinear], kernels: Kernels | None, *, apart: bool
    ) -> None:
        super().__init__()
        self.outputs, self.apart = maps.outputs, apart
        asking = self.outputs[0]
        weight, bias = maps.all.weight, maps.all.bias
        if apart:
            self.ask = kind(weight[:asking], None if bias is None else bias[:asking], kernels)
            self.answer = kind(weight[asking:], None if bias is None else bias[asking:], kernels)
        else:
            self.all = kind(weight, bias, kernels)

    def together(self, x: Float[Tensor, "*batch n d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one input."""
        if self.apart:
            return self.ask(x), *self.memory(x)
        query, key, value = self.all(x).split(self.outputs, dim=-1)
        return query, key, value

    def queries(self, x: Float[Tensor, "*batch q d"]) -> Tensor:
        """W_q x."""
        return self.ask(x) if self.apart else self.together(x)[0]

    def memory(self, x: Float[Tensor, "*batch k d"]) -> tuple[Tensor, Tensor]:
        """Keys and values of one input."""
        if not self.apart:
            return self.together(x)[1:]
        key, value = self.answer(x).split(self.outputs[1:], dim=-1)
        return key, value

    def keys(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_k x."""
        return self.memory(x)[0]

    def values(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_v x."""
        return self.memory(x)[1]


KINDS: dict[str, type[PackedLinear]] = {"float32": Float32Linear, "bf16": Bfloat16Linear, "int8": Int8Linear}


def packable() -> bool:
    """Whether this torch can pack weights."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _reordered(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)


WIDEST = 8192  # features for which the Triton kernel has space


class AddedNorm(nn.LayerNorm):
    """norm(x + added) in one kernel: in C on the CPU, with Triton on a GPU (`kernels=None`)."""

    def __init__(self, norm: nn.LayerNorm, kernels: Kernels | None) -> None:
        super().__init__(norm.normalized_shape, eps=norm.eps, device="meta")
        self.weight, self.bias = norm.weight, norm.bias
        self.kernels = kernels
        self.eval()

    def forward(self, x: Float[Tensor, "*b d"], added: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:  # type: ignore[override]
        """The layer norm of a sum."""
        refuse_gradients(self, x, added)
        if x.shape != added.shape:
            shape = torch.broadcast_shapes(x.shape, added.shape)  # type: ignore[no-untyped-call]
            x, added = x.expand(shape), added.expand(shape)
        device = "cuda" if self.kernels is None else "cpu"
        if not (x.dtype == added.dtype == self.weight.dtype and x.device.type == added.device.type == device):
            raise RegardError(
                f"optimised for {self.weight.dtype} on {device}, and given {x.dtype} on {x.device} and {added.dtype} on "
                f"{added.device}: load the model for that device and precision, without autocast"
            )
        if x.numel() == 0:
            return torch.empty_like(x)
        if self.kernels is not None:
            return self.kernels.added_norm(x, added, self)
        from regard.layers.kernels.added_norm import added_norm

        return added_norm(x, added, self)


class FusedResidual(Residual):
    """norm(x + f(x)) with `AddedNorm`, in place of a `Residual` whose norm comes after."""

    def __init__(self, plain: Residual, kernels: Kernels | None) -> None:
        nn.Module.__init__(self)
        self.width, self.placement = plain.width, plain.placement
        self.norm = AddedNorm(plain.norm, kernels)  # type: ignore[arg-type]  # `obstacle` looked at it
        self.eval()

    def forward(self, x: Float[Tensor, "*b d"], layer: Layer) -> Float[Tensor, "*b d"]:
        """The norm of x and what `layer` makes of it."""
        x = vectors("x", x, self.width, of=self)
        return self.norm(x, layer(x))


def obstacle(residual: Residual, kernels: Kernels | None) -> str | None:
    """Why a residual cannot be fused; None where it can."""
    norm = residual.norm
    if residual.placement is not after:
        return "its norm does not follow the sum"
    if type(norm) is not nn.LayerNorm or norm.weight is None or norm.bias is None:
        return f"its norm is no LayerNorm with weight and bias but {type(norm).__name__}"
    if norm.weight.shape != (residual.width,) or residual.width > WIDEST:
        return f"the kernel takes a norm over one axis of at most {WIDEST} features"
    if norm.weight.is_cuda:
        return (
            None
            if TRITON_INSTALLED and norm.weight.dtype != torch.float64
            else "it takes Triton and at most 32 bits"
        )
    return None if kernels is not None else "the C kernels are not built"
