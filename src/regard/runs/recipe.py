"""A recipe: data, model, training and decoding of one experiment; found by name or path, changed, checked and written.

Plain values, as YAML or JSON hold them, become frozen dataclasses here, and the other way round. A mistake is reported
with its place.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from regard.data.file_access import read_text
from regard.data.given import parse_yaml
from regard.errors import RegardError, warn
from regard.models.kind import Kind
from regard.models.kinds import KINDS
from regard.runs.settings import LARGEST_SEED, Data, Decoding, Init, Planning, Tokens, Training


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment."""

    about: str = ""
    data: Data
    model: Any  # the config of its kind
    tokens: Tokens = field(default_factory=Tokens)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
    init: Init | None = None
    plan: Planning | None = None  # choose what is left out; a run has the choices, and no plan any more
    planned: tuple[str, ...] = ()  # what a plan chose for this run, and why
    base: str = ""  # where relative paths of data and init start; empty: the folder the command runs in
    seed: int = 1
    kinds: tuple[Kind, ...] = field(default=KINDS, repr=False, metadata={"setting": False})  # to choose from
    # What was said of it, before defaults were filled in: what a plan leaves alone.
    given: Mapping[str, Any] = field(
        default_factory=dict, repr=False, compare=False, metadata={"setting": False}
    )

    @property
    def kind(self) -> Kind:
        """The kind of its model."""
        return kind_of(self.model, self.kinds)

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise RegardError(f"seed={self.seed}: from 0 to {LARGEST_SEED}")


def joined(kinds: Sequence[Kind], own: Sequence[Kind]) -> tuple[Kind, ...]:
    """These kinds and the user's own, none of which may have the name of another."""
    every = (*kinds, *(each for each in own if each not in kinds))
    names = [each.name for each in every]
    for each in own:
        if names.count(each.name) > 1:
            raise RegardError(
                f"KIND {each.name!r} of {each.config.__qualname__}: there is one of this name already"
            )
    return every


def kind_of(config: object, kinds: Sequence[Kind]) -> Kind:
    """The kind that a config is of."""
    found = next((each for each in kinds if type(config) is each.config), None)
    if found is None:
        raise RegardError(
            f"{type(config).__qualname__}: the config of no known kind; give its Kind with `kinds`"
        )
    return found


def shipped() -> dict[str, str]:
    """The recipes that come with the library: name → YAML."""
    folder = files("regard") / "recipes"
    found = [each for each in folder.iterdir() if each.name.endswith(".yaml")]
    return {
        each.name.removesuffix(".yaml"): each.read_text("utf-8")
        for each in sorted(found, key=lambda f: f.name)
    }


def find(name: str, changes: Sequence[str] = (), *, kinds: Sequence[Kind] = ()) -> Recipe:
    """A shipped recipe by its name, or one of the user's own by its path, with `a.b=c` changes applied.

    `kinds` are those of the user's own models.
    """
    text, where = text_of(name)
    return resolve(_with(parse(text, where), changes), kinds)


