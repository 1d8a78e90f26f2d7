"""A run in a few lines, whether it is finished or not."""

import json
import math
import os

from safetensors import safe_open

from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric
from regard.runs.ready import described
from regard.runs.using import use_of


def describe_run(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Names and values, in the order to be read."""
    run = RunFolder.existing(path)
    recipe = run.load_recipe()
    rows = [("run", str(run.path)), ("about", recipe.about), ("model", recipe.model.KIND)]
    if run.weights.exists():
        with safe_open(run.weights, "pt") as tensors:
            shapes = [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118
        rows.append(("parameters", f"{sum(math.prod(shape) for shape in shapes):,}"))
    step, evaluation = _progress(run)
    done = "finished" if run.weights.exists() else f"not finished: regard resume {run.path}"
    rows.append(("training", f"step {step:,} of {recipe.training.steps:,}, {done}"))
    if evaluation:
        rows.append(("validation", "  ".join(f"{name} {value:.4g}" for name, value in evaluation.items())))
    if run.metrics.exists():
        rows += [("test", str(Metric(**each))) for each in json.loads(run.metrics.read_text("utf-8"))]
    if run.weights.exists():
        rows.append(("answers in", described()))
    verbs = ", ".join([*use_of(recipe.model.KIND).verbs, "evaluate"])
    return [*rows, ("can", verbs), ("seed", str(recipe.seed))]


def _progress(run: RunFolder) -> tuple[int, dict[str, float]]:
    """The last step of the log, and the last evaluation."""
    step, evaluation = 0, {}
    if run.log.exists():
        for line in run.log.read_text("utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            step = entry.get("step", step)
            if entry.get("event") == "evaluation":
                evaluation = {name: value for name, value in entry["metrics"].items() if value is not None}
    return step, evaluation
