"""The calls of torch's multi-head attention functions, rebuilt from their arguments.

Their query and key cannot be read from outside: torch computes them in C++, or inside the function that returns the
weights. They are projected once more, from the same inputs and parameters.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.dispatch import Present, may_change, notify, notify_missed
from regard.errors import RegardError
from regard.interop.torch.functional import function_parameters, multi_head_attention_forward
from regard.interop.torch.heads import torch_call
from regard.interop.torch.nested import to_dense
from regard.interop.torch.parameters import Parameters, Static

_MULTI_HEAD = signature(F.multi_head_attention_forward)
_PADDING = 1  # the mask type of [batch, keys]; 0 is [queries, keys], any other [batch, heads, queries, keys]


def multi_head(original: Callable[..., Any], here: Present, *args: Any, **kwargs: Any) -> Any:
    """torch's multi_head_attention_forward. Without weights it calls scaled_dot_product_attention, which is patched.

    With need_weights it computes the weights itself: the call is then rebuilt from the arguments, or, if it is to be
    changed, computed by our own version of the function.
    """
    if may_change(here) and _bound(*args, **kwargs)["need_weights"]:
        return multi_head_attention_forward(*args, **kwargs)
    answer = original(*args, **kwargs)
    with _understanding(here):
        given = _bound(*args, **kwargs)
        if given["need_weights"]:
            _report_weighed(here, given)
    return answer


def _bound(*args: Any, **kwargs: Any) -> dict[str, Any]:
    bound = _MULTI_HEAD.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _report_weighed(here: Present, given: dict[str, Any]) -> None:
    """Report a multi-head attention that returned its weights, from what it was given."""
    parameters = function_parameters(
        given["embed_dim_to_check"],
        given["num_heads"],
        given["in_proj_weight"],
        (given["q_proj_weight"], given["k_proj_weight"], given["v_proj_weight"]),
        given["in_proj_bias"],
        (given["bias_k"], given["bias_v"]),
        given["add_zero_attn"],
        (given["out_proj_weight"], given["out_proj_bias"]),
        separate=given["use_separate_proj_weight"],
    )
    _report(
        here,
        parameters,
        (given["query"], given["key"], given["value"]),
        batch_first=False,
        attn_mask=given["attn_mask"],
        key_padding_mask=given["key_padding_mask"],
        static=Static(key=given["static_k"], value=given["static_v"]),
    )


def native_multi_head(original: Callable[..., Any], here: Present, *args: Any, **kwargs: Any) -> Any:
    """torch's fused multi-head attention, used without gradients: query and key are projected once more."""
    _refuse_change(here)
    answer = original(*args, **kwargs)
    with _understanding(here):
        query, key, value, width, heads, *four = args[:9]
        mask = kwargs.get("mask", args[9] if len(args) > 9 else None)
        mask_type = kwargs.get("mask_type", args[12] if len(args) > 12 else None)
        _report_fused(here, _packed(width, heads, *four), query, key, value, mask, mask_type)
    return answer


def encoder_layer(original: Callable[..., Tensor], here: Present, *args: Any, **kwargs: Any) -> Tensor:
    """torch's fused encoder layer, used without gradients."""
    _refuse_change(here)
    output = original(*args, **kwargs)
    with _understanding(here):
        src, width, heads, *four, _, norm_first, eps, weight, bias = args[:12]
        mask = kwargs.get("mask", args[18] if len(args) > 18 else None)
        mask_type = kwargs.get("mask_type", args[19] if len(args) > 19 else None)
        x, padding = to_dense(src, batch_first=True)
        if norm_first:
            x = F.layer_norm(x, (width,), weight, bias, eps)
        if padding is not None:
            mask, mask_type = padding, _PADDING
        _report_fused(here, _packed(width, heads, *four), x, x, x, mask, mask_type)
    return output


def _refuse_change(here: Present) -> None:
    changers = [(observer, name) for observer, name in here if observer.changes]
    notify_missed(changers, RegardError("it calls a fused function of torch, whose parts cannot be changed"))


@contextmanager
def _understanding(here: Present) -> Iterator[None]:
    """Report any failure inside as a call that was not understood; the model has its answer already."""
    try:
        yield
    except Exception as error:
        notify_missed(here, error)


def _packed(width: int, heads: int, weight: Tensor, bias: Tensor, *out: Tensor) -> Parameters:
    """The parameters of a fused function: one weight and bias for query, key and value, and those of the output."""
    apart, added = (None, None, None), (None, None)
    return function_parameters(
        width, heads, weight, apart, bias, added, False, (out[0], out[1]), separate=False
    )


@torch.no_grad()
def _report_fused(
    here: Present,
    parameters: Parameters,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    mask_type: int | None,
) -> None:
    (query, _), (key, padding), (value, _) = (
        to_dense(part, batch_first=True) for part in (query, key, value)
    )
    padding = mask if mask_type == _PADDING else padding
    pairs = None if mask_type == _PADDING else mask
    if pairs is not None and pairs.ndim == 4:
        pairs = pairs.expand(query.shape[0], parameters.heads, -1, -1).flatten(0, 1)
    inputs = (query, key, value)
    _report(here, parameters, inputs, batch_first=True, attn_mask=pairs, key_padding_mask=padding)


@torch.no_grad()
def _report(
    here: Present, parameters: Parameters, inputs: tuple[Tensor, Tensor, Tensor], **masks: Any
) -> None:
    call, _ = torch_call(parameters, *inputs, is_causal=False, **masks)
    notify(here, call)
