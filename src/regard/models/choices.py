"""Settings of models: of the type they say, and one of a few words where there are few, checked in one place."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from regard.data.given import told
from regard.errors import RegardError


def check_choices(config: Any) -> None:
    """Raise if a field of a config is of another type than it says, or none of the few words that it may be."""
    for field in fields(config):
        words = get_args(field.type) if get_origin(field.type) is Literal else ()
        given = getattr(config, field.name)
        if words and not (isinstance(given, str) and given in words):
            raise RegardError(f"{field.name}={told(given)}: one of {', '.join(map(repr, words))}")
        if not words and not _fits(given, field.type):
            raise RegardError(f"{field.name}={told(given)}: give {_named(field.type)}")


Config = TypeVar("Config")


def configured(config: Any, kind: type[Config]) -> Config:
    """The config of a model, if it is one of its kind."""
    if isinstance(config, kind):
        return config
    raise RegardError(f"config={told(config)}: give a {kind.__name__}(…)")


def _fits(given: Any, kind: Any) -> bool:
    if get_origin(kind) is UnionType:
        return any(_fits(given, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        sized = isinstance(given, tuple | list) and (inner[-1] is ... or len(given) == len(inner))
        return sized and all(_fits(each, inner[0]) for each in given)
    if kind is float:
        return isinstance(given, int | float) and not isinstance(given, bool)
    if kind is int:
        return isinstance(given, int) and not isinstance(given, bool)
    return not isinstance(kind, type) or isinstance(given, kind)


def _named(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "a word", NoneType: "None"}
    if get_origin(kind) is UnionType:
        return " or ".join(map(_named, get_args(kind)))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        return "whole numbers in a tuple" if inner[-1] is ... else f"{len(inner)} whole numbers in a tuple"
    return names.get(kind, str(kind))


def check_vocabulary(name: str, size: int) -> int:
    """The size of a vocabulary, which must be known by the time a model is built."""
    if not _fits(size, int) or size < 1:
        raise RegardError(f"{name}={size}: a model is built for a vocabulary of known size, its tokenizer's")
    return size