def changed(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """A recipe with `a.b=c` changes applied."""
    return resolve(_with(plain(recipe), changes), recipe.kinds) if changes else recipe


def _with(values: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    for change in changes:
        path, sign, value = change.partition("=")
        if not sign or not path.strip("."):
            raise RegardError(f"--set {change}: say --set training.steps=500")
        values = _changed(values, path.strip(), _value(value, f"--set {change}"))
    return values


def _changed(values: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """One setting changed. Another kind of model or data has other settings, so those of the old kind go."""
    above, _, name = path.rpartition(".")
    if name == "kind" and above in ("model", "data"):
        old = values.get(above)
        if isinstance(old, dict) and old.get("kind") == value:
            return values
        return {**values, above: {"kind": value}}
    return place(values, path, value)


def parse(text: str, where: str) -> dict[str, Any]:
    """YAML into a mapping."""
    values = parse_yaml(text, where)
    if not isinstance(values, dict):
        found = "empty" if values is None else f"a {type(values).__name__}"
        raise RegardError(f"{where}: a recipe has data, model, training …; this is {found}")
    return values


def resolve(values: dict[str, Any], kinds: Sequence[Kind] = ()) -> Recipe:
    """Checked values, presets filled in. The model is of a kind of the library, or of one of these."""
    every, model, given = joined(KINDS, kinds), values.get("model"), values
    if isinstance(model, dict) and "preset" in model:
        presets = next((each.presets for each in every if each.name == model.get("kind")), {})
        name = model["preset"]
        if not isinstance(name, str) or name not in presets:
            there = ", ".join(presets) or "none"
            raise RegardError(
                f"model.preset: {name!r} is not a preset of {model.get('kind')}; there are: {there}"
            )
        own = {key: value for key, value in model.items() if key != "preset"}
        model = {**plain(presets[name]()), **own}
    if "model" in values:
        values = {**values, "model": config_of(model, every, where="model")}
    return replace(build(Recipe, values), kinds=every, given=given)


def config_of(values: object, kinds: Sequence[Kind], *, where: str) -> Any:
    """The config of a model, of the kind that its `kind` names."""
    name = values.get("kind") if isinstance(values, dict) else None
    kind = next((each for each in kinds if each.name == name), None)
    if isinstance(values, dict) and kind is not None:
        # A run has it in recipe.yaml and in config.json: the same words for both, so that they are said once.
        values = _renamed(kind.config, values, "model")
    try:
        return _one_of(tuple(each.config for each in kinds), values, where)
    except RegardError as error:
        if isinstance(name, str) and kind is None:
            raise RegardError(
                f"{error}; for a kind of your own give its file, --kind FILE.py, or in Python kinds=[KIND]"
            ) from None
        raise


def written(recipe: Recipe) -> str:
    """A recipe as YAML, every setting spelled out."""
    return yaml.safe_dump(plain(recipe), sort_keys=False, allow_unicode=True, width=100)


def text_of(name: str) -> tuple[str, str]:
    """The YAML of a recipe, by name or path, and where it is from."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return read_text(path), str(path)
    recipes = shipped()
    if name not in recipes:
        near = difflib.get_close_matches(name, recipes, 1, 0.4)
        hint = f"did you mean {near[0]}?" if near else "`regard recipes` lists those there are"
        raise RegardError(f"{name}: no recipe of this name, and no such file; {hint}")
    return recipes[name], name


def _value(text: str, where: str) -> Any:
    try:
        return parse_yaml(text, where)
    except RegardError as error:
        raise RegardError(f"{error}; quote it") from None


Made = TypeVar("Made")
_SHOWN = 200  # characters of a wrong value in a message


def build(kind: type[Made], values: object, *, where: str = "") -> Made:
    """An instance of a dataclass from a mapping; `where` is its place in the recipe, such as `model`."""
    return _convert(kind, values, where)


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


def with_changes(settings: Made, changes: Mapping[str, Any], *, where: str) -> Made:
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
    if origin in (Union, UnionType):
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
    above = f"{where}." if where else ""
    for each in _fields(kind):
        required = each.default is each.default_factory is dataclasses.MISSING
        if required and each.name not in given:
            raise RegardError(f"{above}{each.name} is missing: give {describe(hints[each.name])}")
    made = {key: _convert(hints[key], each, f"{above}{key}") for key, each in given.items()}
    try:
        return kind(**made)
    except RegardError as error:  # a value that its settings refuse
        raise RegardError(f"{above}{error}") from None


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
    if value is None and NoneType in kinds:
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
        if each is not NoneType and not dataclasses.is_dataclass(each):
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
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if kind in words:
        return words[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (Union, UnionType):
        tags = [tag["kind"] for each in arguments if (tag := _tag_of(each))]
        if len(tags) > 1:  # the settings of all of them would fill a page
            return f"settings with a kind: {', '.join(tags)}"
        return " or ".join(describe(each) for each in arguments if each is not NoneType)
    if origin in (tuple, list, Sequence):
        if origin is tuple and Ellipsis not in arguments:
            return f"a list of {len(arguments)}: " + ", ".join(map(describe, arguments))
        return "a list, each " + describe(arguments[0])
    if dataclasses.is_dataclass(kind):
        return f"settings ({_settings(kind)})"
    return "nothing" if kind is NoneType else str(getattr(kind, "__name__", kind))


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
