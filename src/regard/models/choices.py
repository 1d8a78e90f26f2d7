"""Settings that name one of a few things, checked in one place."""

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

from regard.errors import RegardError


def check_choices(config: Any) -> None:
    """Raise if a field of a config that is one of a few words is none of them."""
    for field in fields(config):
        words = get_args(field.type) if get_origin(field.type) is Literal else ()
        given = getattr(config, field.name)
        if words and given not in words:
            raise RegardError(f"{field.name}={given!r}: one of {', '.join(map(repr, words))}")


def check_vocabulary(name: str, size: int) -> int:
    """The size of a vocabulary, which must be known by the time a model is built."""
    if size < 1:
        raise RegardError(f"{name}={size}: a model is built for a vocabulary of known size, its tokenizer's")
    return size
