"""The model card: what a run was trained on, how good it is, and how to make it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

from regard import __version__
from regard.runs.folder import RunFolder, write_text
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import (
    CountingData,
    DigitData,
    ImageData,
    LabelledData,
    NumberData,
    PairData,
    TextData,
)

_USE = {
    "pairs": ("translate", 'regard translate {run} "…"', 'regard.load("{run}").translate(["…"])'),
    "numbers": ("translate", 'regard translate {run} "two hundred and one"', 'regard.load("{run}").translate(["two hundred and one"])'),
    "text": ("generate", 'regard generate {run} "…"', 'regard.load("{run}").generate(["…"])'),
    "labelled": ("classify", 'regard classify {run} "…"', 'regard.load("{run}").classify(["…"])'),
    "digits": ("look", "regard classify {run} digit.png", 'regard.load("{run}").classify(["digit.png"])'),
    "images": ("look", "regard classify {run} picture.png", 'regard.load("{run}").classify(["picture.png"])'),
    "counting": ("evaluate", "regard evaluate {run}", 'regard.load("{run}").predict(…)'),
}  # fmt: skip
_TASK = {
    "translate": "translation",
    "generate": "text-generation",
    "classify": "text-classification",
    "look": "image-classification",
    "evaluate": "other",
}


def write_card(
    run: RunFolder, recipe: Recipe, facts: Mapping[str, object], metrics: Sequence[Metric]
) -> None:
    """README.md for people, metrics.json for programs."""
    write_text(run.metrics, json.dumps([vars(metric) for metric in metrics], indent=2) + "\n")
    write_text(run.card, card(run, recipe, facts, metrics))


def card(run: RunFolder, recipe: Recipe, facts: Mapping[str, object], metrics: Sequence[Metric]) -> str:
    """The card as Markdown, with the header that model hubs read."""
    verb, command, python = _USE[recipe.data.KIND]
    name = run.path.resolve().name
    rows = []
    for metric in metrics:
        signature = metric.signature.replace("|", "\\|")  # not the end of a cell
        shown = str(replace(metric, signature="")).removeprefix(metric.name).strip()
        rows.append(f"| {metric.name} | {shown} | {signature} |")
    lines = [
        "---",
        "library_name: regard",
        f"pipeline_tag: {_TASK[verb]}",
        "---",
        f"# {name}",
        "",
        recipe.about or f"A {recipe.model.KIND} model.",
        "",
        "```sh",
        command.format(run=run.path),
        "```",
        "",
        "```python",
        "import regard",
        "",
        python.format(run=run.path),
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


def _data(recipe: Recipe) -> str:
    match recipe.data:
        case NumberData() as data:
            return f"English and French number words to {data.largest:,}, made by regard; test numbers never trained on"
        case CountingData():
            return "ten random digits a sample, made by regard"
        case PairData() as data:
            place = (
                data.train if isinstance(data.train, str) else f"{data.train.source} and {data.train.target}"
            )
            return f"`{place}`" + (f" in `{data.folder}`" if data.folder else "")
        case DigitData():
            return "1,797 handwritten digits by E. Alpaydin and C. Kaynak (UCI Machine Learning Repository, CC BY 4.0)"
        case TextData() | LabelledData() | ImageData() as data:
            return f"`{data.train}`" + (f" in `{data.folder}`" if data.folder else "")
