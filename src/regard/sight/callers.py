"""Which module of a model makes an attention call, and which models cannot be watched.

It is read from the stack of the running thread: without hooks torch.nn stays on its fused path, and a model is found
in whichever thread runs it.
"""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.utils import checkpoint

from regard.data.given import instance
from regard.errors import RegardError

_CHECKPOINT = vars(checkpoint)


class ModuleNames:
    """The path of every module of a model; the model itself goes by its class.

    Replicas of a module, as nn.DataParallel makes them for every thread, have its name. Raises if a part of the model
    is compiled, and so cannot be watched.
    """

    def __init__(self, model: nn.Module) -> None:
        instance("model", model, nn.Module, "give the model, a torch.nn.Module")
        self._modules: list[nn.Module] = []  # alive, so that no other object gets the identity of one
        self._names: dict[int, str] = {}
        for path, module in model.named_modules():
            self._modules.append(module)
            name = self._names[_identity(module)] = path or type(module).__name__
            compiled = (
                hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
            )
            if compiled or isinstance(module, torch.jit.ScriptModule):
                raise RegardError(
                    f"{name} is compiled, and what runs inside a graph cannot be watched: watch the model it was "
                    "compiled from"
                )
        self.paths = list(dict.fromkeys(self._names.values()))

    def of(self, module: nn.Module, within: str = "") -> str | None:
        """The name of a module, or of the one `within` it; None if it is not of the model."""
        name = self._names.get(_identity(module))
        if name is None or not within:
            return name
        inner = getattr(module, within, None)
        return name if inner is None else self._names.get(_identity(inner), name)

    def covers(self, model: nn.Module) -> bool:
        """Whether a model has a module of this one."""
        return any(_identity(module) in self._names for module in model.modules())


def _identity(module: nn.Module) -> int:
    """The same for a module and its replicas, which are shallow copies and so have its dictionary of hooks."""
    return id(vars(module).get("_forward_hooks", module))


Running = tuple[Literal["module", "region", "recomputation"], Any]


def running() -> Iterator[Running]:
    """What this thread is running, innermost first: modules, and regions that a backward pass may recompute.

    A region is the object that torch keeps for it, in the forward pass and in the recomputation: the context of an
    autograd.Function (torch.utils.checkpoint with use_reentrant=True is one), or a frame of torch.utils.checkpoint.
    A recomputation ends the search: below it is the caller of `backward`, which is not a caller of the model.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # Reading f_locals copies the variables of a frame and keeps the copies alive: only where they matter.
        first = code.co_varnames[0] if code.co_argcount else ""
        if first == "self" or "self" in code.co_freevars:
            value = frame.f_locals.get("self")
            if issubclass(type(value), nn.Module):
                yield "module", value
            elif issubclass(type(value), BackwardCFunction):
                yield "recomputation", value
                return
        elif first == "ctx":
            value = frame.f_locals.get("ctx")
            if issubclass(type(value), BackwardCFunction):
                yield "region", value
        elif frame.f_globals is _CHECKPOINT:
            if code.co_name == "unpack_hook":
                yield "recomputation", frame.f_locals["frame"]
                return
            generator = frame.f_locals.get("gen") if code.co_name == "checkpoint" else None
            if generator is not None:
                yield "region", generator.gi_frame.f_locals["new_frame"]
        frame = frame.f_back


def caller(names: ModuleNames, within: str = "") -> str | None:
    """The innermost module of the model among the functions that this thread is running; None when there is none."""
    for kind, module in running():
        name = names.of(module, within) if kind == "module" else None
        if name is not None:
            return name
    return None


def current_backward() -> int:
    """The number of the backward pass that this thread is running; −1 outside of any."""
    return int(torch._C._current_graph_task_id())


def recomputing(since: int) -> bool:
    """Whether this thread recomputes a part of a forward pass, in another backward pass than the one it was in then."""
    return current_backward() not in (-1, since) and any(kind == "recomputation" for kind, _ in running())


def choose_modules(
    paths: Sequence[str], layers: Callable[[str], bool] | Sequence[str] | None
) -> frozenset[str]:
    """The modules that `layers` chooses: by the ends of their paths or a function of the path; None is all."""
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
    """Raise if this call is being captured into a CUDA graph, whose replays would not be seen."""
    if torch.compiler.is_compiling():
        raise RegardError(f"{name} is being compiled, and what runs inside a graph cannot be watched")
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RegardError(f"{name} is being captured into a CUDA graph, whose replays cannot be watched")
