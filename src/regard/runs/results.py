"""What a run comes to: its metrics, the model card that presents them, and digests of the data it was made from.

BLEU and chrF are sacrebleu's, with their signatures. `data.json` in the run folder holds the size of each file of data
and a digest of its contents; of a folder, the number of its files and a digest of their names and sizes, because it
may hold a million pictures.
"""

import glob
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard import __version__
from regard.data.digit_counts import EXAMPLE
from regard.data.file_access import read_text, write_atomically
from regard.data.given import parse_json, parse_settings
from regard.data.spoken import recordings_place
from regard.data.text_lines import Parallel
from regard.errors import RegardError
from regard.models.kind import Kind
from regard.runs.folder import RunFolder
from regard.runs.load import inputs_of
from regard.runs.recipe import Recipe
from regard.runs.settings import (
    CountingData,
    DigitData,
    ImageData,
    LabelledData,
    NumberData,
    PairData,
    PlaceData,
    SameData,
    SoundData,
    SpokenData,
    StripData,
    TextData,
)

_DIGITS = "1,797 handwritten digits by E. Alpaydin and C. Kaynak (UCI Machine Learning Repository, CC BY 4.0)"


@dataclass(frozen=True)
class Metric:
    """One number about a set of answers. The signature says how it was computed, so that others can compare."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        percent = self.name in ("exact", "accuracy", "wer", "cer")
        shown = f"{100 * self.value:.2f} %" if percent else f"{self.value:.4g}"
        if self.name in ("bleu", "chrf"):
            shown = f"{self.value:.2f}"
        return f"{self.name} {shown}" + (f"  ({self.signature})" if self.signature else "")


def translation_metrics(
    answers: Sequence[str], references: Sequence[str], *, tokenize: str = "13a"
) -> list[Metric]:
    """BLEU (Papineni 2002) and chrF (Popović 2015) as sacrebleu computes them, and the share of exact matches."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    _alike(answers, references)
    found = []
    # `force`: text that is already tokenised is meant to be, where tokenize is "none".
    for name, metric in (("bleu", BLEU(tokenize=tokenize, force=True)), ("chrf", CHRF())):
        score = metric.corpus_score(list(answers), [list(references)])
        found.append(Metric(name, float(score.score), str(metric.get_signature())))
    return [*found, exact(answers, references)]


def transcription_metrics(answers: Sequence[str], references: Sequence[str]) -> list[Metric]:
    """Word and character error rate, and the share of exact matches.

    A rate is how many words (characters) must be put in, taken out or exchanged to make the references of the
    answers, over how many the references have. It may pass 1.
    """
    _alike(answers, references)
    found = []
    for name, parts in (("wer", str.split), ("cer", list)):
        pairs = [
            (parts(answer), parts(reference)) for answer, reference in zip(answers, references, strict=True)
        ]
        count = sum(len(reference) for _, reference in pairs)
        found.append(Metric(name, sum(edits(*pair) for pair in pairs) / max(1, count)))
    return [*found, exact(answers, references)]


def edits(answer: Sequence[str], reference: Sequence[str]) -> int:
    """The fewest parts to put in, take out or exchange (Levenshtein 1966)."""
    numbers = {part: number for number, part in enumerate({*answer, *reference})}
    across = np.array([numbers[part] for part in reference], np.int64)
    places = np.arange(len(reference) + 1)
    row = places
    for above, part in enumerate(answer):
        kept = np.minimum(row[1:] + 1, row[:-1] + (across != numbers[part]))
        # Insertions come from the left: the least of all costs there, and the way from it.
        row = np.minimum.accumulate(np.concatenate([[above + 1], kept]) - places) + places
    return int(row[-1])


def exact(answers: Sequence[str], references: Sequence[str]) -> Metric:
    """The share of answers that are their reference, letter by letter."""
    _alike(answers, references)
    return Metric("exact", sum(map(str.__eq__, answers, references)) / max(1, len(answers)))


def likelihood_metrics(nll: float, count: int) -> list[Metric]:
    """Loss per token in nats, and its exponential."""
    loss = nll / max(1, count)
    return [Metric("loss", loss), Metric("perplexity", math.exp(min(loss, 700.0)))]


def _alike(answers: Sequence[str], references: Sequence[str]) -> None:
    if len(answers) != len(references):
        raise RegardError(f"{len(answers)} answers but {len(references)} references")
    if not answers:
        raise RegardError("nothing to evaluate: no answers")


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
    verb, given, python = _used(kind, inputs_of(kind, recipe.model), text)
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


