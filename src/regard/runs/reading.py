"""Plain values, as YAML or JSON hold them, into frozen dataclasses and back. A mistake is reported with its place."""

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import RegardError, warn

Made = TypeVar("Made")
_SHOWN = 200  # characters of a wrong value in a message


def build(kind: type[Made], values: object, *, where: str = "") -> Made:
    """An instance of a dataclass from a mapping; `where` is its place in the recipe, such as `model`."""
    return _convert(kind, values, where)


def build_one(kinds: Sequence[type], values: object, *, where: str) -> Any:
    """An instance of one of these dataclasses, chosen by the `kind` in the mapping."""
    return _one_of(tuple(kinds), values, where)


def plain(value: object) -> Any:
    """A dataclass as mappings, lists and scalars, in the order of its fields; what JSON and YAML can say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: plain(getattr(value, each.name)) for each in _fields(type(value))}
        return {**_tag_of(type(value)), **fields}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def changed(settings: Made, changes: Mapping[str, Any], *, where: str) -> Made:
    """The same settings with some values changed, checked as if they had been read."""
    return build(type(settings), {**plain(settings), **changes}, where=where)


def place(values: Any, path: str, value: object) -> Any:
    """A copy of nested mappings with one value replaced: `place(recipe, "model.width", 256)`."""
    head, _, rest = path.partition(".")
    if not isinstance(values, Mapping):
        raise RegardError(f"--set {path}=…: there is nothing below a single value ({values!r})")
    return {**values, head: place(values.get(head) or {}, rest, value) if rest else value}


def _convert(kind: Any, value: object, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool) != any(
            isinstance(each, bool) for each in arguments
        ):
            near = _near(_shown(value), [str(each) for each in arguments])
            raise RegardError(f"{where}: {_shown(value)} is none of {', '.join(map(str, arguments))}{near}")
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, where)
    if origin in (tuple, list, Sequence):
        return _sequence(origin, arguments, value, where, kind)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(kind, value, where)
        return {str(key): _convert(arguments[1], each, f"{where}.{key}") for key, each in value.items()}
    return _scalar(kind, value, where)


def _dataclass(kind: type, value: object, where: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise RegardError(
            f"{where or 'the recipe'}: {_shown(value)}, but settings are wanted: {_settings(kind)}"
        )
    types, tag = get_type_hints(kind), _tag_of(kind)
    hints = {each.name: types[each.name] for each in _fields(kind)}
    given = _renamed(kind, {key: each for key, each in value.items() if key not in tag}, where)
    for key in given:
        if key not in hints:
            key = str(key)[:_SHOWN]
            near = difflib.get_close_matches(key, hints, 1, 0.5)
            name = f"{where}.{key}" if where else key
            if near:
                raise RegardError(
                    f"{name}: no such setting; did you mean {near[0]} ({describe(hints[near[0]])})?"
                )
            raise RegardError(f"{name}: no such setting; there are {_settings(kind)}")
    for each in _fields(kind):
        if (
            each.name not in given
            and each.default is dataclasses.MISSING
            and each.default_factory is dataclasses.MISSING
        ):
            raise RegardError(
                f"{where + '.' if where else ''}{each.name} is missing: give {describe(hints[each.name])}"
            )
    made = {
        key: _convert(hints[key], each, f"{where}.{key}" if where else str(key))
        for key, each in given.items()
    }
    try:
        return kind(**made)
    except RegardError as error:  # a value that its settings refuse
        raise RegardError(f"{where}.{error}" if where else str(error)) from None


def _renamed(kind: type, given: Mapping[Any, object], where: str) -> dict[Any, object]:
    """Settings under the names they have now: a class lists those it once had in `RENAMED`, and `name=value` if values, too."""
    names: Mapping[str, str] = getattr(kind, "RENAMED", {})
    found: dict[Any, object] = {}
    for key, each in given.items():
        if key in names:
            above = f"{where}." if where else ""
            warn(f"{above}{key} is called {above}{names[key]} now")
            each = names.get(f"{key}={each}", each)
        found[names.get(key, key)] = each
    return found


def _one_of(kinds: tuple[Any, ...], value: object, where: str) -> Any:
    """The member of a union that a value is meant as: dataclasses by their `kind`, the rest by their type."""
    if value is None and type(None) in kinds:
        return None
    classes = [each for each in kinds if isinstance(each, type) and dataclasses.is_dataclass(each)]
    if isinstance(value, Mapping) and classes:
        tagged = {tag["kind"]: each for each in classes if (tag := _tag_of(each))}
        if tagged and "kind" not in value and len(tagged) == len(classes):
            raise RegardError(f"{where}.kind is missing: one of {', '.join(tagged)}")
        if tagged and "kind" in value:
            name = value["kind"]
            if not isinstance(name, str) or name not in tagged:
                near = _near(str(name)[:_SHOWN], list(tagged))
                raise RegardError(f"{where}.kind: {_shown(name)} is none of {', '.join(tagged)}{near}")
            return _dataclass(tagged[name], value, where)
        return _dataclass(next(each for each in classes if not _tag_of(each)), value, where)
    for each in kinds:
        if each is not type(None) and not dataclasses.is_dataclass(each):
            try:
                return _convert(each, value, where)
            except RegardError:
                continue
    raise _wrong(Union[kinds], value, where)  # noqa: UP007 (built at run time)


def _sequence(origin: Any, arguments: tuple[Any, ...], value: object, where: str, kind: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _wrong(kind, value, where)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        if len(value) != len(arguments):
            raise _wrong(kind, value, where)
        return tuple(
            _convert(each, part, f"{where}[{i}]")
            for i, (each, part) in enumerate(zip(arguments, value, strict=True))
        )
    made = [_convert(arguments[0], part, f"{where}[{i}]") for i, part in enumerate(value)]
    return tuple(made) if origin is tuple else made


def _scalar(kind: Any, value: object, where: str) -> Any:
    if kind is float and (isinstance(value, int | str) and not isinstance(value, bool)):
        try:
            value = float(value)  # YAML reads 1e-3 as text
        except (ValueError, OverflowError):
            raise _wrong(kind, value, where) from None
    if type(value) is not kind:
        raise _wrong(kind, value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise RegardError(f"{where}: {value} is not a finite number")
    return value


def _wrong(kind: Any, value: object, where: str) -> RegardError:
    return RegardError(f"{where}: {_shown(value)} is not {describe(kind)}")


def _shown(value: object) -> str:
    """A value for a message, and no more of it than fits a line."""
    said = " ".join(repr(value).split())
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]} …"


def describe(kind: Any) -> str:
    """A type in words: `int` → a whole number."""
    words = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "nothing",
    }
    if kind in words:
        return words[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(describe(each) for each in arguments if each is not type(None))
    if origin in (tuple, list, Sequence):
        if origin is tuple and Ellipsis not in arguments:
            return f"a list of {len(arguments)}: " + ", ".join(map(describe, arguments))
        return "a list, each " + describe(arguments[0])
    if dataclasses.is_dataclass(kind):
        return f"settings ({_settings(kind)})"
    return str(getattr(kind, "__name__", kind))


def _settings(kind: Any) -> str:
    return ", ".join([*_tag_of(kind), *(each.name for each in _fields(kind))])


def _fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """The settings of a dataclass: its fields, but for those with `metadata={"setting": False}`."""
    return [each for each in dataclasses.fields(kind) if each.metadata.get("setting", True)]


def _tag_of(kind: Any) -> dict[str, str]:
    """{"kind": …} of a dataclass that is one of several, by its class attribute `KIND`."""
    tag = getattr(kind, "KIND", None)
    return {"kind": tag} if tag else {}


def _near(value: str, choices: list[str]) -> str:
    near = difflib.get_close_matches(value, choices, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""
