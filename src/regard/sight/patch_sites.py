"""Which modules imported a function by name, and so go on calling it after it is replaced in the module it is from."""

import sys
from collections.abc import Mapping
from typing import Any

_found: list[
    tuple[object, list[Any]]
] = []  # what was imported at the last search, and the modules that may hold a function


def patch_sites(originals: Mapping[str, Any]) -> dict[str, list[Any]]:
    """For each function, by its name, the modules that hold it under that name.

    Modules of regard are left out, since their calls are dispatched already; so are torch's C modules, in which torch
    looks functions up while a mode is active: a call would be dispatched twice.

    There are thousands of modules, so they are searched again only after an import. A module without a spec, such as a
    notebook, may change at any time and is searched every time.
    """
    imported = (len(sys.modules), next(reversed(sys.modules)))
    if not _found or _found[0][0] != imported:
        _found[:] = [(imported, [module for module in _eligible() if _may_hold(module, originals)])]
    return {
        name: [module for module in _found[0][1] if vars(module).get(name) is original]
        for name, original in originals.items()
    }


def _eligible() -> list[Any]:
    return [
        module
        for key, module in list(sys.modules.items())
        if hasattr(module, "__dict__") and not key.startswith(("regard", "torch._C"))
    ]


def _may_hold(module: Any, originals: Mapping[str, Any]) -> bool:
    names = vars(module)
    return names.get("__spec__") is None or any(name in names for name in originals)
