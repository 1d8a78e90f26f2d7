"""How good the answers are: BLEU and chrF with their signatures, error rates, exact match, accuracy, perplexity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import RegardError


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
