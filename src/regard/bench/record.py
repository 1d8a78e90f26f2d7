"""What is written down of a measurement: figures, tables, pictures, and what they depended on."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.bench.measuring import machine
from regard.bench.tables import Table
from regard.data.file_access import writable_folder
from regard.runs.load import chosen_device
from regard.sight.pictures.scene import Drawing


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How it is measured."""

    device: str = "cpu"
    threads: int = 1
    rounds: int = 5
    quick: bool = False

    @property
    def gpu(self) -> bool:
        """Whether it is measured on a GPU."""
        return self.device.startswith("cuda")


def begin(
    out: Path, *, device: str, threads: int | None, rounds: int, quick: bool = False
) -> tuple[Setting, dict[str, object]]:
    """Check what would fail in the end, choose device and threads, and say what the run depends on."""
    chosen = str(chosen_device(device))
    writable_folder(out)
    if threads is not None:
        torch.set_num_threads(threads)
    setting = Setting(device=chosen, threads=torch.get_num_threads(), rounds=rounds, quick=quick)
    torch.manual_seed(0)
    command = shlex.join(["regard", *sys.argv[1:]])
    return setting, {"command": command, "device": setting.device, "rounds": rounds, **machine()}


@dataclass(frozen=True, kw_only=True)
class Record:
    """A measurement, ready to be written."""

    name: str  # of its files
    title: str
    about: Mapping[str, object]
    notes: Sequence[str]
    tables: Sequence[Table]
    figures: Mapping[str, Any]  # for JSON
    pictures: Mapping[str, Drawing] = field(default_factory=dict)  # by the names of their files
    more: Mapping[str, str] = field(default_factory=dict)  # other files and what is in them

    def json(self) -> str:
        """The figures and what they depended on."""
        return json.dumps({"about": self.about, **self.figures}, indent=1, ensure_ascii=False) + "\n"

    def markdown(self) -> str:
        """The tables, with notes and pictures."""
        lines = [f"# {self.title}", "", f"Made by `{self.about['command']}`. {self.depended()}.", ""]
        lines += [*self.notes, "", *(f"![{name}]({name}.png)\n" for name in self.pictures)]
        return "\n".join([*lines, *(table.markdown() for table in self.tables)])

    def depended(self) -> str:
        """What the run depended on, in a line."""
        return "; ".join(f"{name}: {value}" for name, value in self.about.items() if name != "command")

    def write(self, folder: Path) -> list[Path]:
        """Everything into a folder; the names of the files."""
        texts = {f"{self.name}.json": self.json(), f"{self.name}.md": self.markdown(), **self.more}
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
        files = [folder / name for name in texts]
        for name, picture in self.pictures.items():
            drawn = [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]
            for file in drawn:
                picture.write(file)
            files += drawn
        return files
