"""What a figure is made of: its picture, the numbers in it, and what to see."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.file_access import writable_folder, write_atomically
from regard.sight.pictures.scene import Drawing

Progress = Callable[[str], None]


def silent(line: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FigureResult:
    """A figure that was made. In a notebook it shows its picture."""

    name: str
    picture: Drawing
    numbers: Mapping[str, Any]  # what the picture shows, as plain data
    see: tuple[str, str, str]  # what to see in it, in three lines

    def write(self, out: Path) -> list[Path]:
        """Write NAME.png, NAME.svg and NAME.json into a folder."""
        files = [writable_folder(out) / f"{self.name}.{suffix}" for suffix in ("png", "svg", "json")]
        self.picture.png(files[0])
        self.picture.svg(files[1])
        write_atomically(
            files[2], json.dumps({"figure": self.name, **self.numbers}, indent=1, ensure_ascii=False) + "\n"
        )
        return files

    def _repr_html_(self) -> str:
        return self.picture._repr_html_()
