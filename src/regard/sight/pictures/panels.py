"""Panels: several pictures on one page, under one another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rich.console import Group, RenderableType
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.labels import plain
from regard.sight.pictures.scene import Drawn, Scene, head, moved


@runtime_checkable
class Panel(Protocol):
    """A picture that is a part of another."""

    def scene(self) -> Scene:
        """The marks of the picture."""

    def terminal(self) -> RenderableType:
        """The picture for a rich console."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Panels(Drawn):
    """Pictures from top to bottom, their left edges in line."""

    parts: Sequence[Panel]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.parts:
            raise RegardError("a page without pictures: give at least one")

    def scene(self) -> Scene:
        """The pictures under a common title."""
        marks, y, reach = head(plain(self.title, 96), plain(self.note, 160))
        y = y - 10 if self.title or self.note else 0.0  # each picture brings a margin
        for scene in (part.scene() for part in self.parts):
            marks += [moved(mark, 0.0, y) for mark in scene.marks]
            y += scene.height
            reach = max(reach, scene.width)
        return Scene(width=math.ceil(reach), height=math.ceil(y), title=plain(self.title, 96), marks=marks)

    def terminal(self) -> RenderableType:
        """The pictures for a rich console, one after another."""
        heading = [Text(plain(self.title, 96), style="bold")] if self.title else []
        note = [Text(plain(self.note, 160), style="dim")] if self.note else []
        return Group(*heading, *note, *(part.terminal() for part in self.parts))
