"""`regard figure`: the figures of the texts that teach attention, each computed or trained here."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from regard.cli.texts import quiet_profiler, say

if TYPE_CHECKING:
    from regard.figures.figure_result import FigureResult

EXAMPLES = """
regard figure
regard figure four-words
regard figure four-words --help
regard figure four-words --out my-figures
"""


def figure(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [OPTIONS]", help="A figure, then its own options.", show_default=False
        ),
    ] = None,
) -> None:
    """Make a figure of the texts that teach attention, as PNG, SVG and JSON; without a name, list them.

    Each figure has options of its own: regard figure NAME --help.
    """
    if arguments:
        _make(arguments[0], arguments[1:])
    else:
        _list()


def _list() -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from regard.figures import FIGURES

    table = Table.grid(padding=(0, 3, 0, 0))
    for name, sentence in FIGURES.items():
        table.add_row(Text(name, style="bold"), Text(sentence))
    Console(highlight=False).print(table)


def _make(name: str, arguments: list[str]) -> None:
    """Run the figure's function as a command whose options are its keyword arguments."""
    quiet_profiler()
    from regard.figures import figure_function

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(name)(_command(name, figure_function(name)))
    app(args=arguments, prog_name=f"regard figure {name}", standalone_mode=False)


def _command(name: str, make: "Callable[..., FigureResult]") -> Callable[..., None]:
    hints = get_type_hints(make, include_extras=True)
    progress = {"progress": say} if "progress" in hints else {}

    def command(*, out: Path, **settings: Any) -> None:
        from rich.console import Console

        from regard.data.file_access import writable_folder

        writable_folder(out)  # or refuse before anything is computed
        made = make(**settings, **progress)
        console = Console(highlight=False, markup=False)
        console.print(made.picture.terminal())
        console.print()
        for line in made.see:
            console.print(line)
        say(f"wrote {', '.join(map(str, made.write(out)))}")

    options = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=_option(hints[each.name]),
        )
        for each in inspect.signature(make).parameters.values()
        if each.name not in progress
    ]
    where = Annotated[Path, typer.Option(help=f"The folder for {name}.png, .svg and .json.")]
    options.append(
        inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=Path("figures"), annotation=where)
    )
    command.__doc__ = inspect.getdoc(make)
    command.__annotations__ = {each.name: each.annotation for each in options}
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return command


def _option(hint: Any) -> Any:
    """Annotated[type, "help"], as figures write it, as an option."""
    kind, text = get_args(hint)
    return Annotated[kind, typer.Option(help=text)]
