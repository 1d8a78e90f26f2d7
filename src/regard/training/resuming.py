"""Resuming: which settings of a run may be changed, and when there is nothing left to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.bounded import parse_json, read_text
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric
from regard.runs.reading import plain
from regard.runs.recipe import Recipe, changed
from regard.runs.tensor_file import found

# What says how training goes on. All else made the weights, the optimiser and the place in the data what they are.
MAY_CHANGE = (
    *(
        f"training.{name}"
        for name in (
            "steps", "learning_rate", "schedule", "warmup", "weight_decay", "betas", "clip", "accumulate", "precision", "replay", "evaluate",
            "decode", "save", "keep", "patience", "averaging.last",
        )
    ),
    "decoding",
)  # fmt: skip


def resumed_recipe(run: RunFolder, changes: Sequence[str]) -> tuple[Recipe, Mapping[str, tuple[Any, Any]]]:
    """The recipe of a run with `a.b=c` changes, and what they change: setting → before, after."""
    before = run.load_recipe()
    after = changed(before, changes)
    old, new = dict(_settings(plain(before))), dict(_settings(plain(after)))
    differ = {
        name: (old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)
    }
    for name in differ:
        if not any(name == each or name.startswith(each + ".") for each in MAY_CHANGE):
            raise RegardError(
                f"{name} cannot be changed on resuming: train a new run. These can: {', '.join(MAY_CHANGE)}"
            )
    made = max((each.step for each in found(run.checkpoints)), default=0)
    if after.training.steps < made:
        raise RegardError(
            f"training.steps={after.training.steps}: {run.path} has made {made} updates already"
        )
    if differ and run.weights.exists() and not made:
        raise RegardError(f"{run.path} is finished and has no checkpoint to go on from: train a new run")
    return after, differ


def is_finished(run: RunFolder, recipe: Recipe) -> bool:
    """Whether all updates are made and all is written; the card is written last.

    A run that was extended has no card until it is finished again, so it does not matter how it ended: after its
    updates, or sooner because patience did.
    """
    if not all(file.is_file() for file in (run.weights, run.metrics, run.card)):
        return False
    made = [each.step for each in found(run.checkpoints)]
    return not made or bool(recipe.training.patience) or max(made) >= recipe.training.steps


def known_metrics(run: RunFolder) -> list[Metric]:
    """Those of the final test, of a run that is finished."""
    return [Metric(**each) for each in parse_json(read_text(run.metrics), run.metrics, finite=False)]


def _settings(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{above}{name}.")
        else:
            yield above + name, value
