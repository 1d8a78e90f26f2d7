"""`regard train` and `regard resume`: from a recipe to a run."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import Device, OwnKinds, Threads, own_kinds, recipe_names, run_folders, say

if TYPE_CHECKING:
    from regard.runs.folder import RunFolder
    from regard.runs.recipe import Recipe
    from regard.training.experiment import Finished, Watchers
    from regard.training.observers import Observer

EXAMPLES = """
regard train translate --data pairs.tsv
regard train translate --data train.en --data train.de --minutes 30
regard train language --data book.txt --plan
regard train numbers
regard train numbers --set model.width=256 --set training.steps=5000 --out runs/wide
regard train mine.yaml --device cuda
regard train classify --from runs/translate --set data.train=labelled.tsv
torchrun --nproc-per-node 2 -m regard train numbers
"""
RESUME_EXAMPLES = """
regard resume runs/numbers
regard resume runs/numbers --device cuda
regard resume runs/numbers --set training.steps=20000
"""

TensorBoardOption = Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard too.")]
AttentionOption = Annotated[
    int,
    typer.Option(
        "--attention",
        min=0,
        metavar="N",
        help="Every N updates, write entropy and sink of every head to attention.jsonl.",
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option("--deterministic", help="Only kernels that give the same bits every time; slower on a GPU."),
]


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe by name (`regard recipes`), or a YAML file.",
            show_default=False,
            autocompletion=recipe_names,
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="What to train on: a file or a folder; of two parallel texts, give it twice. Short for --set data.train=FILE.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="How long it may take from start to end, where the recipe has a plan. Default: ten minutes, or less "
            "where there are few data.",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what would be trained, as a recipe, and train nothing.")
    ] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Change a setting of the recipe; repeat for more."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Of a classifier of texts: begin with the encoder, the embedding and the tokenizer of this run, a "
            "translator's or another classifier's.",
            show_default=False,
            autocompletion=run_folders,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder of the run. Default: runs/ and the recipe's name.", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew in a folder that holds a run.")
    ] = False,
    tensorboard: TensorBoardOption = False,
    attention: AttentionOption = 0,
    deterministic: Deterministic = False,
    threads: Threads = None,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Train a model. Ctrl-C (or SIGTERM) finishes the step, saves and exits with 75; `regard resume` goes on."""
    from regard.errors import Interruption

    began = time.monotonic()
    with Interruption() as interruption:  # before torch is imported, which takes seconds
        from regard.runs.recipe import find
        from regard.training.experiment import begin

        _prepare(deterministic)
        changes, own = _changes(data, minutes, threads, change), own_kinds(kind) if kind else ()
        if start is not None:
            from regard.training.reuse import reusing

            changes = [*reusing(find(recipe, changes, kinds=own), start), *changes]
        chosen = find(recipe, changes, kinds=own)
        if plan:
            return _print_plan(chosen, device, began)
        path = out or Path("runs") / Path(recipe).stem
        finish(
            begin(
                chosen,
                path,
                overwrite=overwrite,
                device=device,
                observers=watchers(tensorboard, attention),
                say=say,
                interruption=interruption,
                began=began,
            )
        )


def _changes(
    data: list[str] | None, minutes: float | None, threads: int | None, change: list[str] | None
) -> list[str]:
    """Options as changes of the recipe; what `--set` says comes last."""
    from regard.training.from_files import data_changes

    return [
        *([] if not data else data_changes(data)),
        *([] if minutes is None else [f"plan.minutes={minutes:g}"]),
        *([] if threads is None else [f"training.threads={threads}"]),
        *(change or []),
    ]


def _print_plan(recipe: "Recipe", device: str | None, began: float) -> None:
    from regard.errors import RegardError
    from regard.runs.recipe import written
    from regard.training.experiment import plan as make

    if recipe.plan is None:
        raise RegardError(
            "this recipe says everything, so there is no plan to make; `regard recipes NAME` prints it"
        )
    made = make(recipe, device=device, say=say, began=began)
    typer.echo(written(made), nl=False)


def resume(
    run: Annotated[
        Path,
        typer.Argument(
            help="The folder of a run that was stopped or killed.",
            show_default=False,
            autocompletion=run_folders,
        ),
    ],
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="A.B=C",
            help="Change how it goes on: training.steps, training.learning_rate, decoding.beam …",
        ),
    ] = None,
    tensorboard: TensorBoardOption = False,
    attention: AttentionOption = 0,
    deterministic: Deterministic = False,
    threads: Threads = None,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Go on with a run from its newest whole checkpoint; it ends as it would have without the break."""
    from regard.errors import Interruption

    with Interruption() as interruption:
        from regard.training.experiment import resume as go_on

        _prepare(deterministic)
        finish(
            go_on(
                run,
                changes=change or [],
                device=device,
                observers=watchers(tensorboard, attention),
                say=say,
                interruption=interruption,
                kinds=own_kinds(kind) if kind else (),
                threads=threads or 0,
            )
        )


def watchers(tensorboard: bool = False, attention: int = 0) -> "Watchers":
    """The progress bar and the log, for every run."""
    from regard.training.observers import Log, Progress

    def observers(run: "RunFolder") -> "Sequence[Observer]":
        watching: list[Observer] = [Log(run.log), Progress(unit=run.load_recipe().kind.unit)]
        if tensorboard:
            from regard.training.observers import TensorBoard

            watching.append(TensorBoard(run.path / "tensorboard"))
        if attention:
            from regard.sight.monitor import AttentionLog

            watching.append(AttentionLog(run.path / "attention.jsonl", every=attention))
        return watching

    return observers


def finish(finished: "Finished") -> None:
    """Say how it ended, draw the curves, exit."""
    import os

    from regard.errors import EXIT_STOPPED

    first, run = not int(os.environ.get("RANK", "0")), finished.run
    if finished.outcome.stopped:
        if first:
            say(_where_it_stopped(finished))
        raise typer.Exit(EXIT_STOPPED)
    if not first:
        return
    picture = run.path / "curves.png"
    if finished.already:
        say(
            f"{run.path} is finished, after {finished.outcome.step:,} updates: nothing to do. To train it further: "
            f"regard resume {run.path} --set training.steps=…"
        )
        if picture.exists() or not run.log.exists():
            return
    pictures = _draw(run, picture)
    say("")
    for metric in finished.metrics:
        say(str(metric))
    for name, what in (
        (run.card, "what it is, how good, how to use it"),
        *pictures,
    ):
        say(f"{name}  {what}")


def _draw(run: "RunFolder", picture: Path) -> list[tuple[Path, str]]:
    """Draw how it learned and, if its kind asks for that, where it looks; each file with what it shows."""
    from regard.sight.pictures.curves import curves_of

    curves_of(run.log).png(picture)
    drawn = [(picture, "loss and metrics as they went")]
    recipe = run.load_recipe()
    which = recipe.kind.pictures.get(recipe.data.KIND)
    if which is not None:
        from regard.sight.training_pictures import picture_of_training  # which takes a second

        looked = picture_of_training(run, which)
        looked.drawing.png(run.path / looked.file)
        drawn.append((run.path / looked.file, looked.shows))
    return drawn


def _where_it_stopped(finished: "Finished") -> str:
    run, step = finished.run, finished.outcome.step
    if not run.recipe.exists():
        return "stopped before the first update, with nothing written yet: start it again"
    return f"stopped and saved at step {step:,}; go on with: regard resume {run.path}"


def _prepare(deterministic: bool) -> None:
    if deterministic:
        from regard.training.distribution import deterministic as be_deterministic

        be_deterministic()
