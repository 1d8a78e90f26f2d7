"""A recipe: data, model, training and decoding of one experiment; found by name or path, changed and checked.

The folder that its relative paths start from is recorded when a run begins, so that later commands may run in any folder.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from regard.data.file_access import read_text
from regard.data.given import parse_yaml
from regard.data.records import Parallel
from regard.errors import RegardError, warn
from regard.models.kind import Kind, joined, kind_of
from regard.models.kinds import KINDS
from regard.runs.reading import build, build_one, place, plain
from regard.runs.settings import (
    LARGEST_SEED,
    CountingData,
    Decoding,
    DigitData,
    ImageData,
    Init,
    LabelledData,
    NumberData,
    PairData,
    SameData,
    SoundData,
    SpokenData,
    StripData,
    TextData,
    Tokens,
    Training,
)

Data = (
    NumberData
    | CountingData
    | PairData
    | TextData
    | LabelledData
    | DigitData
    | ImageData
    | StripData
    | SoundData
    | SpokenData
    | SameData
)


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
    base: str = ""  # where relative paths of data and init start; empty: the folder the command runs in
    seed: int = 1
    kinds: tuple[Kind, ...] = field(default=KINDS, repr=False, metadata={"setting": False})  # to choose from

    @property
    def kind(self) -> Kind:
        """The kind of its model."""
        return kind_of(self.model, self.kinds)

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise RegardError(f"seed={self.seed}: from 0 to {LARGEST_SEED}")


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
    text, where = _text(name)
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
        raise RegardError(f"{where}: a recipe has data, model, training …; this is {type(values).__name__}")
    return values


def resolve(values: dict[str, Any], kinds: Sequence[Kind] = ()) -> Recipe:
    """Checked values, presets filled in. The model is of a kind of the library, or of one of these."""
    every, model = joined(KINDS, kinds), values.get("model")
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
    return replace(build(Recipe, values), kinds=every)


def config_of(values: object, kinds: Sequence[Kind], *, where: str) -> Any:
    """The config of a model, of the kind that its `kind` names."""
    try:
        return build_one([each.config for each in kinds], values, where=where)
    except RegardError as error:
        name = values.get("kind") if isinstance(values, dict) else None
        if isinstance(name, str) and all(name != each.name for each in kinds):
            raise RegardError(
                f"{error}; for a kind of your own give its file, --kind FILE.py, or in Python kinds=[KIND]"
            ) from None
        raise


def written(recipe: Recipe) -> str:
    """A recipe as YAML, every setting spelled out."""
    return yaml.safe_dump(plain(recipe), sort_keys=False, allow_unicode=True, width=100)


def find_text(name: str) -> str:
    """The YAML of a recipe, by name or path."""
    return _text(name)[0]


def _text(name: str) -> tuple[str, str]:
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


FromFiles = PairData | TextData | LabelledData | ImageData | SoundData | SpokenData


def recorded(recipe: Recipe) -> Recipe:
    """The recipe as a run keeps it: with the folder, `base`, that its relative paths start from, if it has any."""
    if not _has_relative_paths(recipe):
        return recipe
    return replace(recipe, base=os.path.abspath(os.path.expanduser(recipe.base)))


def anchored(recipe: Recipe) -> Recipe:
    """The recipe with paths that mean the same in every folder.

    Where `base` is gone, as after moving a project, they start from the folder the command runs in, with a warning.
    """
    if not recipe.base or not _has_relative_paths(recipe):
        return recipe
    base = Path(recipe.base).expanduser()
    if not base.is_dir():
        warn(
            f"base: {recipe.base}, where the relative paths of the recipe start, is gone: taking {Path.cwd()} for it; give "
            "another in recipe.yaml"
        )
        return recipe
    data = recipe.data
    if isinstance(data, FromFiles):
        data = replace(data, folder=str(base / Path(data.folder).expanduser()))
    init = recipe.init
    if init is not None:
        init = replace(init, run=str(base / Path(init.run).expanduser()))
    return replace(recipe, data=data, init=init)


def _has_relative_paths(recipe: Recipe) -> bool:
    if recipe.init is not None and _relative(recipe.init.run):
        return True
    data = recipe.data
    if not isinstance(data, FromFiles) or not _relative(data.folder):
        return False
    places = (data.train, getattr(data, "valid", None), getattr(data, "test", None))
    return any(_relative(place) for place in places)


def _relative(place: object) -> bool:
    """Whether any of the paths that a setting holds is."""
    match place:
        case str():
            return not Path(place).expanduser().is_absolute()
        case Parallel(source, target):
            return _relative(source) or _relative(target)
        case list() | tuple():
            return any(map(_relative, place))
        case _:
            return False


def located(folder: str, path: str) -> str:
    """A path of a recipe, from its folder."""
    return (
        str(Path(folder).expanduser() / Path(path).expanduser()) if folder else str(Path(path).expanduser())
    )


def all_located(folder: str, files: str | Sequence[str]) -> list[str]:
    """The paths of a recipe, from its folder."""
    return [located(folder, each) for each in ([files] if isinstance(files, str) else files)]
