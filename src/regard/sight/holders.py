"""Which modules imported a function by name, and so go on calling it when it is replaced at home."""

import sys
from collections.abc import Mapping
from typing import Any

_Holders = dict[str, list[Any]]
_found: list[
    tuple[object, list[Any]]
] = []  # what was imported when we looked last, and who may hold a function


def holders(originals: Mapping[str, Any]) -> _Holders:
    """For each function, by its name, the modules that hold it under that name.

    Ours are not among them, since ours stop at the seam already; nor are torch's C modules, in which torch looks
    functions up while a mode is active, and would come by twice.

    There are thousands of modules, so they are looked through again only after an import. What has no spec, such as a
    notebook, goes on changing, and is looked at every time.
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
