"""A run in a few lines, whether it is finished or not. Names what cannot be read and describes the rest."""

import math
import os
from collections.abc import Callable

from regard.data.bounded import opened, parse_json, read_text
from regard.errors import RegardError
from regard.runs.checkpoint import called
from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric
from regard.runs.ready import described
from regard.runs.recipe import Recipe
from regard.runs.stage import describe_checkpoint
from regard.runs.using import use_of

Rows = list[tuple[str, str]]
_TAIL = 16 << 20  # bytes at the end of a log that are read


def describe_run(path: str | os.PathLike[str]) -> Rows:
    """Names and values, in the order to be read."""
    checkpoint = called(path)
    if checkpoint is not None:
        return describe_checkpoint(checkpoint)
    run = RunFolder.existing(path)
    rows = [("run", str(run.path))]
    try:
        recipe = run.load_recipe()
    except RegardError as error:
        recipe = None
        rows.append(("recipe", f"cannot be read: {error}"))
    if recipe is not None:
        rows += [("about", recipe.about), ("model", recipe.model.KIND)]
    rows += _told("parameters", lambda: _parameters(run))
    rows += _told("training", lambda: _training(run, recipe))
    rows += _told("test", lambda: _metrics(run))
    if os.path.lexists(run.weights):
        rows.append(("answers in", described()))
    if recipe is not None:
        verbs = ", ".join([*use_of(recipe.model.KIND).verbs, "evaluate"])
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
