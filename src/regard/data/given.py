"""Values from outside, checked where they enter: a mistake is one line that names it, never a traceback from inside.

Arguments: each check is one comparison for correct input, and composes its message only when the input is wrong.

JSON and YAML are read strictly: plain values of bounded depth, count and size, and no key twice. Of YAML only what
recipes need is read: mappings, lists, text, numbers, true, false and null. Aliases and merge keys are refused, because
a few lines of them can expand to more than any memory holds. Dates are text.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field, fields
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from regard.errors import RegardError

Kind = TypeVar("Kind")


def shown(value: object) -> str:
    """A value as a message shows it: in one line, and not all of a long one."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"NumPy's {value.dtype}{list(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def vectors(
    name: str, given: Any, width: int | None = None, *, axes: int = 1, of: nn.Module | None = None
) -> Tensor:
    """Vectors of this width, [..., width], with so many axes at least.

    A NumPy array becomes a tensor, like the weights of the module that asks for it.
    """
    if (
        isinstance(given, Tensor)
        and given.is_floating_point()
        and given.ndim >= axes
        and (width is None or given.shape[-1] == width)
    ):
        return given
    if isinstance(given, np.ndarray) and given.dtype.kind == "f":
        like = None if of is None else next(of.parameters(), None)
        taken = torch.from_numpy(np.ascontiguousarray(given))
        return vectors(name, taken if like is None else taken.to(like), width, axes=axes)
    if isinstance(given, Tensor) and given.is_floating_point() and given.ndim >= axes:
        raise RegardError(
            f"{name} has vectors of width {given.shape[-1]}, and {width} is wanted: {shown(given)}"
        )
    shape = ", ".join(["…", *["positions"] * (axes - 1), str(width or "width")])
    raise RegardError(f"{name}={shown(given)}: give a tensor of floats, [{shape}]")


def integers(name: str, given: Any, axes: int | None = None) -> Tensor:
    """Whole numbers, such as tokens or lengths. Those of few bits, and NumPy's, become int64."""
    if isinstance(given, Tensor) and (axes is None or given.ndim == axes):
        if given.dtype is torch.int64 or given.dtype is torch.int32:
            return given
        if given.dtype in (torch.int16, torch.int8, torch.uint8):
            return given.long()
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu":
        return integers(name, torch.from_numpy(given.astype(np.int64)), axes)
    shape = "" if axes is None else f" with {axes} {'axis' if axes == 1 else 'axes'}"
    raise RegardError(f"{name}={shown(given)}: give a tensor of whole numbers{shape}")


def whole(name: str, given: Any, *, least: int | None = None) -> int:
    """One whole number; NumPy's are taken."""
    if not isinstance(given, int) or isinstance(given, bool):
        if not isinstance(given, np.integer):
            raise RegardError(f"{name}={shown(given)}: give a whole number")
        given = int(given)
    if least is not None and given < least:
        raise RegardError(f"{name}={given}: at least {least}")
    return given


def number(name: str, given: Any) -> float:
    """One number; NumPy's are taken."""
    if type(given) is float:
        return given
    if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
        return float(given)
    raise RegardError(f"{name}={shown(given)}: give a number")


def probability(name: str, given: Any) -> float:
    """A number from 0 to 1."""
    if not 0.0 <= number(name, given) <= 1.0:
        raise RegardError(f"{name}={given}: a probability, from 0 to 1")
    return float(given)


def instance(name: str, given: Any, kind: type[Kind] | tuple[type[Kind], ...], wanted: str) -> Kind:
    """Something of a kind; `wanted` says what to give instead."""
    if isinstance(given, kind):
        return given
    raise RegardError(f"{name}={shown(given)}: {wanted}")


def listed(given: Any, what: str) -> Any:
    """A list of inputs: a single text would be read as a list of letters."""
    if (
        isinstance(given, Sequence | np.ndarray | Tensor)
        and not isinstance(given, str | bytes)
        and getattr(given, "ndim", 1) > 0
    ):
        return given
    if isinstance(given, str | bytes) or hasattr(given, "__fspath__"):
        raise RegardError(
            f"a list of {what}s is wanted, not one {what}: put it in brackets, [{shown(str(given))}]"
        )
    raise RegardError(f"a list of {what}s is wanted, not {shown(given)}")


def texts_of(given: Any, what: str = "text") -> list[str]:
    """Texts in a list."""
    several = listed(given, what)
    for place, each in enumerate(several):
        if not isinstance(each, str):
            raise RegardError(f"{what} {place} of {len(several)} is {shown(each)}: give texts, in quotes")
    return list(several)


def limited(
    default: Any, least: float | None = None, most: float | None = None, *, below: float | None = None
) -> Any:
    """A field of a `Limited` dataclass, whose value (or each of several) is within these limits."""
    return field(default=default, metadata={"limits": (least, most, below)})


