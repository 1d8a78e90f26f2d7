"""Metrics by hand, and as sacrebleu's own functions give them."""

import math
import random
from functools import cache

import pytest
import sacrebleu

from regard import RegardError
from regard.runs.results import (
    Metric,
    edits,
    exact,
    likelihood_metrics,
    transcription_metrics,
    translation_metrics,
)


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


def test_error_rates_are_counted_over_the_references() -> None:
    # One word exchanged, one put in; one taken out. Of 7 words and 25 characters.
    answers, references = ["the cat sat on a mat", "two"], ["the cat sat on the", "two six"]
    found = {metric.name: metric.value for metric in transcription_metrics(answers, references)}
    assert found == {"wer": 3 / 7, "cer": (5 + 4) / 25, "exact": 0.0}
    assert transcription_metrics(["a b c"], [""])[0].value == 3  # more errors than words
    assert [metric.value for metric in transcription_metrics(["", "x"], ["", "x"])] == [0, 0, 1]


def test_the_fewest_edits_are_those_of_the_recursion() -> None:
    @cache
    def by_recursion(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        exchanged = by_recursion(a[1:], b[1:]) + (a[0] != b[0])
        return min(exchanged, by_recursion(a[1:], b) + 1, by_recursion(a, b[1:]) + 1)

    numbers = random.Random(0)
    for _ in range(200):
        one, other = ("".join(numbers.choices("abc", k=numbers.randrange(9))) for _ in range(2))
        assert edits(one, other) == by_recursion(one, other)


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
        (Metric("wer", 0.0831), "wer 8.31 %"),
        (Metric("loss", 1.23456), "loss 1.235"),
    ],
)
def test_a_metric_is_printed_for_people(metric: Metric, shown: str) -> None:
    assert str(metric) == shown
