"""Dispatching the attention of torch's own functions to observers.

The functions through which torch models attend are replaced, while there is an observer, by ones that show the call to
it and then call the original with the very same arguments. Replacing the function, rather than hooking modules or
entering a mode, is what leaves torch on the path it would have taken: the bits of the output do not change. Calls of
models that are not observed go to the original at once.

Torch's functions accept more than a `Call` can express. Such a call is computed as it is, and recorded with the reason
why it was not understood.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from threading import local
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import CausalBias, CausalVariant

from regard.attention.attend import compute
from regard.attention.biases import TensorBias
from regard.attention.call import Call
from regard.attention.dispatch import Present, dispatch, notify, notify_missed, present
from regard.attention.masks import Mask, causal, keep
from regard.attention.scores import Dot
from regard.errors import RegardError
from regard.interop.torch.functional import function_parameters, multi_head_attention_forward
from regard.interop.torch.heads import torch_call
from regard.interop.torch.nested import to_dense
from regard.interop.torch.parameters import Parameters, Static
from regard.sight.logsumexp import LogSumExpCapture, capture_useful, computed_anyway
from regard.sight.patch_sites import Patches

_DOT = Dot()
_entered = local()  # the functions whose replacements this thread is in


def _function(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement of one of torch's functions."""
    observed, within = _OBSERVED[name]

    @wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        if getattr(_entered, name, False):  # while a mode is active, torch calls its functions twice
            return original(*args, **kwargs)
        setattr(_entered, name, True)
        try:
            here = present(within)
            plain = _as_without_us if name == "scaled_dot_product_attention" else None
            if here:
                return observed(original, here, *args, **kwargs)
            return plain(original, *args, **kwargs) if plain else original(*args, **kwargs)
        finally:
            setattr(_entered, name, False)

    return replaced


