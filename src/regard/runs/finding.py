"""Recipes by name or by path, read, changed and checked."""

import difflib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from regard.data.bounded import parse_yaml, read_text
from regard.errors import RegardError
from regard.runs.reading import build, place, plain
from regard.runs.recipe import PRESETS, Recipe


def shipped() -> dict[str, str]:
    """The recipes that come with the library: name → YAML."""
    folder = files("regard") / "recipes"
    found = [each for each in folder.iterdir() if each.name.endswith(".yaml")]
    return {
        each.name.removesuffix(".yaml"): each.read_text("utf-8")
        for each in sorted(found, key=lambda f: f.name)
    }


def find(name: str, changes: Sequence[str] = ()) -> Recipe:
    """A shipped recipe by its name, or one of the user's own by its path, with `a.b=c` changes applied."""
    text, where = _text(name)
    return resolve(_with(parse(text, where), changes))


def changed(recipe: Recipe, changes: Sequence[str]) -> Recipe:
    """A recipe with `a.b=c` changes applied."""
    return resolve(_with(plain(recipe), changes)) if changes else recipe


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


def resolve(values: dict[str, Any]) -> Recipe:
    """Checked values, presets filled in."""
    model = values.get("model")
    if isinstance(model, dict) and "preset" in model:
        presets = PRESETS.get(str(model.get("kind")), {})
        name = model["preset"]
        if not isinstance(name, str) or name not in presets:
            known = ", ".join(presets) or "none"
            raise RegardError(
                f"model.preset: {name!r} is not a preset of {model.get('kind')}; there are: {known}"
            )
        own = {key: value for key, value in model.items() if key != "preset"}
        values = {**values, "model": {**plain(presets[name]()), **own}}
    return build(Recipe, values)


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
