"""What encoder and decoder share: copies of one layer on top of each other, and a norm at the end."""

import copy

from torch import Tensor, nn

from regard.interop.torch.masks import is_causal_mask


class Stack(nn.Module):
    """`num_layers` copies of a layer, which therefore all start with the same parameters, and an optional norm."""

    __constants__ = ["norm"]  # noqa: RUF012

    def __init__(self, layer: nn.Module, num_layers: int, norm: nn.Module | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    @property
    def _batch_first(self) -> bool:
        return bool(self.layers[0].self_attn.batch_first)  # type: ignore[union-attr]

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)

    def _is_causal(self, mask: Tensor | None, hint: bool | None, x: Tensor) -> bool:
        positions = 1 if x.ndim == 3 and self._batch_first else 0
        return is_causal_mask(mask, hint, x.shape[positions])
