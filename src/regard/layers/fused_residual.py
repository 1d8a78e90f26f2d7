"""Residual connections for inference: the sum and its norm in one kernel."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernels.native import Kernels
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.given import vectors
from regard.errors import RegardError
from regard.layers.inference_only import refuse_gradients
from regard.layers.residual import Layer, Residual, after

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
