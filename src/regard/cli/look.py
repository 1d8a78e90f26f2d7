"""`regard look`: the explorer, on what a run does with an input, or on what was seen and saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import Device, OwnKinds, WithReport, own_kinds, pairs, run_folders, say, tell_optimised
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.sight.explorer.example import Example

EXAMPLES = """
regard look french "Where is the station?"
regard look runs/numbers "two hundred and one"
regard look runs/en-de "Two dogs play." --beam 5
regard look runs/digits seven.png
regard look runs/read-digits strip.png
regard look runs/spoken-digits seven.wav
regard look runs/shakespeare "ROMEO:" --tokens 80 --export romeo.html
regard look runs/numbers "two hundred and one" --against runs/numbers-recurrent
regard look runs/numbers "two hundred and one" --against runs/numbers/checkpoints/step-500
regard look runs/same-digit seven.png seven.wav
regard look runs/counter "1 7 2 0 2 1 3 4 8 6"
regard look runs/spoken-place seven.wav "two nine seven one"
regard look saved.safetensors
"""


def look(
    what: Annotated[
        Path,
        typer.Argument(
            help="The folder of a run, one of its checkpoints, or a file that seen.save wrote.",
            show_default=False,
            autocompletion=run_folders,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="What the run is to look at: texts, files of text, of pictures or of recordings. "
            "Two senses: a picture and a recording, or a recording and a text, again and again."
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="A translation or caption to look at instead of the run's own.", show_default=False
        ),
    ] = None,
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses to look at side by side.", show_default=False)
    ] = None,
    tokens: Annotated[int, typer.Option(min=0, help="Tokens that a language model adds to the text.")] = 0,
    against: Annotated[
        list[Path] | None,
        typer.Option(
            help="Another run, or another checkpoint, to compare with on the same inputs.",
            autocompletion=run_folders,
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write one HTML file, to open anywhere, and stop.", show_default=False)
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Draw all layers and heads, and stop.", show_default=False)
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="The same, as vectors.", show_default=False)] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """See where a model looks: every layer and head, from the whole text down to single tokens."""
    from regard.runs.checkpoints import called

    examples = (
        _saved(what, inputs)
        if what.is_file() and called(what) is None
        else _of_runs(
            [what, *(against or [])],
            inputs,
            target=target,
            beam=beam,
            tokens=tokens,
            device=device,
            kinds=kind,
            report=report,
        )
    )
    if png is not None or svg is not None:
        _draw(examples[0], [path for path in (png, svg) if path is not None])
    if export is not None:
        from regard.sight.explorer.export import export as write

        write(examples, export, title=what.name)
        say(f"wrote {export} ({export.stat().st_size / 1e6:.1f} MB): open it in a browser")
    if export is None and png is None and svg is None:
        _serve(examples, title=what.name, port=port, browser=browser)


def _saved(path: Path, inputs: Sequence[str] | None) -> "list[Example]":
    from regard.sight.explorer.watched import example_of
    from regard.sight.seen import Seen

    if inputs:
        raise RegardError(f"{path} holds what was seen already: it takes no input")
    return [example_of(Seen.load(path), name=path.name)]


def _of_runs(
    runs: Sequence[Path],
    inputs: Sequence[str] | None,
    *,
    target: str | None,
    beam: int | None,
    tokens: int,
    device: str | None,
    kinds: Sequence[str] | None = None,
    report: bool = False,
) -> "list[Example]":
    from regard.runs.load import load
    from regard.sight.explorer.runs import example_of_run

    if not inputs:
        raise RegardError(f"{runs[0]}: give a text, or the file of a picture or a recording, to look at")
    found, own = [], own_kinds(kinds)
    for run in runs:
        loaded = load(run, device=device, kinds=own)
        tell_optimised(loaded, report=report, name=_named(run) if len(runs) > 1 else "")
        wanted = pairs(inputs) if getattr(getattr(loaded, "reader", None), "what", "") == "pair" else inputs
        found += [
            example_of_run(loaded, given, target=target, beam=beam, more=tokens, name=_named(run))
            for given in wanted
        ]
    return found


def _named(run: Path) -> str:
    """The label of a run or checkpoint, for inputs that several of them are compared on."""
    from regard.runs.checkpoints import called

    checkpoint = called(run)
    if checkpoint is None:
        return str(run)
    return f"{checkpoint.path.name.split('-')[0]} {checkpoint.step} of {checkpoint.path.parent.parent}"


def _draw(example: "Example", paths: Sequence[Path]) -> None:
    """Draw the first row, of a beam the best hypothesis, without the padding that longer hypotheses add to it."""
    from regard.sight.layer import Layer
    from regard.sight.pictures.atlas import overview
    from regard.sight.seen import Seen

    shown = [Layer.of(panel.name or panel.layer.name, panel.call(0)) for panel in example.panels]
    picture = overview(Seen(shown), title=example.name)
    for path in paths:
        picture.write(path)
        say(f"wrote {path}")


def _serve(examples: "Sequence[Example]", *, title: str, port: int, browser: bool) -> None:
    from regard.sight.explorer.serving import serve

    with serve(examples, title=title, port=port, browser=browser) as showing:
        say(f"exploring at {showing.url}\nto this machine alone; end with Ctrl-C")
        try:
            showing.wait()
        except KeyboardInterrupt:
            say("closed")
