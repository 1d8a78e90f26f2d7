"""Beam search against looking at every text, and against a slow one for one sentence."""

import math
from itertools import pairwise

import pytest
import torch
from decoding.toys import Grouped, Logits, Toy, every_text, hashed, log_softmax, sources
from torch import Tensor

from regard import RegardError
from regard.data.batches import END, START, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.decoding.hypothesis import Hypothesis, beams

Text = tuple[list[int], float, bool]  # tokens, score, finished


def wu(logprob: float, length: int, penalty: float) -> float:
    return logprob / ((5 + length) / 6) ** penalty


def told(hypotheses: list[Hypothesis]) -> list[Text]:
    return [(each.tokens, pytest.approx(each.ranking, abs=1e-5), each.finished) for each in hypotheses]


def slow_beam(
    logits: Logits, source: list[int], *, size: int, limit: int, penalty: float, count: int
) -> list[Text]:
    """To the very limit, without stopping early."""
    live: list[tuple[tuple[int, ...], float]] = [((START,), 0.0)]
    finished: list[Text] = []
    for length in range(1, limit + 1):
        grown = [
            ((*text, token), total + each)
            for text, total in live
            for token, each in enumerate(log_softmax(logits(tuple(source), text)))
            if token >= END
        ]
        grown = sorted(grown, key=lambda each: -each[1])[:size]
        finished += [(list(t[1:-1]), wu(total, length, penalty), True) for t, total in grown if t[-1] == END]
        live = [each for each in grown if each[0][-1] != END]
    finished.sort(key=lambda each: -each[1])
    unfinished = [(list(text[1:]), wu(total, limit, penalty), False) for text, total in live]
    return (finished + unfinished)[:count]


@pytest.mark.parametrize("penalty", [-0.7, 0.0, 0.6, 2.0])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_beam_as_wide_as_everything_finds_the_best_texts_there_are(penalty: float, limit: int) -> None:
    logits, texts = hashed(6, ending=-1.0), sources(7)
    found = beam(Toy(logits), Sequences.of(texts), size=4**limit, limits=limit, penalty=penalty, count=4)
    for source, hypotheses in zip(texts, found, strict=True):
        every = [
            (list(text), wu(logprob, len(text) + ended, penalty), ended)
            for text, logprob, ended in every_text(logits, tuple(source), limit)
        ]
        every.sort(key=lambda each: (not each[2], -each[1]))
        assert told(hypotheses) == every[:4]


@pytest.mark.parametrize("ending", [-2.0, 0.0, 1.5])
@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0, 3.0])
@pytest.mark.parametrize(("size", "count"), [(1, 1), (2, 2), (3, 1), (5, 3), (5, 5)])
def test_every_sentence_of_a_batch_is_searched_as_if_alone(
    size: int, count: int, penalty: float, ending: float
) -> None:
    logits, texts = hashed(9, ending=ending), sources(17)
    limits = torch.randint(1, 11, (17,))
    found = beam(Grouped(logits), Sequences.of(texts), size=size, limits=limits, penalty=penalty, count=count)
    for source, limit, hypotheses in zip(texts, limits.tolist(), found, strict=True):
        expected = slow_beam(logits, source, size=size, limit=limit, penalty=penalty, count=count)
        assert told(hypotheses) == expected


def test_a_beam_wider_than_the_vocabulary_begins_with_what_there_is() -> None:
    logits, texts = hashed(5), sources(5)
    found = beam(Grouped(logits), Sequences.of(texts), size=8, limits=6, penalty=0.6, count=8)
    for source, hypotheses in zip(texts, found, strict=True):
        assert told(hypotheses) == slow_beam(logits, source, size=8, limit=6, penalty=0.6, count=8)


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 5.0])
def test_size_one_is_greedy(penalty: float) -> None:
    model, batch = Toy(hashed(9, ending=0.5)), Sequences.of(sources(40))
    limits = torch.randint(1, 14, (40,))
    found = beam(model, batch, size=1, limits=limits, penalty=penalty)
    for (ours,), theirs in zip(found, greedy(model, batch, limits=limits), strict=True):
        assert (ours.tokens, ours.finished) == (theirs.tokens, theirs.finished)
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)


def test_the_order_of_a_batch_does_not_matter() -> None:
    model, texts = Toy(hashed(9, ending=0.5)), sources(19)
    limits = torch.randint(1, 12, (19,))
    together = beam(model, Sequences.of(texts), size=4, limits=limits, count=3)
    order = torch.randperm(19).tolist()
    shuffled = beam(model, Sequences.of([texts[i] for i in order]), size=4, limits=limits[order], count=3)
    assert [[h.tokens for h in each] for each in shuffled] == [[h.tokens for h in together[i]] for i in order]


def test_a_sentence_leaves_with_all_its_rows_as_soon_as_nothing_can_change() -> None:
    """END at once with p = 0.9: what is left can never come to more than 0.1, so no second step is made."""
    nine = torch.tensor([0.9, *[0.02] * 5]).log().tolist()
    model = Toy(lambda source, text: [-50.0, -50.0, *nine])
    ((best,),) = beam(model, Sequences.of([[4, END]]), size=3, limits=50, penalty=0.0)
    assert (best.tokens, best.finished) == ([], True)
    assert model.batches == [1]


