"""What encoder and decoder layers share: residuals with their norms, self-attention and a feed-forward net."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.interop.torch.multihead import MultiheadAttention

Activation = str | Callable[[Tensor], Tensor]


class Layer(nn.Module):
    """Attentions and a feed-forward net, each a residual with a norm. Everything has the name torch gives it."""

    __constants__ = ["norm_first"]  # noqa: RUF012
    self_attn: MultiheadAttention
    norm1: nn.LayerNorm
    norm2: nn.LayerNorm
    dropout1: nn.Dropout
    dropout2: nn.Dropout

    def __init__(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        # In torch's order, so that one seed gives one set of parameters.
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
            )
            self.add_module(name, attention)
        self.linear1 = nn.Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        residuals = range(1, len(attentions) + 2)
        for i in residuals:
            self.add_module(f"norm{i}", nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for i in residuals:
            self.add_module(f"dropout{i}", nn.Dropout(dropout))
        self.activation = _activation(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        # Layers pickled before torch let one choose have ReLU. A chosen module is not in `state` but among its modules.
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _residual(self, x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        """x + f(norm(x)), or norm(x + f(x))."""
        result: Tensor = x + change(norm(x)) if self.norm_first else norm(x + change(x))
        return result

    # These names are torch's too: people change a layer by overriding them.

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        masks: dict[str, Any] = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        mixed: Tensor = self.self_attn(x, x, x, **masks, is_causal=is_causal, need_weights=False)[0]
        return self.dropout1(mixed)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation={activation!r}: say 'relu' or 'gelu', or give a function")
