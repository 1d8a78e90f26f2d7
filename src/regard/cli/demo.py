"""`regard demo`: a translator of numbers, trained from nothing while you watch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import Device, say

if TYPE_CHECKING:
    from regard.runs.folder import RunFolder
    from regard.runs.recipe import Recipe

EXAMPLES = """
regard demo
regard demo --out runs/mine
regard demo --set training.steps=100
"""
SHOWN = 5  # translations printed


def demo(
    out: Annotated[
        Path, typer.Option(help="The folder of the run; one left by an earlier demo is replaced.")
    ] = Path("runs/demo"),
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Change a setting of the recipe `demo`."),
    ] = None,
    device: Device = None,
) -> None:
    """Train a translator of number words from English to French (a minute on two cores), and look at it."""
    from regard.cli.train import watchers
    from regard.runs.recipe import find
    from regard.training.experiment import begin

    say(
        "Teaching a small Transformer to say numbers in French: it begins with random weights, and learns from pairs"
    )
    say("such as “twenty-one” → “vingt et un”. The numbers it is tested on are never among them.")
    say("")
    recipe = find("demo", change or [])
    finished = begin(recipe, out, overwrite=_ours(out, recipe), device=device, observers=watchers(), say=say)
    if finished.outcome.stopped:
        from regard.cli.train import finish

        finish(finished)
    show(finished.run, {metric.name: metric.value for metric in finished.metrics}, device)


def show(run: "RunFolder", metrics: dict[str, float], device: str | None) -> None:
    """Five translations, the rate of exact ones, the pictures, and what to try next."""
    from rich.console import Console
    from rich.table import Table

    from regard.runs.load import load
    from regard.runs.tasks.translation import pairs_of
    from regard.sight.pictures.curves import curves_of
    from regard.sight.translation_picture import picture_of

    recipe, translator = run.load_recipe(), load(run.path, device=device)
    pairs = sorted(pairs_of(recipe, "test")(), key=lambda pair: len(pair[0]))
    step = max(1, len(pairs) // SHOWN)
    chosen = pairs[step // 2 :: step][:SHOWN]
    answers = translator.translate([source for source, _ in chosen])
    console = Console(highlight=False, markup=False)
    table = Table(
        show_edge=False, title_justify="left", title_style="bold", title=f"{len(chosen)} numbers it never saw"
    )
    for column in ("English", "", "its French", "the reference"):
        table.add_column(column)
    for (source, reference), answer in zip(chosen, answers, strict=True):
        table.add_row(source, "✓" if answer == reference else "✗", answer, reference)
    console.print()
    console.print(table)
    console.print()
    console.print(f"{metrics['exact']:.1%} of {len(pairs)} unseen numbers are translated exactly.")
    looked = picture_of(translator, chosen[len(chosen) // 2][0])
    console.print()
    console.print(looked.terminal())
    looked.png(run.path / "attention.png")
    curves_of(run.log).png(run.path / "curves.png")
    console.print()
    for path, what in (
        (run.path / "attention.png", "where it looked for each French word"),
        (run.path / "curves.png", "how it learned"),
        (run.card, "the model card"),
    ):
        console.print(f"{path}  {what}", soft_wrap=True)
    console.print()
    console.print("What to try next")
    for line in (
        f'regard translate {run.path} "nine hundred and ninety-nine"',
        f'regard look {run.path} "nine hundred and ninety-nine"      # in a browser: every layer and head',
        f'regard translate {run.path} "seventy-one" --n-best 3 --beam 5',
        'regard translate french "Where is the station?"      # a translator that comes with regard',
        'regard look french "The white house near the old bridge is not for sale."',
        "regard train numbers                 # to 999,999,999",
        "regard recipes                       # other experiments, and one for your own files",
        "regard gallery                       # every score and every mask over one sentence",
    ):
        console.print(f"  {line}", soft_wrap=True)


def _ours(path: Path, demo: "Recipe") -> bool:
    """Whether a folder holds an earlier demo, which may be replaced without asking."""
    from regard.errors import RegardError
    from regard.runs.folder import RunFolder

    try:
        return RunFolder.existing(path).load_recipe().about == demo.about
    except RegardError:
        return False