def _sdpa(
    original: Callable[..., Tensor],
    here: Present,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    try:
        scale, graph = options.get("scale"), _changed(here)
        call = sdpa_call(query, key, attn_mask, is_causal=is_causal, scale=scale, graph=graph)
    except Exception as error:
        notify_missed(here, error)
        return _as_without_us(original, query, key, value, attn_mask, dropout_p, is_causal, **options)

    def proceed(asked: Call) -> tuple[Tensor, Tensor | None]:
        if asked is not call:
            return compute(asked, _cast(value), asked.reach(), dropout=dropout_p), None
        wanted = any(observer.wants_logsumexp for observer, _ in here)
        if attn_mask is not None or not (
            capture_useful(query) and (wanted or computed_anyway(query, key, value))
        ):
            return _as_without_us(
                original, query, key, value, attn_mask, dropout_p, is_causal, **options
            ), None
        with LogSumExpCapture() as capture:  # type: ignore[no-untyped-call]
            output = original(query, key, value, attn_mask, dropout_p, is_causal, **options)
        return output, capture.of(query)

    return dispatch(call, proceed, here)


def _as_without_us(original: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    """Torch's scaled_dot_product_attention as it is when it is not replaced.

    An argument that overrides torch's functions may compare the one called with that in torch.nn.functional, as a
    CausalBias does. It has to find the original there. For a moment other threads find it, too.
    """
    overriding = [each for each in args if isinstance(each, Tensor) and type(each) not in _PLAIN]
    if not overriding:
        return original(*args, **options)
    if [type(each) for each in overriding] == [CausalBias]:
        return CausalBias._dispatch(*args, **options)  # what it does when it finds the original
    replaced = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = original
    try:
        return original(*args, **options)
    finally:
        F.scaled_dot_product_attention = replaced


_PLAIN = (Tensor, nn.Parameter)


def _multi_head(original: Callable[..., Any], here: Present, *args: Any, **kwargs: Any) -> Any:
    """torch's function goes through scaled_dot_product_attention, but not when it is asked for weights."""
    if _changed(here) and _bound(*args, **kwargs)["need_weights"]:
        return multi_head_attention_forward(*args, **kwargs)
    answer = original(*args, **kwargs)
    with _understanding(here):
        given = _bound(*args, **kwargs)
        if given["need_weights"]:
            _tell_weighed(here, given)
    return answer


def _changed(here: Present) -> bool:
    return any(observer.changes for observer, _ in here)


def _bound(*args: Any, **kwargs: Any) -> dict[str, Any]:
    bound = _MULTI_HEAD.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _tell_weighed(here: Present, given: dict[str, Any]) -> None:
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
    _tell(
        here,
        parameters,
        (given["query"], given["key"], given["value"]),
        batch_first=False,
        attn_mask=given["attn_mask"],
        key_padding_mask=given["key_padding_mask"],
        static=Static(key=given["static_k"], value=given["static_v"]),
    )


def _native_multi_head(original: Callable[..., Any], here: Present, *args: Any, **kwargs: Any) -> Any:
    """The fused multi-head attention that torch.nn takes without gradients: its query and key are made once more."""
    _refuse_change(here)
    answer = original(*args, **kwargs)
    with _understanding(here):
        query, key, value, width, heads, *four = args[:9]
        mask = kwargs.get("mask", args[9] if len(args) > 9 else None)
        mask_type = kwargs.get("mask_type", args[12] if len(args) > 12 else None)
        parameters = _packed(width, heads, (four[0], four[1]), (four[2], four[3]))
        _tell_fused(here, parameters, query, key, value, mask, mask_type)
    return answer


def _encoder_layer(original: Callable[..., Tensor], here: Present, *args: Any, **kwargs: Any) -> Tensor:
    """The fused encoder layer that torch.nn takes without gradients."""
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
        parameters = _packed(width, heads, (four[0], four[1]), (four[2], four[3]))
        _tell_fused(here, parameters, x, x, x, mask, mask_type)
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


_MULTI_HEAD = signature(F.multi_head_attention_forward)
_PADDING = (
    1  # torch's mask types: 0 is [queries, keys], 1 [batch, keys], any other [batch, heads, queries, keys]
)


def _packed(width: int, heads: int, qkv: tuple[Tensor, Tensor], out: tuple[Tensor, Tensor]) -> Parameters:
    apart = (None, None, None)
    return function_parameters(width, heads, qkv[0], apart, qkv[1], (None, None), False, out, separate=False)


@torch.no_grad()
def _tell_fused(
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
    _tell(here, parameters, inputs, batch_first=True, attn_mask=pairs, key_padding_mask=padding)


@torch.no_grad()
def _tell(here: Present, parameters: Parameters, inputs: tuple[Tensor, Tensor, Tensor], **masks: Any) -> None:
    call, _ = torch_call(parameters, *inputs, is_causal=False, **masks)
    notify(here, call)


_OBSERVED: dict[
    str, tuple[Callable[..., Any], str]
] = {  # by name; and which module a fused one does not enter
    "scaled_dot_product_attention": (_sdpa, ""),
    "multi_head_attention_forward": (_multi_head, ""),
    "_native_multi_head_attention": (_native_multi_head, ""),
    "_transformer_encoder_layer_fwd": (_encoder_layer, "self_attn"),
}
FUNCTIONS = Patches(((F if hasattr(F, name) else torch, name) for name in _OBSERVED), _function)


def sdpa_call(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    *,
    is_causal: bool,
    scale: float | None,
    graph: bool = False,
) -> Call:
    """The `Call` of torch's scaled_dot_product_attention, for gradients only with `graph`. Raises if there is none."""
    if query.is_nested or key.is_nested:
        raise RegardError("its query and key are nested tensors, of which torch alone knows the rows")
    mask: Mask | None = causal(offset=0) if is_causal else None
    bias = None
    if not graph:
        query, key = query.detach(), key.detach()
    query, key = _batched(_cast(query), _cast(key))
    if isinstance(attn_mask, CausalBias):
        lower_right = attn_mask.variant == CausalVariant.LOWER_RIGHT
        mask = causal(offset=attn_mask.seq_len_kv - attn_mask.seq_len_q if lower_right else 0)
    elif attn_mask is not None:
        axes = query.ndim - attn_mask.ndim
        attn_mask = attn_mask if graph else attn_mask.detach()
        attn_mask = attn_mask.reshape(*([1] * axes), *attn_mask.shape)  # torch lines axes up at the right
        if attn_mask.dtype == torch.bool:
            mask = keep(attn_mask) if mask is None else mask & keep(attn_mask)
        else:
            bias = TensorBias(attn_mask)
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return Call(query, key, mask, bias, _DOT, factor)


def _cast(part: Tensor) -> Tensor:
    """As torch's function gets it: autocast lowers all that is not float64."""
    where = part.device.type
    if part.dtype == torch.float64 or not torch.is_autocast_enabled(where):
        return part
    return part.to(torch.get_autocast_dtype(where))


def _batched(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batch axes that torch broadcasts them to; heads that share a key stay as they are."""
    ours, theirs = query.shape[:-2], key.shape[:-2]
    if ours == theirs or (len(ours) == len(theirs) and ours[:-1] == theirs[:-1] and ours[-1] > theirs[-1]):
        return query, key
    batch = torch.broadcast_shapes(ours, theirs)  # type: ignore[no-untyped-call]
    return query.expand(*batch, -1, -1), key.expand(*batch, -1, -1)
