"""Relative paths of a recipe: where they start is written down when a run begins, so that any folder will do later."""

import os
from dataclasses import replace
from pathlib import Path

from regard.data.records import Parallel
from regard.errors import warn
from regard.runs.recipe import Recipe
from regard.runs.settings import ImageData, LabelledData, PairData, SoundData, SpokenData, TextData

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
