"""Small translators of number words, English to French, trained for a figure. A word is a token."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.numbers import english, french
from regard.data.text_lines import Report
from regard.figures.figure_result import Progress
from regard.figures.short_training import learn
from regard.runs.answering import Translator
from regard.runs.load import build_model
from regard.runs.recipe import find
from regard.training.experiment import prepare

_TRAINED = 20_000  # pairs
_WARMUP = 20  # the part of the updates in which the learning rate rises: one in so many


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberTranslator:
    """A trained translator, its size and its loss after each update."""

    translator: Translator
    parameters: int
    losses: list[tuple[float, float]]

    def right(self, numbers: Sequence[int]) -> list[bool]:
        """Which of these numbers it translates exactly, decoding greedily."""
        answers = self.translator.translate([english(number) for number in numbers], beam=1)
        return [answer == french(number) for answer, number in zip(answers, numbers, strict=True)]


def number_translator(
    name: str,
    recipe: str,
    settings: Sequence[str],
    *,
    largest: int,
    seed: int,
    steps: int,
    progress: Progress,
) -> NumberTranslator:
    """A recipe for numbers with words as tokens, trained in a few updates of 1,024 words."""
    given = [
        f"training.steps={steps}", f"training.save={steps}", f"training.warmup={steps // _WARMUP}",
        "training.batch=1024", "training.decode=0", "training.learning_rate=5e-3", "training.schedule=cosine",
        f"data.train={_TRAINED}", "data.valid=1", "data.test=1", f"data.largest={largest}", "tokens.kind=word",
        f"seed={seed}",
    ]  # fmt: skip
    chosen = find(recipe, [*given, *settings])
    prepared = prepare(chosen, Report())
    model, losses = learn(
        lambda: build_model(prepared.config),
        prepared.train,
        chosen.training,
        seed=seed,
        name=name,
        progress=progress,
    )
    return NumberTranslator(
        translator=Translator(model, dict(prepared.tokenizers)),
        parameters=sum(each.numel() for each in model.parameters()),
        losses=losses,
    )
