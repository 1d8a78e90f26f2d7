"""Settings that another library cannot express, refused by name before anything is written."""

from collections.abc import Mapping
from typing import Any

from regard.errors import RegardError
from regard.models.transformer import TransformerConfig


def refuse_other_settings(
    config: TransformerConfig, can_say: Mapping[str, tuple[Any, ...]], *, to: str
) -> None:
    """Raise for the settings whose values are not among those that `to` knows, all of them in one line."""
    others = [
        f"{name}={getattr(config, name)!r} (only {' or '.join(map(repr, values))})"
        for name, values in can_say.items()
        if getattr(config, name) not in values
    ]
    if others:
        raise RegardError(f"{to} cannot express {', '.join(others)}: train with settings it knows")
