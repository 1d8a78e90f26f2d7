"""Functions replaced for a while, wherever they are held, for as long as at least one user wants them replaced."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from types import ModuleType
from typing import Any

_found: list[
    tuple[object, list[Any]]
] = []  # what was imported at the last search, and the modules that may hold a function


class PatchSites:
    """Replacements of functions, shared by their users: in place from the first `acquire` to the last `release`.

    `targets` are homes (a module, or a class for a method) and names; `replace` makes the replacement of one from its
    name and original. The first user makes them anew, so that a patch of another library's is kept below ours.
    """

    def __init__(
        self, targets: Iterable[tuple[Any, str]], replace: Callable[[str, Any], Callable[..., Any]]
    ) -> None:
        self._targets, self._replace = tuple(targets), replace
        self._users = 0
        self._made: dict[tuple[Any, str], tuple[Any, Any]] = {}  # by target: the original, the replacement
        self._lock = RLock()  # a garbage collection inside may release

    def acquire(self) -> None:
        """Put the replacements in place for one more user, also in modules imported since the last did."""
        with self._lock:
            self._users += 1
            try:
                for home, name in self._targets if self._users == 1 else ():
                    original = getattr(home, name)
                    self._made[home, name] = original, self._replace(name, original)
                self._exchange(0, 1)
            except BaseException:
                self.release()
                raise

    def release(self) -> None:
        """Take the replacements back when the last user is gone; what others put there since is left alone."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._exchange(1, 0)
                self._made.clear()

    def _exchange(self, old: int, new: int) -> None:
        functions = {name: made[old] for (home, name), made in self._made.items() if _searched(home)}
        sites = patch_sites(functions) if functions else {}
        for (home, name), made in self._made.items():
            for site in (home, *sites.get(name, ())):
                if vars(site).get(name) is made[old]:
                    setattr(site, name, made[new])

    @contextmanager
    def lifted(self, home: Any, name: str) -> Iterator[None]:
        """One original back in its home, for a block; for all threads, and only one lifts at a time."""
        with self._lock:
            made = self._made.get((home, name))
            if made is None or vars(home).get(name) is not made[1]:
                yield
                return
            setattr(home, name, made[0])
            try:
                yield
            finally:
                if self._made.get((home, name)) is made:
                    setattr(home, name, made[1])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Acquire and release around a block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()


def _searched(home: Any) -> bool:
    """A function of a module may have been imported elsewhere; a method is looked up in its class."""
    return isinstance(home, ModuleType)


def patch_sites(functions: Mapping[str, Any]) -> dict[str, list[Any]]:
    """For each function, by its name, the modules that hold it under that name.

    Modules of regard are left out, since their calls are dispatched already; so are torch's C modules, in which torch
    looks functions up while a mode is active: a call would be dispatched twice.

    There are thousands of modules, so they are searched again only after an import. A module without a spec, such as a
    notebook, may change at any time and is searched every time.
    """
    imported = (len(sys.modules), next(reversed(sys.modules)))
    if not _found or _found[0][0] != imported:
        _found[:] = [(imported, [module for module in _eligible() if _may_hold(module, functions)])]
    return {
        name: [module for module in _found[0][1] if vars(module).get(name) is function]
        for name, function in functions.items()
    }


def _eligible() -> list[Any]:
    return [
        module
        for key, module in list(sys.modules.items())
        if hasattr(module, "__dict__") and not key.startswith(("regard", "torch._C"))
    ]


def _may_hold(module: Any, functions: Mapping[str, Any]) -> bool:
    names = vars(module)
    return names.get("__spec__") is None or any(name in names for name in functions)
