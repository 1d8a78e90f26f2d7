"""Metrics by hand, and as sacrebleu's own functions give them."""

import math

import pytest
import sacrebleu

from regard import RegardError
from regard.runs.metrics import Metric, exact, likelihood_metrics, translation_metrics


def test_translations_are_measured_as_sacrebleu_measures_them() -> None:
    answers, references = ["a small dog runs .", "two cats"], ["a little dog runs .", "two cats sleep"]
    found = {metric.name: metric for metric in translation_metrics(answers, references, tokenize="none")}
    bleu = sacrebleu.corpus_bleu(answers, [references], tokenize="none", force=True)
    assert found["bleu"].value == bleu.score
    assert found["chrf"].value == sacrebleu.corpus_chrf(answers, [references]).score
    assert "tok:none" in found["bleu"].signature
    assert "version:" in found["bleu"].signature
    assert found["exact"].value == 0


def test_exact_matches_are_counted_letter_by_letter() -> None:
    assert exact(["a", "b", "c ", ""], ["a", "B", "c", ""]).value == 0.5


def test_perplexity_is_e_to_the_loss() -> None:
    loss, perplexity = likelihood_metrics(6 * math.log(5), 6)
    assert loss.value == pytest.approx(math.log(5))
    assert perplexity.value == pytest.approx(5)


def test_answers_and_references_must_be_as_many() -> None:
    with pytest.raises(RegardError, match="2 answers but 1 references"):
        exact(["a", "b"], ["a"])
    with pytest.raises(RegardError, match="nothing to evaluate"):
        translation_metrics([], [])


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        (Metric("exact", 0.995), "exact 99.50 %"),
        (Metric("bleu", 41.023, "tok:none"), "bleu 41.02  (tok:none)"),
        (Metric("loss", 1.23456), "loss 1.235"),
    ],
)
def test_a_metric_is_printed_for_people(metric: Metric, shown: str) -> None:
    assert str(metric) == shown
