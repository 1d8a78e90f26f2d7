"""Dispatching the attention of torch's own functions to observers.

The functions through which torch models attend are replaced, while there is an observer, by ones that show the call to
it and then call the original with the very same arguments. Replacing the function, rather than hooking modules or
entering a mode, is what leaves torch on the path it would have taken: the bits of the output do not change. Calls of
models that are not observed go to the original at once.

Torch's functions accept more than a `Call` can express. Such a call is computed as it is, and recorded with the reason
why it was not understood.
"""

from collections.abc import Callable
from functools import wraps
from threading import local
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import CausalBias, CausalVariant
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention.attend import compute
from regard.attention.biases import TensorBias
from regard.attention.call import Call
from regard.attention.dispatch import Present, dispatch, may_change, notify_missed, present
from regard.attention.masks import Mask, causal, keep
from regard.attention.scores import Dot
from regard.errors import RegardError
from regard.sight.kernels.kernel_mask import within_reach
from regard.sight.multihead_calls import encoder_layer, multi_head, native_multi_head
from regard.sight.patch_sites import PatchSites

_DOT = Dot()
_SDPA = "scaled_dot_product_attention"
_entered = local()  # by function: whether this thread is inside its replacement


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
            if here:
                return observed(original, here, *args, **kwargs)
            return _unpatched(original, *args, **kwargs) if name == _SDPA else original(*args, **kwargs)
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
        scale, graph = options.get("scale"), may_change(here)
        call = sdpa_call(query, key, attn_mask, is_causal=is_causal, scale=scale, graph=graph)
    except Exception as error:
        notify_missed(here, error)
        return _unpatched(original, query, key, value, attn_mask, dropout_p, is_causal, **options)

    def proceed(asked: Call) -> tuple[Tensor, Tensor | None]:
        if asked is not call:
            return compute(asked, _cast(value), asked.reach(), dropout=dropout_p), None
        backward = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
        wanted = backward or any(observer.wants_logsumexp for observer, _ in here)
        usable = attn_mask is None and query.ndim == 4 and within_reach(query)  # by the evidence kernels
        if not (wanted and usable):
            return _unpatched(original, query, key, value, attn_mask, dropout_p, is_causal, **options), None
        with LogSumExpCapture() as capture:  # type: ignore[no-untyped-call]
            output = original(query, key, value, attn_mask, dropout_p, is_causal, **options)
        return output, capture.of(query)

    return dispatch(call, proceed, here)


_aten = torch.ops.aten
# Operators that return the log-sum-exp second, and the index of the argument that requests it, if any.
_OPERATORS: dict[Any, int | None] = {
    _aten._scaled_dot_product_cudnn_attention.default: 4,
    _aten._scaled_dot_product_efficient_attention.default: 4,
    _aten._scaled_dot_product_flash_attention.default: None,
}


class LogSumExpCapture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Captures the log-sum-exp that torch's fused kernels compute in the forward pass for their backward.

    While entered, `level` is log Σ exp(score) of each query from the latest fused kernel, or None.
    """

    level: Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Request the log-sum-exp from the operators that compute it on request."""
        if func not in _OPERATORS:
            return func(*args, **(kwargs or {}))
        at = _OPERATORS[func]
        if at is not None:
            args = (*args[:at], True, *args[at + 1 :])
        found = func(*args, **(kwargs or {}))
        self.level = found[1]
        return found

    def of(self, query: Tensor) -> Tensor | None:
        """The log-sum-exp of these queries, [..., queries]; None if no kernel computed it."""
        shape, level = query.shape[:-1], self.level
        if level is None:
            return None
        level = level.detach()
        if level.ndim == query.ndim and level.shape[-1] == 1:
            level = level.squeeze(-1)
        if level.shape[:-1] != shape[:-1] or level.shape[-1] < shape[-1]:
            return None
        return level[..., : shape[-1]]  # some kernels pad to a whole tile


def _unpatched(original: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    """Torch's scaled_dot_product_attention as it is when it is not replaced.

    An argument that overrides torch's functions may compare the one called with that in torch.nn.functional, as a
    CausalBias does, so the original is put back for the call. Meanwhile calls in other threads are not observed.
    """
    given = (*args, *options.values())
    overriding = [type(each) for each in given if isinstance(each, Tensor) and type(each) not in _PLAIN]
    if not overriding:
        return original(*args, **options)
    if overriding == [CausalBias]:
        return CausalBias._dispatch(*args, **options)  # what it does when it finds the original
    with FUNCTIONS.lifted(F, _SDPA):
        return original(*args, **options)


_PLAIN = (Tensor, nn.Parameter)


# By name: what is done where it is observed, and which module a fused one does not enter.
_OBSERVED: dict[str, tuple[Callable[..., Any], str]] = {
    _SDPA: (_sdpa, ""),
    "multi_head_attention_forward": (multi_head, ""),
    "_native_multi_head_attention": (native_multi_head, ""),
    "_transformer_encoder_layer_fwd": (encoder_layer, "self_attn"),
}
FUNCTIONS = PatchSites(((F if hasattr(F, name) else torch, name) for name in _OBSERVED), _function)


def sdpa_call(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None,
    *,
    is_causal: bool,
    scale: float | None,
    graph: bool = False,
) -> Call:
    """The `Call` of torch's scaled_dot_product_attention, detached unless `graph`. Raises if a Call cannot express it."""
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