def _used(kind: Kind, reads: Sequence[str], text: str) -> tuple[str, str, str]:
    """How a model is used: the verb, what it is given on the command line, and the call in Python."""
    if not kind.verbs:
        return "evaluate", "", ".predict(…)"
    examples = {
        "text": f'"{text}"',
        "digits": f'"{EXAMPLE}"',
        "picture": "picture.png",
        "sound": "recording.wav",
    }
    typed = [examples[each] for each in reads]
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
            place = (
                " and ".join(_names(data.train))
                if isinstance(data.train, Parallel)
                else ", ".join(_names(data.train))
            )
            return f"`{place}`" + (f" in `{data.folder}`" if data.folder else "")
        case DigitData():
            return _DIGITS
        case StripData():
            return f"strips made of {_DIGITS}, read out in French; test digits never trained on"
        case SameData() as data:
            return f"pairs made of {_DIGITS} and of the spoken digits in `{data.train}`; {data.speaker} never trained on"
        case PlaceData() as data:
            return f"spoken digits in `{data.train}` with rows of {data.words} digit words, made by regard; {data.speaker} never trained on"
        case SpokenData() as data:
            return f"spoken digits in `{data.train}`; the speaker {data.speaker} is never trained on"
        case TextData() | LabelledData() | ImageData() | SoundData() as data:
            return f"`{', '.join(_names(data.train))}`" + (f" in `{data.folder}`" if data.folder else "")


def known_metrics(run: RunFolder) -> list[Metric]:
    """Those of the final test, of a run that is finished."""
    return [Metric(**each) for each in parse_json(read_text(run.metrics), run.metrics, finite=False)]


def keep_sources(run: RunFolder, recipe: Recipe) -> None:
    """Write `data.json`, unless the data is made rather than read."""
    found = sources_of(recipe)
    if found:
        write_atomically(run.data, json.dumps({"files": found}, indent=2, ensure_ascii=False) + "\n")


def changed_sources(run: RunFolder, recipe: Recipe) -> str | None:
    """Which files changed since the run began, in one line; None if none did, or nothing is known of them."""
    if not run.data.is_file():
        return None
    before = parse_settings(read_text(run.data, within=run.path), run.data).get("files")
    now = sources_of(recipe)
    if not isinstance(before, list) or before == now:
        return None
    if len(before) != len(now):
        return _said(f"{len(before)} files then, {len(now)} now")
    differ = [
        (then, each) for then, each in zip(before, now, strict=True) if _contents(then) != _contents(each)
    ]
    told = [f"{each['path']} ({_how(then, each)})" for then, each in differ]
    return (
        _said(", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")) if told else None
    )


def sources_of(recipe: Recipe) -> list[dict[str, Any]]:
    """What is known of every file, in the order of the recipe."""
    return [_of(path) for path in _paths(recipe)]


def _paths(recipe: Recipe) -> Iterator[Path]:
    folder = getattr(recipe.data, "folder", "")
    for part in ("train", "valid", "test"):
        for name in _names(getattr(recipe.data, part, None)):
            path = str(Path(folder).expanduser() / Path(name).expanduser())
            if isinstance(recipe.data, SpokenData):
                path = recordings_place(path)
            there = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            yield from map(Path, there)


def _names(place: object) -> Iterator[str]:
    """The names in a place: none, one, two parallel ones, or several of these."""
    if isinstance(place, str):
        yield place
    elif isinstance(place, Parallel):
        for side in (place.source, place.target):
            yield from _names(side)
    elif isinstance(place, list | tuple):
        for each in place:
            yield from _names(each)


def _of(path: Path) -> dict[str, Any]:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        listed = "".join(f"{each.relative_to(path)}\t{each.stat().st_size}\n" for each in files)
        return {"path": str(path), "files": len(files), "digest": _short(hashlib.sha256(listed.encode()))}
    with path.open("rb") as file:
        digest = _short(hashlib.file_digest(file, "sha256"))
        return {"path": str(path), "size": os.fstat(file.fileno()).st_size, "digest": digest}


def _short(digest: Any) -> str:
    return str(digest.hexdigest()[:16])


def _contents(source: dict[str, Any]) -> dict[str, Any]:
    """Without the path: a file may move."""
    return {name: value for name, value in source.items() if name != "path"}


def _how(then: dict[str, Any], now: dict[str, Any]) -> str:
    for unit, word in (("size", "bytes"), ("files", "files")):
        if unit in then and unit in now and then[unit] != now[unit]:
            return f"{then[unit]:,} {word} then, {now[unit]:,} now"
    return "other contents"


def _said(what: str) -> str:
    return f"the data changed since this run began: {what}; it goes on with what is there now"
