"""Torch's masks, checked as torch checks them and turned into ours.

The one place with torch's polarity: in a bool mask True is hidden, and a float mask is added to the scores.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Mask, causal, keep


@dataclass(frozen=True, kw_only=True)
class TorchMasks:
    """Who may not look at whom, as torch says it.

    `pairs` (attn_mask) is [queries, keys] or [batch · heads, queries, keys]; `padding` (key_padding_mask) is
    [batch, keys]. `is_causal` is torch's hint that `pairs` is the causal mask: it is believed, and `pairs` not read.
    """

    pairs: Tensor | None
    padding: Tensor | None
    is_causal: bool = False

    def __post_init__(self) -> None:
        for name, mask in {"key_padding_mask": self.padding, "attn_mask": self.pairs}.items():
            if mask is not None and mask.dtype != torch.bool and not mask.is_floating_point():
                raise AssertionError(f"{name} is {mask.dtype}: give bool (True is hidden) or float (added)")
        if self.is_causal and self.pairs is None:
            raise RuntimeError(
                "is_causal=True is a hint about attn_mask, which is None: give the causal mask too"
            )

    def ours(
        self, *, batch: int, heads: int, queries: int, keys: int, extra: int
    ) -> tuple[Mask | None, Tensor | None]:
        """The mask and bias that say the same, over `keys` of the caller's and `extra` more that all may look at."""
        pairs, padding = self.pairs, self.padding
        mask: Mask | None = None
        biases: list[Tensor] = []
        if self.is_causal and extra == 0:
            mask, pairs = causal(offset=0), None
        elif self.is_causal and pairs is not None:
            pairs = torch.ones(queries, keys, dtype=torch.bool, device=pairs.device).triu(1)
        if pairs is not None:
            _check_pairs(pairs, batch * heads, queries, keys)
            pairs = F.pad(
                pairs if pairs.ndim == 2 else pairs.reshape(batch, heads, queries, keys), (0, extra)
            )
            if pairs.dtype == torch.bool:
                mask = keep(~pairs)
            else:
                biases.append(pairs)
        if padding is not None:
            _check_padding(padding, batch, keys)
            padding = F.pad(padding, (0, extra))
            if padding.dtype == torch.bool:
                kept = keep(~padding[:, None, :])
                mask = kept if mask is None else mask & kept
            else:
                biases.append(padding[:, None, None, :])
        return mask, sum(biases[1:], start=biases[0]) if biases else None


def batched(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, pairs: Tensor | None, heads: int
) -> bool:
    """Whether the inputs have a batch axis, and all of them or none."""
    axes = query.ndim
    if axes not in (2, 3):
        raise AssertionError(f"query is {axes}-D: it has 3 axes, or 2 without a batch")
    if key.ndim != axes or value.ndim != axes:
        raise AssertionError(
            f"for a {axes}-D query expected `key` and `value` to be {axes}-D but found {key.ndim}-D and "
            f"{value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != axes - 1:
        raise AssertionError(
            f"for a {axes}-D query expected `key_padding_mask` to be `None` or {axes - 1}-D but found "
            f"{padding.ndim}-D tensor instead"
        )
    if pairs is not None and pairs.ndim not in (2, 3):
        raise AssertionError(
            f"for a {axes}-D query expected `attn_mask` to be `None`, 2-D or 3-D but found {pairs.ndim}-D "
            "tensor instead"
        )
    if axes == 2 and pairs is not None and pairs.ndim == 3:
        wanted = (heads, query.shape[0], key.shape[0])
        if pairs.shape != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {tuple(pairs.shape)}")
    return axes == 3


def is_causal_mask(mask: Tensor | None, hint: bool | None, size: int | None) -> bool:
    """The hint, or without one whether the mask is the causal one of this size."""
    if hint is not None or mask is None or torch.compiler.is_compiling():
        return bool(
            hint
        )  # a graph cannot look into a tensor; without the hint the mask says the same, dearer
    size = mask.shape[-2] if size is None else size
    if mask.shape != (size, size):
        return False
    ahead = torch.ones(size, size, dtype=torch.bool, device=mask.device).triu(1)
    if mask.dtype != torch.bool:
        return bool((mask == torch.zeros_like(mask).masked_fill(ahead, -torch.inf)).all())
    return bool((mask == ahead).all())


def _check_pairs(pairs: Tensor, calls: int, queries: int, keys: int) -> None:
    wanted = (queries, keys) if pairs.ndim == 2 else (calls, queries, keys)
    if pairs.shape != wanted:
        raise RuntimeError(f"attn_mask has the shape {tuple(pairs.shape)}, but should be {wanted}")


def _check_padding(padding: Tensor, batch: int, keys: int) -> None:
    if padding.shape != (batch, keys):
        raise AssertionError(
            f"key_padding_mask has the shape {tuple(padding.shape)}, but should be {(batch, keys)}"
        )
