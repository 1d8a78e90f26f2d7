"""The libraries that regard is held against, where they are installed."""

import importlib
import importlib.util
from importlib import metadata
from typing import Any

INSTALL = "pip install 'regard[bench]'"
PEERS = {"x_transformers": "x-transformers", "transformers": "transformers", "ctranslate2": "ctranslate2"}


def peer(module: str) -> Any:
    """A module of a peer; None where the peer is not installed."""
    if importlib.util.find_spec(module.split(".")[0]) is None:
        return None
    return importlib.import_module(module)


def missing() -> str | None:
    """Those that are not installed, and how to get them, in one line; None: all are there."""
    absent = [name for module, name in PEERS.items() if importlib.util.find_spec(module) is None]
    return f"left out, not installed: {', '.join(absent)} ({INSTALL})" if absent else None


def version(module: str) -> str:
    """Of a peer."""
    return metadata.version(PEERS[module]) if peer(module) is not None else "not installed"
