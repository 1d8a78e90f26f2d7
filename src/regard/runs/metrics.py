"""How good the answers are: BLEU and chrF with their signatures, exact match, accuracy, perplexity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError


@dataclass(frozen=True)
class Metric:
    """One number about a set of answers. The signature says how it was computed, so that others can compare."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        percent = self.name in ("exact", "accuracy")
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
