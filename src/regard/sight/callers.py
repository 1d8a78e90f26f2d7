"""Which module of a model makes an attention call, and which models cannot be watched."""

import sys
from types import FrameType

import torch
from torch import nn

from regard.errors import RegardError


def module_names(model: nn.Module) -> dict[int, str]:
    """The path of every module, by its identity; the model itself goes by its class.

    Raises if some of the model runs where nobody can look.
    """
    names = {}
    for path, module in model.named_modules():
        name = names[id(module)] = path or type(module).__name__
        compiled = hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        if compiled or isinstance(module, torch.jit.ScriptModule):
            raise RegardError(
                f"{name} is compiled, and what runs inside a graph cannot be watched: watch the model it was "
                "compiled from"
            )
    return names


def caller(names: dict[int, str], within: str = "") -> str | None:
    """The innermost module of the model among the functions that are running; None when there is none.

    Looking at the stack, rather than hooking modules, is what leaves torch.nn on its fused path.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self")
        name = names.get(id(module))
        if name is not None:
            return names.get(id(getattr(module, within, None)), name) if within else name
        frame = frame.f_back
    return None


def refuse_captured(name: str, device: torch.device) -> None:
    """Raise if this call is being recorded into a graph, whose replays nobody would see."""
    if torch.compiler.is_compiling():
        raise RegardError(f"{name} is being compiled, and what runs inside a graph cannot be watched")
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RegardError(f"{name} is being captured into a CUDA graph, whose replays cannot be watched")