class Limited:
    """A dataclass that refuses values outside the limits of its fields."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # of the subclass
            least, most, below = each.metadata.get("limits", (None, None, None))
            value = getattr(self, each.name)
            value = list(value) if isinstance(value, tuple) else value
            for part in value if isinstance(value, list) else [value]:
                if below is not None and not least <= part < below:
                    raise RegardError(f"{each.name}={value}: each from {least:g} to below {below:g}")
                if (least, most) == (0, 1) and not 0 <= part <= 1:
                    raise RegardError(f"{each.name}={value}: a share, from 0 to 1")
                if least is not None and not part >= least:
                    raise RegardError(f"{each.name}={value}: at least {least:g}")
                if most is not None and not part <= most:
                    raise RegardError(f"{each.name}={value}: at most {most:,}")


DEEPEST = 64  # mappings and lists inside each other
MAX_VALUES = 1_000_000  # of JSON
MAX_YAML = 1 << 16  # characters; the longest recipe that is shipped has three thousand
LARGEST = 2**63 - 1  # of a whole number, as tensors hold them

_HALF = "a lone surrogate, which is half a character"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
HALF_CHARACTER = re.compile("[\ud800-\udfff]")  # a lone surrogate
_SCALARS = ("null", "bool", "int", "float", "str", "timestamp")


class _RefusedError(ValueError):
    """What is wrong with a text, without its place."""


def parse_json(text: str, where: object, *, finite: bool = True, values: int = MAX_VALUES) -> Any:
    """The value of a JSON text. `finite=False` lets NaN and Infinity pass, as Python writes them."""
    try:
        # Every value but the first comes after one of these. Counted before anything is built.
        if text.count(",") + text.count("[") + text.count("{") > values:
            raise _RefusedError(f"more than {values:,} values")
        found = json.loads(
            text,
            object_pairs_hook=mapping_once,
            parse_int=_whole,
            parse_float=_finite if finite else float,
            parse_constant=_no_number if finite else float,
        )
        _check_depth(found)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()  # pairs of them are characters, and fine
        return found
    except UnicodeEncodeError:
        raise RegardError(f"{where} is not JSON: {_HALF}") from None
    except (json.JSONDecodeError, _RefusedError) as error:
        raise RegardError(f"{where} is not JSON: {_oneline(error)}") from None
    except RecursionError:
        raise RegardError(f"{where} is not JSON: {_too_deep()}") from None


def parse_settings(text: str, where: object, *, finite: bool = True) -> dict[str, Any]:
    """The mapping of a JSON text."""
    values = parse_json(text, where, finite=finite)
    if not isinstance(values, dict):
        raise RegardError(f"{where} does not hold settings, but {type(values).__name__}")
    return values


def parse_yaml(text: str, where: object) -> Any:
    """The value of a YAML text."""
    if len(text) > MAX_YAML:
        raise RegardError(f"{where}: not YAML: {len(text):,} characters, more than {MAX_YAML:,}")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else loader.value_of(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RegardError(f"{where}{line}: not YAML: {_oneline(getattr(error, 'problem', error))}") from None


class _Loader(yaml.SafeLoader):
    """PyYAML up to the nodes. What they mean is said here, for its own constructors know no bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node, not too deep."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self._refuse("an alias (*), which is not read: write it out", event)
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(_too_deep(), event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def value_of(self, node: Any) -> Any:
        """A node as plain values."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.MappingNode) and kind == "map":
            found: dict[Any, Any] = {}
            for key, value in node.value:
                if key.tag.endswith(":merge"):
                    self._refuse("a merge key (<<), which is not read: write it out", key)
                if not isinstance(key, yaml.ScalarNode):
                    self._refuse("a key that is no text", key)
                name = self.value_of(key)
                if name in found:
                    self._refuse(f"{name!r} is there twice", key)
                found[name] = self.value_of(value)
            return found
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value_of(each) for each in node.value]
        if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
            return self._scalar(node, kind)
        self._refuse(f"{node.tag[:80]!r} is not read here", node)

    def _scalar(self, node: yaml.ScalarNode, kind: str) -> Any:
        if kind in ("str", "timestamp"):
            if HALF_CHARACTER.search(node.value):
                self._refuse(_HALF, node)
            return node.value
        try:
            value: Any = {
                "null": self.construct_yaml_null,
                "bool": self.construct_yaml_bool,
                "int": self.construct_yaml_int,
                "float": self.construct_yaml_float,
            }[kind](node)
        except (
            ValueError,
            KeyError,
            IndexError,
            OverflowError,
        ):  # as of !!int "many", or ten thousand digits
            self._refuse(f"{node.value[:40]!r} is no {kind} that can be read", node)
        if kind == "int" and not -LARGEST <= value <= LARGEST:
            self._refuse(f"{node.value[:40]!r} is too large a number", node)
        if kind == "float" and not math.isfinite(value):
            self._refuse(f"{node.value[:40]!r} is not a finite number", node)
        return value

    def _refuse(self, problem: str, at: Any) -> NoReturn:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def mapping_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The names and values of a JSON object, in which no name may be twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _RefusedError(f"{twice[:80]!r} is there twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > LARGEST:
        raise _RefusedError(f"{digits[:40]} is too large a number")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        _no_number(digits)
    return value


def _no_number(digits: str) -> NoReturn:
    raise _RefusedError(f"{digits[:40]} is not a finite number")


def _check_depth(value: Any) -> None:
    """Level by level, because what is too deep is also too deep for recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for each in level for part in _parts(each) if isinstance(part, dict | list)]
        if not level:
            return
    raise _RefusedError(_too_deep())


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _too_deep() -> str:
    return f"more than {DEEPEST} mappings or lists inside each other"


def _oneline(error: object) -> str:
    return " ".join(str(error).split())


def check_choices(config: Any) -> None:
    """Raise if a field of a config is of another type than it says, or none of the few words that it may be."""
    for setting in fields(config):
        words = get_args(setting.type) if get_origin(setting.type) is Literal else ()
        given = getattr(config, setting.name)
        if words and not (isinstance(given, str) and given in words):
            raise RegardError(f"{setting.name}={shown(given)}: one of {', '.join(map(repr, words))}")
        if not words and not _fits(given, setting.type):
            raise RegardError(f"{setting.name}={shown(given)}: give {_named(setting.type)}")


Config = TypeVar("Config")


def configured(config: Any, kind: type[Config]) -> Config:
    """The config of a model, if it is one of its kind."""
    if isinstance(config, kind):
        return config
    raise RegardError(f"config={shown(config)}: give a {kind.__name__}(…)")


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
