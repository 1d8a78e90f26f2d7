"""What the verbs share: options, lines of standard input, runs loaded for a verb, answers printed."""

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.models.kind import Kind
    from regard.runs.answering import Answer, Loaded


def quiet_profiler() -> None:
    """Silence the log of the profiler that counts memory. torch reads these variables once, when it is imported."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def recipe_names(incomplete: str) -> list[str]:
    """Recipes whose names begin so, for the shell to complete; read from their file names, so that Tab is quick."""
    folder = Path(__file__).parent.parent / "recipes"
    return sorted(each.stem for each in folder.glob("*.yaml") if each.stem.startswith(incomplete))


def run_folders(incomplete: str) -> list[str]:
    """Runs whose paths or names begin so, for the shell to complete."""
    shipped = [each.parent.name for each in (Path(__file__).parent.parent / "shipped").glob("*/recipe.yaml")]
    before = Path(incomplete if incomplete.endswith("/") else os.path.dirname(incomplete))
    found = [*before.glob("*/recipe.yaml"), *before.glob("*/*/recipe.yaml")]
    paths = (str(each.parent) for each in found)
    return sorted(each for each in (*paths, *shipped) if each.startswith(incomplete))


Run = Annotated[
    Path,
    typer.Argument(
        help="The folder that `regard train` wrote, or a run that comes with regard: french.",
        show_default=False,
        autocompletion=run_folders,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda, cuda:1 …; default: a GPU where there is one.", show_default=False),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="On the CPU of the linear maps: float32, bf16 or int8 (quickest); on a GPU of all: float32, fp16 or bf16. "
        "Default: float32.",
        show_default=False,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads of the CPU; default: as torch finds cores.", show_default=False),
]
Compile = Annotated[
    bool, typer.Option("--compile", hidden=True, callback=lambda given: _compiled_already(given))
]
OwnKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="FILE.py[:NAME]",
        help="A file of yours that describes your own kind of model, as KIND or as NAME; it is executed. Repeat for more.",
        show_default=False,
    ),
]
WithReport = Annotated[
    bool,
    typer.Option(
        "--report", help="Say on standard error which modules were replaced by faster ones, and which not."
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses kept; 1 is greedy. Default: as the run was trained for."),
]
ROWS = 64  # lines answered together
say = partial(typer.echo, err=True)  # for the person rather than the pipe: on standard error


def own_kinds(files: Sequence[str] | None) -> "list[Kind]":
    """The kinds of models in the files that were named. Nothing else makes a command execute code of a file."""
    from regard.models.kind import Kind

    found = []
    for given in files or []:
        path, _, name = given.partition(":") if ".py:" in given else (given, "", "")
        kind = getattr(_executed(Path(path)), name or "KIND", None)
        if not isinstance(kind, Kind):
            raise RegardError(f"--kind {given}: {path} has no `{name or 'KIND'} = Kind(…)`")
        found.append(kind)
    return found


def _executed(path: Path) -> ModuleType:
    """A Python file as a module, under a name that no other module has."""
    if not path.is_file():
        raise RegardError(f"--kind {path}: no such file")
    spec = spec_from_file_location(f"kind_of_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RegardError(f"--kind {path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module  # where dataclasses look up the names in annotations
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file does wrong
        lines = [
            each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)
        ]
        if isinstance(error, SyntaxError) and error.filename == str(path):
            lines.append(error.lineno)
        place = f"{path}:{lines[-1]}" if lines and lines[-1] else path
        said = error.msg if isinstance(error, SyntaxError) else error
        raise RegardError(f"--kind {place}: {type(error).__name__}: {said}") from None
    return module


def _compiled_already(given: bool) -> bool:
    if given:
        say("--compile: it is the default now")
    return given


def load_as(
    verb: str,
    run: Path,
    device: str | None,
    precision: str | None = None,
    threads: int | None = None,
    kinds: Sequence[str] | None = None,
    report: bool = False,
) -> Any:
    """A run that has this verb, optimised in this precision; of one that does not, its verbs are named."""
    from regard.runs.load import ready

    loaded = ready(
        run,
        device=device,
        precision=precision,
        threads=threads,
        kinds=own_kinds(kinds),
    )
    if verb not in loaded.verbs:
        raise RegardError(f"{run} cannot {verb}; it can {' and '.join(loaded.verbs) or 'only be evaluated'}")
    tell_optimised(loaded, report=report)
    return loaded


def tell_optimised(loaded: "Loaded", *, report: bool, name: str = "") -> None:
    """How a loaded model was optimised: with `report` all of it, in a terminal one line.

    Standard error that is not a terminal is a log or another program, which would read the same line every time.
    """
    told = loaded.model.optimised
    before = f"{name}: " if name else ""
    if report:
        say(f"{before}{told}")
    elif sys.stderr is not None and sys.stderr.isatty():
        say(f"{before}{told.line()} (--report lists them)")


def only_one(given: list[str] | None, count: int = 1) -> None:
    """Refuse to draw several things into one file."""
    if given is None or len(given) != count:
        raise RegardError(f"--picture draws one; {len(given or []) // count} were given as arguments")


def pairs(given: Sequence[str]) -> list[Any]:
    """Lines with a tab between two of a pair, or arguments two by two."""
    if all("\t" in each for each in given):
        return [tuple(each.split("\t", 1)) for each in given]
    if len(given) % 2:
        raise RegardError(
            f"{len(given)} inputs: two belong together, as a picture and a recording, or a recording and a text"
        )
    return [*zip(given[::2], given[1::2], strict=True)]


def incoming(texts: list[str] | None) -> Iterator[list[str]]:
    """The texts given, or the lines of standard input as they arrive, some at a time."""
    if texts:
        yield texts
        return
    if sys.stdin is None:
        raise RegardError("no texts are given, and standard input is closed")
    if sys.stdin.isatty():
        say("reading lines from the keyboard; end with Ctrl-D")
    waiting: list[str] = []
    for line in _lines_of(sys.stdin.fileno()):
        if line is not None:
            waiting.append(line)
        if waiting and (line is None or len(waiting) == ROWS):
            yield waiting
            waiting = []


def _lines_of(file: int) -> Iterator[str | None]:
    """Lines, split at \\n alone; None wherever nothing more has arrived yet, so that answers are not delayed."""
    rest, number = b"", 0
    while piece := os.read(file, 1 << 16):
        *whole, rest = (rest + piece).split(b"\n")
        for raw in whole:
            number += 1
            yield _text(raw, number)
        yield None
    if rest:
        yield _text(rest, number + 1)
    yield None


def _text(raw: bytes, number: int) -> str:
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise RegardError(f"standard input:{number}: not UTF-8 (byte {error.start + 1})") from None


def one_line(text: str) -> str:
    """A text without line breaks, so that line n of the output answers line n of the input."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def out_as_json(value: object) -> None:
    """One line of JSON on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def out_answers(
    given: dict[str, str], best: "Sequence[Answer]", *, called: str, count: int, as_json: bool
) -> None:
    """The best texts for an input: a line each, with what it is ranked by if there are several, or a JSON object."""
    if as_json:
        found = [
            {"text": one.text, "ranking": one.ranking, "log_probability": one.log_probability} for one in best
        ]
        out_as_json({**given, called: found})
        return
    for one in best:
        typer.echo(one_line(one.text) if count == 1 else f"{one.ranking:.4f}\t{one_line(one.text)}")
