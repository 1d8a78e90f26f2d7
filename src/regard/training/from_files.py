"""`regard.train`: from the user's own files to a run that is loaded, in one call."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.runs.recipe import find

if TYPE_CHECKING:
    from regard.models.kind import Kind
    from regard.runs.answering import Loaded
    from regard.runs.folder import RunFolder
    from regard.training.observers import Observer

Files = str | PathLike[str] | Sequence[str | PathLike[str]]


def train(
    recipe: str,
    data: Files | None = None,
    *,
    minutes: float | None = None,
    out: str | PathLike[str] | None = None,
    change: Sequence[str] = (),
    overwrite: bool = False,
    device: str | None = None,
    progress: bool = True,
    kinds: "Sequence[Kind]" = (),
) -> "Loaded":
    """Train and load: `regard.train("translate", "pairs.tsv", minutes=10).translate(["Hello."])`.

    `recipe` is one of the library by its name, or a YAML file; `data` what to train on: a file, a folder, or the two
    files of parallel texts. `change` has settings, such as "model.dropout=0.1". The run is left in `out`, by default
    runs/ and the recipe's name. Shows a progress bar and what it does, unless told not to.
    """
    from regard.errors import Interrupted
    from regard.runs.load import load
    from regard.training.experiment import begin
    from regard.training.observers import Log, Progress

    changes = [
        *([] if data is None else data_changes(_listed(data))),
        *([] if minutes is None else [f"plan.minutes={minutes:g}"]),
        *change,
    ]
    path = Path(out) if out is not None else Path("runs") / Path(recipe).stem

    def observers(run: "RunFolder") -> "Sequence[Observer]":
        return [Log(run.log), *([Progress(unit=run.load_recipe().kind.unit)] if progress else [])]

    finished = begin(
        find(recipe, changes, kinds=kinds),
        path,
        overwrite=overwrite,
        device=device,
        observers=observers,
        say=Progress().noticed if progress else lambda message: None,
    )
    if finished.outcome.stopped:
        raise Interrupted
    return load(path, device=device, kinds=kinds)


def data_changes(files: Sequence[str]) -> list[str]:
    """The files to train on, as changes of a recipe: one or a folder, or the two sides of parallel texts."""
    if len(files) > 2:
        raise RegardError(
            f"{', '.join(files)}: give one file or folder, or two parallel texts; several files that belong together are "
            "set by data.train=[a.tsv, b.tsv]"
        )
    names = ["data.train"] if len(files) == 1 else ["data.train.source", "data.train.target"]
    return [f"{name}={json.dumps(file)}" for name, file in zip(names, files, strict=True)]


def _listed(files: Files) -> list[str]:
    given = [files] if isinstance(files, str | PathLike) else files
    return [str(Path(each)) for each in given]
