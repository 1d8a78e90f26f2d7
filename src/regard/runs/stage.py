"""A stage of a training in a few lines: one of the checkpoints of a run."""

from regard.runs.checkpoint import Checkpoint
from regard.runs.folder import RunFolder
from regard.runs.using import use_of


def describe_checkpoint(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """Names and values, in the order to be read. How its run went on is not told."""
    run = RunFolder.existing(checkpoint.path.parent.parent)
    recipe, use = run.load_recipe(), use_of(run.load_recipe().model.KIND)
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
        ("model", recipe.model.KIND),
        ("parameters", f"{sum(each.count for each in checkpoint.weights_header().tensors.values()):,}"),
        (
            "training",
            f"step {checkpoint.step:,} of {recipe.training.steps:,}" + ", the best until then" * best,
        ),
        *([("validation", said)] if said else []),
        ("can", ", ".join([*use.verbs, "evaluate"])),
        ("seed", str(recipe.seed)),
    ]