def test_a_length_penalty_keeps_a_sentence_going_while_it_may_still_pay() -> None:
    """END now has p = 0.5, the other way 0.5 and then for sure three tokens: the longer is better once α > 0."""

    def logits(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        never = -50.0
        if len(text) == 1:
            return [never, never, 0.01, never, 0.0]
        return [never, never, 0.0, never, never] if len(text) == 4 else [never, never, never, never, 0.0]

    def tokens(penalty: float) -> list[int]:
        return beam(Toy(logits), Sequences.of([[4, END]]), size=2, limits=9, penalty=penalty)[0][0].tokens

    assert tokens(0.0) == []
    assert tokens(0.6) == [4, 4, 4]


def test_a_negative_penalty_keeps_a_sentence_going_for_the_next_length() -> None:
    """END now has p = 0.3; the other way 0.7, and then it ends for sure: −1.20 against −0.36 · 7/6 with α = −1."""

    def logits(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        ends = [-50.0, -50.0, 0.0, -50.0, -50.0]
        return [-50.0, -50.0, math.log(0.3), -50.0, math.log(0.7)] if len(text) == 1 else ends

    ((best,),) = beam(Toy(logits), Sequences.of([[4, END]]), size=2, limits=50, penalty=-1.0)
    assert best.tokens == [4]
    assert best.ranking == pytest.approx(math.log(0.7) * 7 / 6)


def test_finished_sentences_leave_the_batch() -> None:
    model = Toy(hashed(9, ending=2.5))
    beam(model, Sequences.of(sources(40)), size=3, limits=30, penalty=0.0)
    assert model.batches[0] == 40
    assert all(after <= before for before, after in pairwise(model.batches[1:]))
    assert all(rows % 3 == 0 for rows in model.batches[1:])
    assert model.batches[-1] < 60


def test_the_rows_of_a_text_lead_back_along_its_beam() -> None:
    seen: list[Tensor] = []

    class Watched(Toy):
        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            seen.append(tokens)
            return super().step(tokens, state)

    found = beam(Watched(hashed(9, ending=0.5)), Sequences.of(sources(13)), size=4, limits=9, count=4)
    every = [each for hypotheses in found for each in hypotheses]
    for hypothesis, came_from in zip(every, beams(every).tolist(), strict=True):
        walked = [seen[step][row].item() for step, row in enumerate(came_from) if row >= 0]
        assert walked == [START, *hypothesis.tokens][: len(walked)]
        assert len(walked) == len(hypothesis.tokens) + hypothesis.finished


def test_of_equally_likely_texts_the_first_is_taken() -> None:
    found = beam(Toy(lambda source, text: [0.0] * 6), Sequences.of([[4, END]]), size=3, limits=2, count=3)
    assert [each.tokens for each in found[0]] == [[], [3], [3, 3]]


def test_a_likely_pad_or_start_is_never_written() -> None:
    model = Toy(lambda source, text: [9.0, 8.0, -3.0, 1.0, 2.0])
    for hypothesis in beam(model, Sequences.of([[4, END]]), size=3, limits=3, count=3)[0]:
        assert set(hypothesis.tokens) <= {3, 4}


def test_half_precision_logits_are_summed_in_single() -> None:
    logits = hashed(9, ending=-1.0)

    def coarse(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        return torch.tensor(logits(source, text)).bfloat16().tolist()

    found = beam(Toy(logits, torch.bfloat16), Sequences.of(sources(5)), size=3, limits=6, count=3)
    for source, hypotheses in zip(sources(5), found, strict=True):
        assert told(hypotheses) == slow_beam(coarse, source, size=3, limit=6, penalty=0.6, count=3)


def test_nan_is_reported_with_its_step_and_sentence() -> None:
    clean = hashed(9, ending=-9.0)

    def broken(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        row = list(clean(source, text))
        return [float("nan")] * 9 if source[0] == 7 and len(text) == 3 else row

    with pytest.raises(RegardError, match="step 2, row 3: the model gave NaN"):
        beam(Toy(broken), Sequences.of(sources(5)), size=3, limits=6)


def test_nan_after_the_end_of_a_text_is_nobodys_business() -> None:
    clean = hashed(9, ending=1.5)

    def broken(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        return [float("nan")] * 9 if END in text else list(clean(source, text))

    batch = Sequences.of(sources(20))
    found = beam(Toy(broken), batch, size=4, limits=8, penalty=1.0, count=4)
    assert found == beam(Toy(clean), batch, size=4, limits=8, penalty=1.0, count=4)
    assert greedy(Toy(broken), batch, limits=8) == greedy(Toy(clean), batch, limits=8)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"size": 0}, "size 0"),
        ({"size": 3, "count": 4}, "the 4 best of a beam of size 3"),
        ({"size": 3, "count": 0}, "the 0 best"),
        ({"size": 3, "penalty": float("nan")}, "penalty of nan"),
    ],
)
def test_a_beam_that_cannot_be_is_refused(options: dict[str, float], told: str) -> None:
    with pytest.raises(RegardError, match=told):
        beam(Toy(hashed(9)), Sequences.of([[4, END]]), limits=3, **options)  # type: ignore[arg-type]
