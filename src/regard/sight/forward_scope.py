"""Observing the forward passes that one thread runs, and their recomputation in backward passes.

Checkpointing runs a part of a model again in the backward pass: later, perhaps after an intervention has ended, and for
a GPU in a thread of autograd's own. It has to be changed again if and only if its forward pass was.
"""

from collections.abc import Callable, Container
from functools import wraps
from threading import RLock, get_ident, local
from typing import Any
from weakref import finalize

from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention.dispatch import AttentionObserver, may_change, observers, present
from regard.errors import RegardError
from regard.sight.callers import ModuleNames, current_backward, running
from regard.sight.interpose import FUNCTIONS
from regard.sight.patch_sites import PatchSites

_thread = local()


class _Unfused(TorchFunctionMode):
    """A mode that does nothing: while one is active, in its thread alone, torch.nn takes no fused path."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _forward(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The replacement of a forward method of torch.nn: off its fused path while an observer changes the model."""

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


class ForwardObserver(AttentionObserver):
    """Follows a model in the thread that starts it, and in the recomputation of what that thread ran meanwhile.

    It notes every region that is checkpointed meanwhile, and stays registered until the last of them is freed. The
    modules in `wanted` are those for which a doubt about the forward pass is an error.
    """

    changes = True

    def __init__(self, names: ModuleNames, wanted: Container[str]) -> None:
        self.names, self.wanted = names, wanted
        self._regions: dict[int, str] = {}  # by identity: the module from which each was entered
        self._around: set[int] = set()  # regions entered before: a recomputation starts another observer
        self._open = self._registered = False

    def start(self) -> None:
        """Follow what this thread runs from now on."""
        self._thread, self._backward = get_ident(), current_backward()
        self._around = {id(each) for kind, each in running() if kind != "module"}
        FUNCTIONS.acquire()
        FORWARDS.acquire()
        observers.append(self)
        self._open = self._registered = True

    def end(self) -> None:
        """Follow only recomputations from now on."""
        self._open = False
        self._around.clear()
        self._retire()

    def place(self, within: str = "") -> str | None:
        """The attending module, in a forward pass of the thread or in its recomputation."""
        name: str | None = None
        entered: list[Any] = []  # regions around the call whose outer module is not found yet
        noted: list[tuple[Any, str]] = []
        known = False  # whether a region shows that the forward pass was followed
        for kind, each in running():
            if kind != "module" and id(each) in self._around:
                break
            outer = self.names.of(each, within) if kind == "module" else self._regions.get(id(each))
            if outer is not None:
                name = name or outer
                noted += [(region, outer) for region in entered]
                entered.clear()
            known = outer is not None and kind != "module"
            if known:
                break
            if kind == "recomputation":
                return None
            if kind == "region":
                entered.append(each)
        if name is None or not (known or self._runs_forward(name)):
            return None
        for region, outer in noted:
            self._note(region, outer)
        return name

    def covers(self, model: nn.Module) -> bool:
        """Whether the model is followed in this thread."""
        return self._open and get_ident() == self._thread and self.names.covers(model)

    def _runs_forward(self, name: str) -> bool:
        if not self._open or get_ident() != self._thread:
            return False
        if current_backward() == self._backward:
            return True
        if name in self.wanted:
            raise RegardError(
                f"{name} attends in a backward pass, and its forward pass is not known: recompute with "
                "torch.utils.checkpoint, or run the backward pass after `with intervene(...)`"
            )
        return False

    def _note(self, region: Any, outer: str) -> None:
        if id(region) not in self._regions:
            self._regions[id(region)] = outer
            finalize(region, self._forget, id(region)).atexit = False

    def _forget(self, region: int) -> None:
        self._regions.pop(region, None)
        self._retire()

    def _retire(self) -> None:
        with _RETIRING:
            if self._open or self._regions or not self._registered:
                return
            self._registered = False
        observers.remove(self)
        FORWARDS.release()
        FUNCTIONS.release()


_RETIRING = RLock()  # a garbage collection inside may retire another
