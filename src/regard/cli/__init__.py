"""The command line, one file per verb. Nothing heavy is imported before a verb runs."""

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from regard import __version__
from regard.cli import (
    bench,
    caption,
    classify,
    cost,
    demo,
    evaluate,
    export,
    figure,
    gallery,
    generate,
    info,
    look,
    recipes,
    score,
    train,
    translate,
)
from regard.errors import RegardError, RegardWarning

app = typer.Typer(
    name="regard",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"regard {__version__}")
        raise typer.Exit
    return asked


def regard(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Attention models you can see."""


def _examples(lines: str) -> str:
    return "[bold]Examples[/]\n\n" + "\n\n".join(f"$ {line}" for line in lines.strip().splitlines())


app.callback(
    epilog=_examples("regard demo\nregard recipes\nregard train --help\nregard --install-completion")
)(regard)
for verb, examples in (
    (demo.demo, demo.EXAMPLES),
    (train.train, train.EXAMPLES),
    (train.resume, train.RESUME_EXAMPLES),
    (translate.translate, translate.EXAMPLES),
    (score.score, score.EXAMPLES),
    (generate.generate, generate.EXAMPLES),
    (classify.classify, classify.EXAMPLES),
    (caption.caption, caption.CAPTION_EXAMPLES),
    (caption.transcribe, caption.TRANSCRIBE_EXAMPLES),
    (look.look, look.EXAMPLES),
    (evaluate.evaluate, evaluate.EXAMPLES),
    (export.export, export.EXAMPLES),
    (info.info, info.EXAMPLES),
    (recipes.recipes, recipes.EXAMPLES),
    (gallery.gallery, gallery.EXAMPLES),
    (cost.cost, cost.EXAMPLES),
    (bench.bench, bench.EXAMPLES),
):
    app.command(epilog=_examples(examples))(verb)
# What follows the name of a figure, --help among it, is for the figure.
app.command(epilog=_examples(figure.EXAMPLES), context_settings={"allow_interspersed_args": False})(
    figure.figure
)


def _collect_seldom() -> None:
    """Start and end sooner: torch makes some 300,000 objects that live as long as the process, and looking through them
    for cycles takes a quarter of a second while it is imported and a third when the process ends.
    """
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


def _wait_briefly() -> None:
    """Let threads of the CPU that wait for one another sleep soon, so that a training does not stand still beside other
    programs. Read once, when torch is imported, by GNU's OpenMP, whose own limit keeps a thread spinning for milliseconds.

    On two idle cores a limit of 10,000 turns costs nothing; beside one busy program an update took 0.34 s instead of 1.9 s,
    and 0.14 s where threads sleep at once, which costs a third more on idle cores: so they do where all cores are busy.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.75 * (os.cpu_count() or 1)
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE"} if busy else {"GOMP_SPINCOUNT": "10000"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 2 for a mistake of the user (one line says which), 75 for a
    training that a signal stopped and that can be resumed, 130 for Ctrl-C.
    """
    if arguments is None:  # the whole process is ours
        _collect_seldom()
        _wait_briefly()
    # Unset, tokenizers warns in processes that a command starts. The library itself sets no variable.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a letter shows ? instead
    try:
        with _warnings_in_one_line():
            code = app(
                args=list(sys.argv[1:] if arguments is None else arguments) or ["--help"],
                prog_name="regard",
                standalone_mode=False,
            )
    except RegardError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        # Typer brings its own click or uses an installed one: a mistake in the options is known by what it can do.
        if isinstance(error, typer.Abort):
            sys.exit(130)
        if not hasattr(error, "format_message"):
            raise
        _fail(error.format_message())
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What the library warns of, once each, as a line on standard error."""
    said: set[str] = set()
    show = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, RegardWarning):
            show(message, category, *place, **more)
        elif str(message) not in said:
            said.add(str(message))
            typer.echo(f"regard: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RegardWarning)
        warnings.showwarning = tell
        yield


def _fail(message: str) -> None:
    typer.echo(f"regard: {' '.join(message.split())}", err=True)
    sys.exit(2)
