"""Taking modules of torch.nn off their fused path, where their attention is changed and nowhere else."""

from collections.abc import Callable
from functools import wraps
from threading import local
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention.dispatch import may_change, present
from regard.sight.patch_sites import PatchSites

_thread = local()


class _Unfused(TorchFunctionMode):
    """Does nothing. While a mode is active, which is so in one thread only, torch.nn takes no fused path."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _forward(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement of a forward method: without the fused path, if an observer changes the module's model."""

    @wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        if getattr(_thread, "unfused", False) or not may_change(present()):
            return original(*args, **kwargs)
        _thread.unfused = True
        try:
            with _Unfused():
                return original(*args, **kwargs)
        finally:
            _thread.unfused = False

    return replaced


_FUSING = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
FORWARDS = PatchSites(((module, "forward") for module in _FUSING), _forward)
