"""A run or one of its checkpoints in a few lines, finished or not, and whether its files are those that training wrote.

What cannot be read is named, and the rest described.
"""

import math
import os
from collections.abc import Callable, Sequence

from regard.data.file_access import opened, read_text
from regard.data.given import parse_json
from regard.errors import RegardError
from regard.models.kind import Kind
from regard.runs.checkpoints import Checkpoint, CheckpointKind, called, found
from regard.runs.folder import SUMS, Digests, RunFolder, located_run
from regard.runs.load import described
from regard.runs.recipe import Recipe
from regard.runs.results import Metric

Rows = list[tuple[str, str]]
_TAIL = 16 << 20  # bytes at the end of a log that are read


def describe_run(path: str | os.PathLike[str], *, kinds: Sequence[Kind] = ()) -> Rows:
    """Names and values, in the order to be read."""
    checkpoint = called(path)
    if checkpoint is not None:
        return describe_checkpoint(checkpoint, kinds=kinds)
    run = RunFolder.existing(path, kinds=kinds)
    rows = [("run", str(run.path))]
    try:
        recipe = run.load_recipe()
    except RegardError as error:
        recipe = None
        rows.append(("recipe", f"cannot be read: {error}"))
    if recipe is not None:
        rows += [("about", recipe.about), ("model", recipe.kind.name)]
    rows += _told("parameters", lambda: _parameters(run))
    rows += _told("training", lambda: _training(run, recipe))
    rows += _told("test", lambda: _metrics(run))
    if os.path.lexists(run.weights):
        rows.append(("answers in", described()))
    if recipe is not None:
        verbs = ", ".join([*recipe.kind.verbs, "evaluate"])
        rows += [("can", verbs), ("seed", str(recipe.seed))]
    return rows


def _told(name: str, rows: Callable[[], Rows]) -> Rows:
    """Rows, or one that says why there are none."""
    try:
        return rows()
    except RegardError as error:
        return [(name, f"cannot be read: {error}")]


def _parameters(run: RunFolder) -> Rows:
    if not os.path.lexists(run.weights):
        return []
    return [("parameters", f"{sum(each.count for each in run.weights_header().tensors.values()):,}")]


def _training(run: RunFolder, recipe: Recipe | None) -> Rows:
    if os.path.lexists(run.weights) and not os.path.lexists(
        run.log
    ):  # exported: weights without their history
        return [
            ("training", "finished" if recipe is None else f"finished, {recipe.training.steps:,} updates")
        ]
    step, evaluation = _progress(run)
    done = "finished" if os.path.lexists(run.weights) else f"not finished: regard resume {run.path}"
    steps = "" if recipe is None else f" of {recipe.training.steps:,}"
    rows = [("training", f"step {step:,}{steps}, {done}")]
    if evaluation:
        rows.append(("validation", "  ".join(f"{name} {value:.4g}" for name, value in evaluation.items())))
    return rows


def _metrics(run: RunFolder) -> Rows:
    if not os.path.lexists(run.metrics):
        return []
    found = parse_json(read_text(run.metrics, within=run.path), run.metrics, finite=False)
    rows = []
    for each in found if isinstance(found, list) else [found]:
        match each:
            case {"name": str(name), "value": int() | float() as value, **rest}:
                rows.append(("test", str(Metric(name, value, str(rest.get("signature", ""))))))
            case _:
                raise RegardError(f"{run.metrics} holds something that is no metric")
    return rows


def _progress(run: RunFolder) -> tuple[int, dict[str, float]]:
    """The last step of the log, and the last evaluation."""
    step, evaluation = 0, {}
    for line in _last_lines(run):
        try:
            entry = parse_json(line.decode(), run.log, finite=False)
        except (RegardError, UnicodeDecodeError):
            continue  # being written, or cut where reading began
        match entry:
            case {"step": int(reached)}:
                step = reached
        match entry:
            case {"event": "evaluation", "metrics": dict(metrics)}:
                evaluation = {name: value for name, value in metrics.items() if _is_number(value)}
    return step, evaluation


def _last_lines(run: RunFolder) -> list[bytes]:
    if not os.path.lexists(run.log):
        return []
    with opened(run.log, within=run.path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return file.read(_TAIL).splitlines()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def describe_checkpoint(checkpoint: Checkpoint, *, kinds: Sequence[Kind] = ()) -> Rows:
    """Names and values, in the order to be read. How its run went on is left out."""
    run = RunFolder.existing(checkpoint.path.parent.parent, kinds=kinds)
    recipe = run.load_recipe()
    broken = "" if checkpoint.intact() else ", broken: its contents are not those its name was given for"
    best = checkpoint.path.name.startswith("best-")
    about = checkpoint.about()
    metrics = about if best else about.get("metrics", {})
    said = "  ".join(
        f"{name} {value:.4g}" for name, value in metrics.items() if isinstance(value, int | float)
    )
    return [
        ("run", str(run.path)),
        ("checkpoint", f"{checkpoint.path.name}{broken}"),
        ("about", recipe.about),
        ("model", recipe.kind.name),
        ("parameters", f"{sum(each.count for each in checkpoint.weights_header().tensors.values()):,}"),
        (
            "training",
            f"step {checkpoint.step:,} of {recipe.training.steps:,}" + ", the best until then" * best,
        ),
        *([("validation", said)] if said else []),
        ("can", ", ".join([*recipe.kind.verbs, "evaluate"])),
        ("seed", str(recipe.seed)),
    ]


def verify_run(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Every file that has a digest, with "as written", "changed" or "missing".

    Those are the files in SHA256SUMS, which the folders of others may have too, and the checkpoints of a run, which
    have their digests in their names.
    """
    checkpoint = called(path)
    folder = located_run(path) if checkpoint is None else checkpoint.path.parent.parent
    if not folder.is_dir():
        raise RegardError(f"{path}: no such folder")
    kinds: tuple[CheckpointKind, ...] = ("step", "best")
    checkpoints = [each for kind in kinds for each in found(folder / "checkpoints", kind)]
    verified = [
        *Digests(folder).verified(),
        *(
            (f"checkpoints/{each.path.name}", "as written" if each.intact() else "changed")
            for each in checkpoints
        ),
    ]
    if not verified:
        raise RegardError(f"{path}: nothing to verify, for it has neither {SUMS} nor checkpoints")
    return verified
