"""A recipe before training: paths located, data read, tokenizers made, sizes known, and a summary of what was read.

The folder that relative paths start from is recorded when a run begins, so that later commands may run in any folder.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import nn

from regard.data.batches import Feed, each_once
from regard.data.file_access import write_atomically
from regard.data.text_lines import Parallel, Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, warn
from regard.models.optimise import device_of
from regard.models.protocols import Trains
from regard.runs.folder import shipped_names
from regard.runs.recipe import Recipe
from regard.runs.results import Metric, likelihood_metrics
from regard.runs.settings import FromFiles

Evaluation = Callable[[nn.Module], list[Metric]]
SAMPLES_ANSWERED = 2  # validation samples that are answered at every evaluation, for people to read
Item = TypeVar("Item")
_FEW = 20  # test samples, of which the metrics say little


class AnsweredSample(NamedTuple):
    """A sample of the validation data: what goes in, what the model makes of it, and what should come out."""

    given: str
    answer: str
    reference: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Everything that training needs, and what is measured with."""

    config: Any  # of the model, with the sizes that the data tell
    train: Feed[Any]
    validate: Evaluation  # while training
    test: Evaluation  # at the end
    # Some of the validation data, answered while training.
    answer: Callable[[nn.Module], list[AnsweredSample]] | None = None
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    labels: list[str] | None = None
    facts: Mapping[str, object] = field(default_factory=dict)  # for the model card: how much data there was
    classes: Mapping[str, int] = field(default_factory=dict)  # how many training samples each has
    samples: Sequence[
        tuple[str, ...]
    ] = ()  # the first few, as they were read: a text, or what goes in and comes out
    notices: Sequence[str] = ()  # what a person should know before training


