"""Multi-head attention with torch's parameters: project, split into heads, attend, join."""

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.attend import attend_within
from regard.attention.call import Call
from regard.attention.reach import Reach
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.interop.torch.masks import TorchMasks, batched
from regard.interop.torch.nan import is_strict
from regard.interop.torch.parameters import Parameters, Static


def multi_head(
    parameters: Parameters,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    batch_first: bool,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    dropout: float,
    need_weights: bool,
    average_attn_weights: bool,
    static: Static | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The output, and the weights for those who want them. Asking for weights changes no bit of the output."""
    if not 0.0 <= dropout <= 1.0:
        raise RegardError(f"dropout={dropout}: a probability is between 0 and 1")
    with_batch = query.ndim == 3
    batch_first = batch_first or not with_batch
    call, values = torch_call(
        parameters,
        query,
        key,
        value,
        batch_first=batch_first,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        is_causal=is_causal,
        static=static,
    )
    reach = call.reach()
    mixed = attend_within(call, values, reach, dropout=dropout)
    # Before dropout, unlike torch's: how much was looked at each key, not the noise of one step.
    weights = weigh(call) if need_weights else None
    if weights is not None and is_strict():
        mixed, weights = _with_nan(reach, mixed, weights)
    axes = (0, 2, 1, 3) if batch_first else (2, 0, 1, 3)
    output = F.linear(mixed.permute(axes).flatten(-2), parameters.out, parameters.out_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not with_batch:
        output, weights = output.squeeze(0), None if weights is None else weights.squeeze(0)
    return output, weights


def torch_call(
    parameters: Parameters,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    batch_first: bool,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    static: Static | None = None,
) -> tuple[Call, Tensor]:
    """The attention call that torch's arguments describe, and its values; an input without a batch is a batch of one."""
    if not batched(query, key, value, key_padding_mask, attn_mask, parameters.heads):
        batch_first = True
        query, key, value = query[None], key[None], value[None]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
    masks = TorchMasks(pairs=attn_mask, padding=key_padding_mask, is_causal=is_causal)
    parameters.check(query, key, value, batch_axis=0 if batch_first else 1)
    static = static or Static()
    heads = parameters.heads
    batch_axis, axis = (0, 1) if batch_first else (1, 0)
    batch, queries = query.shape[batch_axis], query.shape[axis]
    static.check(parameters, batch)
    keys = key.shape[axis] if static.key is None else static.key.shape[1]
    mask, bias = masks.ours(batch=batch, heads=heads, queries=queries, keys=keys, extra=parameters.extra)
    if static.key is None and static.value is None:
        key, value = (_without_padding(part, masks.padding, batch_first) for part in (key, value))
    # Torch, too, takes a bias of another dtype than its weight.
    biases = None if parameters.bias is None else parameters.bias.to(parameters.query.dtype)
    bias_q, bias_k, bias_v = (None,) * 3 if biases is None else biases.chunk(3)
    asking = _split(F.linear(query, parameters.query, bias_q), heads, batch_first)
    rows = []
    for given, weight, bias_of, ready, row in (
        (key, parameters.key, bias_k, static.key, parameters.key_row),
        (value, parameters.value, bias_v, static.value, parameters.value_row),
    ):
        if ready is None:
            part = _split(F.linear(given, weight, bias_of), heads, batch_first)
        else:
            part = ready.reshape(batch, heads, *ready.shape[1:]).to(asking.dtype)
        rows.append(_with_rows(part, row, parameters.zero_row))
    keys_ready, values_ready = rows
    if keys_ready.shape[-2] != values_ready.shape[-2]:
        raise RuntimeError(
            f"{keys_ready.shape[-2]} keys and {values_ready.shape[-2]} values: each key has one value, "
            "so static_k and static_v go together"
        )
    # A bias of float32 can be −∞ in the dtype of the scores, so it is rounded before anyone asks what it forbids.
    return Call.of(asking, keys_ready, mask, bias=None if bias is None else bias.to(asking)), values_ready


def _with_nan(reach: Reach | None, mixed: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    looking = None if reach is None else reach.looking()
    if looking is None or weights.shape[-1] == 0:  # a sum over no keys is 0 in torch too
        return mixed, weights
    blind = ~looking[..., None]
    return mixed.masked_fill(blind, torch.nan), weights.masked_fill(blind, torch.nan)


def _without_padding(rows: Tensor, padding: Tensor | None, batch_first: bool) -> Tensor:
    """Zeros where the padding is: what is there, NaN even, then reaches no gradient of a parameter."""
    if padding is None or padding.dtype != torch.bool:
        return rows
    return rows.masked_fill((padding if batch_first else padding.mT)[..., None], 0.0)


def _split(rows: Tensor, heads: int, batch_first: bool) -> Tensor:
    rows = rows.reshape(*rows.shape[:2], heads, rows.shape[-1] // heads)
    return rows.permute(0, 2, 1, 3) if batch_first else rows.permute(1, 2, 0, 3)


def _with_rows(rows: Tensor, row: Tensor | None, zero_row: bool) -> Tensor:
    if row is not None:
        batch, heads, _, width = rows.shape
        rows = torch.cat([rows, row.to(rows.dtype).reshape(1, heads, 1, width).expand(batch, -1, -1, -1)], -2)
    return F.pad(rows, (0, 0, 0, 1)) if zero_row else rows
