"""Resuming a run: which settings may be changed, what its bits depend on, and whether its data changed.

`data.json` in the run folder holds the size of each file and a digest of its contents; of a folder, the number of its
files and a digest of their names and sizes, for it may hold a million pictures.
"""

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.data.atomic import write_atomically
from regard.data.bounded import parse_json, parse_settings, read_text
from regard.data.records import Parallel
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric
from regard.runs.reading import plain
from regard.runs.recipe import Recipe, changed
from regard.runs.tasks.prepared import located
from regard.runs.tensor_file import found
from regard.training.distribution import World

# What says how training goes on. All else made the weights, the optimiser and the place in the data what they are.
MAY_CHANGE = (
    *(
        f"training.{name}"
        for name in (
            "steps", "learning_rate", "schedule", "warmup", "weight_decay", "betas", "clip", "accumulate", "precision", "cuda_graphs", "evaluate",
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


_HINTS = {"threads": "--threads {0}", "deterministic": "--deterministic", "processes": "--nproc-per-node {0}"}


def conditions(world: World) -> dict[str, object]:
    """Those of this process, as JSON takes them; a checkpoint keeps them."""
    found: dict[str, object] = {
        "processes": world.size,
        "device": world.device.type,
        "torch": str(torch.__version__),
    }
    if world.device.type == "cpu":
        return found | {"threads": torch.get_num_threads()}
    return found | {"deterministic": torch.are_deterministic_algorithms_enabled()}


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """What is no longer as it was when a checkpoint was made, in one line; None if all is, or it did not say."""
    other = [name for name in now if name in before and before[name] != now[name]]
    if not other:
        return None
    changes = ", ".join(f"{name} {now[name]} instead of {before[name]}" for name in other)
    hints = " and ".join(_HINTS[name].format(before[name]) for name in other if name in _HINTS)
    return f"resumed with {changes}: it will end with slightly other weights than without the break" + (
        f" (the same bits need {hints})" if hints else ""
    )


def keep_sources(run: RunFolder, recipe: Recipe) -> None:
    """Write `data.json`, unless the data is made rather than read."""
    found = sources_of(recipe)
    if found:
        write_atomically(run.data, json.dumps({"files": found}, indent=2, ensure_ascii=False) + "\n")


def changed_sources(run: RunFolder, recipe: Recipe) -> str | None:
    """Which files changed since the run began, in one line; None if none did, or nothing is known of them."""
    if not run.data.is_file():
        return None
    before = parse_settings(read_text(run.data, within=run.path), run.data).get("files")
    now = sources_of(recipe)
    if not isinstance(before, list) or before == now:
        return None
    if len(before) != len(now):
        return _said(f"{len(before)} files then, {len(now)} now")
    differ = [
        (then, each) for then, each in zip(before, now, strict=True) if _contents(then) != _contents(each)
    ]
    told = [f"{each['path']} ({_how(then, each)})" for then, each in differ]
    return (
        _said(", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")) if told else None
    )


def sources_of(recipe: Recipe) -> list[dict[str, Any]]:
    """What is known of every file, in the order of the recipe."""
    return [_of(path) for path in _paths(recipe)]


def _paths(recipe: Recipe) -> Iterator[Path]:
    folder = getattr(recipe.data, "folder", "")
    for part in ("train", "valid", "test"):
        for name in _names(getattr(recipe.data, part, None)):
            path = located(folder, name)
            there = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            yield from map(Path, there)


def _names(place: object) -> Iterator[str]:
    """The names in a place: none, one, two parallel ones, or several of these."""
    if isinstance(place, str):
        yield place
    elif isinstance(place, Parallel):
        for side in (place.source, place.target):
            yield from _names(side)
    elif isinstance(place, list | tuple):
        for each in place:
            yield from _names(each)


def _of(path: Path) -> dict[str, Any]:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        listed = "".join(f"{each.relative_to(path)}\t{each.stat().st_size}\n" for each in files)
        return {"path": str(path), "files": len(files), "digest": _short(hashlib.sha256(listed.encode()))}
    with path.open("rb") as file:
        digest = _short(hashlib.file_digest(file, "sha256"))
        return {"path": str(path), "size": os.fstat(file.fileno()).st_size, "digest": digest}


def _short(digest: Any) -> str:
    return str(digest.hexdigest()[:16])


def _contents(source: dict[str, Any]) -> dict[str, Any]:
    """Without the path: a file may move."""
    return {name: value for name, value in source.items() if name != "path"}


def _how(then: dict[str, Any], now: dict[str, Any]) -> str:
    for unit, word in (("size", "bytes"), ("files", "files")):
        if unit in then and unit in now and then[unit] != now[unit]:
            return f"{then[unit]:,} {word} then, {now[unit]:,} now"
    return "other contents"


def _said(what: str) -> str:
    return f"the data changed since this run began: {what}; it goes on with what is there now"