def spread(samples: Iterable[Item]) -> list[Item]:
    """Some of the first thousand samples, apart from each other: neighbours in a file are often alike."""
    some = list(islice(samples, 1000))
    return [
        some[len(some) * (2 * place + 1) // (2 * SAMPLES_ANSWERED)]
        for place in range(min(SAMPLES_ANSWERED, len(some)))
    ]


def likelihood(model: nn.Module, feed: Feed[Any]) -> list[Metric]:
    """Loss and perplexity over everything in a feed, and the share of right answers."""
    device = device_of(model)
    sums: dict[str, float] = {}
    count = 0
    with torch.no_grad():
        for batch in each_once(feed):
            loss = cast(Trains[Any], model).loss(batch.to(device))
            count += int(loss.count)
            for name, value in loss.metrics.items():
                sums[name] = sums.get(name, 0.0) + float(value)
    return [*likelihood_metrics(sums["nll"], count), Metric("accuracy", sums["correct"] / max(1, count))]


def packs(recipe: Recipe) -> bool:
    """Whether the texts that are trained on are packed, which not every model can read."""
    if recipe.training.packing in (False, "auto"):
        return False
    if not recipe.kind.packs:
        able = ", ".join(each.name for each in recipe.kinds if each.packs)
        raise RegardError(f"training.packing with model.kind {recipe.kind.name}: packed texts are for {able}")
    if depth := getattr(recipe.model, "stochastic_depth", 0):
        raise RegardError(
            f"training.packing with stochastic_depth={depth}: samples are left out by the row, and "
            "packed texts have one; set one of them to 0"
        )
    return True


def packing_refusal(recipe: Recipe) -> str | None:
    """Why texts are not packed on a GPU where `training.packing` is left to the machine; None if they are."""
    model = recipe.model
    if not recipe.kind.packs:
        return f"a {recipe.kind.name} does not read packed texts"
    if getattr(model, "stochastic_depth", 0):
        return "stochastic_depth leaves samples out by the row"
    if (
        getattr(model, "positions", None) in ("alibi", "relative")
        or getattr(model, "score", None) == "additive"
    ):
        return "positions as a bias, and the additive score, have no kernel for packed texts"
    return None


def write_answers(path: Path, what: str, rows: Iterable[Sequence[str]]) -> None:
    """Sources, references and answers as TSV."""
    lines = ("\t".join(" ".join(cell.split()) for cell in row) for row in rows)
    write_atomically(path, f"source\treference\t{what}\n" + "\n".join(lines) + "\n")


def counted(labels: Iterable[str]) -> dict[str, int]:
    """How often each occurs, in alphabetical order."""
    return dict(sorted(Counter(labels).items()))


def too_long(left_out: int, longest: int, count: int) -> dict[str, object]:
    """How many samples are left out of training for their length, as a fact; refused if they are all."""
    if count and left_out == count:
        raise RegardError(f"data.train: all {count:,} samples have more than tokens.longest={longest} tokens")
    return {f"left out of training, longer than {longest} tokens": left_out} if left_out else {}


def recorded(recipe: Recipe) -> Recipe:
    """The recipe as a run keeps it: with the folder, `base`, that its relative paths start from, if it has any."""
    if not _has_relative_paths(recipe):
        return recipe
    return replace(recipe, base=os.path.abspath(os.path.expanduser(recipe.base)))


def anchored(recipe: Recipe) -> Recipe:
    """The recipe with paths that mean the same in every folder.

    Where `base` is gone, as after moving a project, they start from the folder the command runs in, with a warning.
    """
    if not recipe.base or not _has_relative_paths(recipe):
        return recipe
    base = Path(recipe.base).expanduser()
    if not base.is_dir():
        warn(
            f"base: {recipe.base}, where the relative paths of the recipe start, is gone: taking {Path.cwd()} for it; give "
            "another in recipe.yaml"
        )
        return recipe
    data = recipe.data
    if isinstance(data, FromFiles):
        data = replace(data, folder=str(base / Path(data.folder).expanduser()))
    init = recipe.init
    if init is not None:
        own = base / Path(init.run).expanduser()
        named = init.run in shipped_names() and not (own / "recipe.yaml").exists()
        init = replace(init, run=init.run if named else str(own))
    return replace(recipe, data=data, init=init)


def _has_relative_paths(recipe: Recipe) -> bool:
    if recipe.init is not None and _relative(recipe.init.run):
        return True
    data = recipe.data
    if not isinstance(data, FromFiles) or not _relative(data.folder):
        return False
    places = (data.train, getattr(data, "valid", None), getattr(data, "test", None))
    return any(_relative(place) for place in places)


def _relative(place: object) -> bool:
    """Whether any of the paths that a setting holds is."""
    match place:
        case str():
            return not Path(place).expanduser().is_absolute()
        case Parallel(source, target):
            return _relative(source) or _relative(target)
        case list() | tuple():
            return any(map(_relative, place))
        case _:
            return False


def located(folder: str, path: str) -> str:
    """A path of a recipe, from its folder."""
    return str(Path(folder).expanduser() / Path(path).expanduser())


def all_located(folder: str, files: str | Sequence[str]) -> list[str]:
    """The paths of a recipe, from its folder."""
    return [located(folder, each) for each in ([files] if isinstance(files, str) else files)]


_FILES, _CLASSES, _LETTERS = 5, 20, 70


def summary(prepared: Prepared, report: Report) -> list[str]:
    """How each file was read, how much there is, its classes, some samples, and what was dropped and why."""
    facts = ", ".join(f"{name}: {_number(fact)}" for name, fact in prepared.facts.items())
    return [
        *layouts(report),
        facts,
        *_few_tested(prepared),
        *_classes(prepared),
        *(f"as read: {' → '.join(map(_shown, sample))}" for sample in prepared.samples),
        *(dropped(report) or ["dropped: nothing"]),
        *prepared.notices,
    ]


def layouts(report: Report) -> list[str]:
    """The columns that were taken from each file, and whether its first line is a header."""
    found = [f"{file}: {layout}" for file, layout in report.layouts.items()]
    more = [f"… and {len(found) - _FILES:,} more files"] if len(found) > _FILES else []
    return found[:_FILES] + more


def dropped(report: Report) -> list[str]:
    """How much was dropped, by kind, and the first few by file and line."""
    if not report.total:
        return []
    return [f"dropped: {report.total:,} ({report.kinds})", *(f"  {problem}" for problem in report.first)]


def _few_tested(prepared: Prepared) -> Iterator[str]:
    for name, count in prepared.facts.items():
        if name.startswith("test ") and isinstance(count, int) and count <= _FEW:
            yield f"{name}: only {count}, so what is measured on them says little; give more, or hold out more"


def _classes(prepared: Prepared) -> Iterator[str]:
    if prepared.classes:
        some = [f"{name!r} {count:,}" for name, count in islice(prepared.classes.items(), _CLASSES)]
        more = (
            [f"… and {len(prepared.classes) - _CLASSES:,} more"] if len(prepared.classes) > _CLASSES else []
        )
        yield f"training samples of each class: {', '.join(some + more)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def _number(fact: object) -> str:
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
