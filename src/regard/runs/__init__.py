"""Runs: recipes, run folders, and what they load into. `find` reads a recipe, `resolve` makes one of plain values."""

from regard.runs.recipe import Recipe, find, resolve
from regard.runs.settings import Decoding, Training

__all__ = ["Decoding", "Recipe", "Training", "find", "resolve"]
