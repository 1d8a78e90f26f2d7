"""The model card: what a run was trained on, how good it is, and how to make it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from regard import __version__
from regard.data.atomic import write_atomically
from regard.data.records import Parallel
from regard.models.kind import Kind
from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import (
    CountingData,
    DigitData,
    Files,
    ImageData,
    LabelledData,
    NumberData,
    PairData,
    SameData,
    SoundData,
    SpokenData,
    StripData,
    TextData,
)

_DIGITS = "1,797 handwritten digits by E. Alpaydin and C. Kaynak (UCI Machine Learning Repository, CC BY 4.0)"


def write_card(
    run: RunFolder, recipe: Recipe, facts: Mapping[str, object], metrics: Sequence[Metric]
) -> None:
    """README.md for people, metrics.json for programs."""
    write_atomically(run.metrics, json.dumps([vars(metric) for metric in metrics], indent=2) + "\n")
    write_atomically(run.card, card(run, recipe, facts, metrics))


def card(run: RunFolder, recipe: Recipe, facts: Mapping[str, object], metrics: Sequence[Metric]) -> str:
    """The card as Markdown, with the header that model hubs read."""
    kind, name = recipe.kind, run.path.resolve().name
    text = "two hundred and one" if isinstance(recipe.data, NumberData) else "…"
    verb, given, python = _used(kind, text)
    rows = []
    for metric in metrics:
        signature = metric.signature.replace("|", "\\|")  # not the end of a cell
        shown = str(replace(metric, signature="")).removeprefix(metric.name).strip()
        rows.append(f"| {metric.name} | {shown} | {signature} |")
    lines = [
        "---",
        "library_name: regard",
        f"pipeline_tag: {kind.hub}",
        "---",
        f"# {name}",
        "",
        recipe.about or f"A {kind.name} model.",
        "",
        "```sh",
        f"regard {verb} {run.path} {given}".rstrip(),
        "```",
        "",
        "```python",
        "import regard",
        "",
        f'regard.load("{run.path}"){python}',
        "```",
        "",
        "## How good",
        "",
        "| metric | on the test set | signature |",
        "|---|---|---|",
        *rows,
        "",
        "## Made from",
        "",
        f"- data: {_data(recipe)}",
        *(
            f"- {fact}: {value:,}" if isinstance(value, int) else f"- {fact}: {value}"
            for fact, value in facts.items()
        ),
        f"- with: regard {__version__}, torch {version('torch')}",
        "",
        "## Again",
        "",
        "The recipe with every setting is in `recipe.yaml` beside this file.",
        "",
        "```sh",
        f"regard train {run.recipe} --out {run.path}-again",
        "```",
        "",
    ]
    return "\n".join(lines)


def _used(kind: Kind, text: str) -> tuple[str, str, str]:
    """How a model is used: the verb, what it is given on the command line, and the call in Python."""
    if not kind.verbs:
        return "evaluate", "", ".predict(…)"
    examples = {"text": f'"{text}"', "picture": "picture.png", "sound": "recording.wav"}
    typed = [examples[each] for each in kind.reads]
    quoted = [each if each.startswith('"') else f'"{each}"' for each in typed]
    given = quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"
    return kind.verbs[0], " ".join(typed), f".{kind.verbs[0]}([{given}])"


def _data(recipe: Recipe) -> str:
    match recipe.data:
        case NumberData() as data:
            return f"English and French number words to {data.largest:,}, made by regard; test numbers never trained on"
        case CountingData():
            return "ten random digits a sample, made by regard"
        case PairData() as data:
            if isinstance(data.train, Parallel):
                place = f"{data.train.source} and {data.train.target}"
            else:
                place = _files(data.train)
            return f"`{place}`" + (f" in `{data.folder}`" if data.folder else "")
        case DigitData():
            return _DIGITS
        case StripData():
            return f"strips made of {_DIGITS}, read out in French; test digits never trained on"
        case SameData() as data:
            return f"pairs made of {_DIGITS} and of the spoken digits in `{data.train}`; {data.speaker} never trained on"
        case SpokenData() as data:
            return f"spoken digits in `{data.train}`; the speaker {data.speaker} is never trained on"
        case TextData() | LabelledData() | ImageData() | SoundData() as data:
            return f"`{_files(data.train)}`" + (f" in `{data.folder}`" if data.folder else "")


def _files(files: Files) -> str:
    return files if isinstance(files, str) else ", ".join(files)
