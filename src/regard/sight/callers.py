"""Which module of a model makes an attention call, and which models cannot be watched."""

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType

import torch
from torch import nn

from regard.data.given import instance
from regard.errors import RegardError


def module_names(model: nn.Module) -> dict[int, str]:
    """The path of every module, by its identity; the model itself goes by its class.

    Raises if some of the model runs where nobody can look.
    """
    instance("model", model, nn.Module, "give the model, a torch.nn.Module")
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


def choose_modules(
    names: dict[int, str], layers: Callable[[str], bool] | Sequence[str] | None
) -> frozenset[str]:
    """The modules that `layers` chooses: by the ends of their paths or a function of the path; None is all."""
    paths = list(dict.fromkeys(names.values()))
    if layers is None:
        return frozenset(paths)
    if callable(layers):
        found = frozenset(path for path in paths if layers(path))
        if not found:
            raise RegardError(
                f"layers={getattr(layers, '__name__', layers)!s} chooses none of the {len(paths)} modules: "
                f"{', '.join(paths[:6])}{' …' if len(paths) > 6 else ''}"
            )
        return found
    ends = [layers] if isinstance(layers, str) else list(layers)
    chosen: set[str] = set()
    for end in ends:
        own = ending_in(end, paths)
        if not own:
            raise RegardError(f"layers: {no_module(end, paths)}")
        chosen.update(own)
    if not chosen:
        raise RegardError(f"layers={layers!r} names no module: leave it out to watch all")
    return frozenset(chosen)


def ending_in(end: str, paths: Iterable[str]) -> list[str]:
    """The paths that are, or end in, this one."""
    return [path for path in paths if path == end or path.endswith(f".{end}")]


def no_module(end: str, paths: Sequence[str]) -> str:
    """That no path ends so, and which come closest."""
    depth = end.count(".") + 1
    tails = {".".join(path.split(".")[-depth:]): path for path in reversed(paths)}  # of equals, the first
    near = [tails[tail] for tail in difflib.get_close_matches(end, tails, n=3, cutoff=0.6)]
    near = near or difflib.get_close_matches(end, paths, n=3, cutoff=0.4)
    return f"the model has no module {end!r}" + (f": did you mean {', '.join(near)}?" if near else "")


def refuse_captured(name: str, device: torch.device) -> None:
    """Raise if this call is being recorded into a graph, whose replays nobody would see."""
    if torch.compiler.is_compiling():
        raise RegardError(f"{name} is being compiled, and what runs inside a graph cannot be watched")
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RegardError(f"{name} is being captured into a CUDA graph, whose replays cannot be watched")
