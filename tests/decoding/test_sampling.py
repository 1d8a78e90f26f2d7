"""Sampling against the probabilities it is to follow."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from decoding.toys import Toy, hashed, log_softmax, sources
from torch import nn

from regard import RegardError
from regard.data.batches import END, START, Sequences
from regard.decoding import sampling
from regard.decoding.decode import greedy
from regard.decoding.sampling import let_through, sample, stream, uniform


def among_words(logits: Sequence[float]) -> dict[int, float]:
    """The probabilities of what can be written: what PAD and START would have taken is the others'."""
    return dict(enumerate((math.exp(x) for x in log_softmax(logits[2:])), start=2))


def surprise(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float], draws: int) -> float:
    """Pearson's χ², less what is expected of it, in standard deviations."""
    chi = sum((counts[text] - draws * p) ** 2 / (draws * p) for text, p in expected.items())
    freedom = len(expected) - 1
    return (chi - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("seed", [0, 1, -5, 2**70])
def test_texts_are_as_frequent_as_they_are_likely(seed: int) -> None:
    logits, draws = hashed(6), 8000
    expected: dict[tuple[int, ...], float] = {}
    first = among_words(logits((4, END), (START,)))
    for token, p in first.items():
        after = {END: 1.0} if token == END else among_words(logits((4, END), (START, token)))
        for last, q in after.items():
            expected[tuple(x for x in (token, last) if x != END)] = p * q
    found = sample(Toy(logits), Sequences.of([[4, END]] * draws), limits=2, seed=seed)
    counts = Counter(tuple(each.tokens) for each in found)
    assert set(counts) <= set(expected)
    assert surprise(counts, expected, draws) < 4


def test_a_temperature_sharpens_as_it_says() -> None:
    row, draws = [-9.0, -9.0, 0.3, 1.0, -0.5, 0.1], 8000
    weights = [math.exp(x / 0.5) for x in row[2:]]
    expected = {(token,): w / sum(weights) for token, w in enumerate(weights, start=2)}
    found = sample(Toy(lambda s, t: row), Sequences.of([[4, END]] * draws), limits=1, seed=3, temperature=0.5)
    counts = Counter(tuple(each.tokens) or (END,) for each in found)
    assert surprise(counts, expected, draws) < 4


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [
        (None, 1.0, [0.1, 0.4, 0.2, 0.3]),
        (2, 1.0, [0.0, 4 / 7, 0.0, 3 / 7]),
        (1, 1.0, [0.0, 1.0, 0.0, 0.0]),
        (9, 1.0, [0.1, 0.4, 0.2, 0.3]),
        (None, 0.39, [0.0, 1.0, 0.0, 0.0]),
        (None, 0.41, [0.0, 4 / 7, 0.0, 3 / 7]),
        (None, 0.71, [0.0, 4 / 9, 2 / 9, 3 / 9]),
        (None, 0.91, [0.1, 0.4, 0.2, 0.3]),
        (2, 0.56, [0.0, 1.0, 0.0, 0.0]),  # of the two that are left the first has 4/7 = 0.571
        (2, 0.58, [0.0, 4 / 7, 0.0, 3 / 7]),
        (None, 1e-9, [0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_what_is_let_through_is_known_by_hand(top_k: int | None, top_p: float, expected: list[float]) -> None:
    logprobs = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    found = let_through(logprobs, temperature=1.0, top_k=top_k, top_p=top_p)
    assert found[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_equally_likely_tokens_do_not_slip_through_together() -> None:
    even = torch.zeros(1, 4).log_softmax(-1)
    assert let_through(even, temperature=1.0, top_k=2, top_p=1.0)[0].tolist() == [0.5, 0.5, 0.0, 0.0]
    assert let_through(even, temperature=1.0, top_k=None, top_p=0.5)[0].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_what_is_filtered_out_is_never_drawn() -> None:
    logits = hashed(30)
    found = sample(Toy(logits), Sequences.of(sources(40)), limits=8, seed=0, top_k=3, top_p=0.8)
    for source, each in zip(sources(40), found, strict=True):
        text = [*each.tokens, *[END] * each.finished]
        for step, token in enumerate(text):
            row = logits(tuple(source), (START, *text[:step]))
            assert token in sorted(range(2, 30), key=lambda i: -row[i])[:3]


def test_a_text_is_its_seed_and_its_number_whatever_the_company() -> None:
    model, texts = Toy(hashed(9, ending=0.3)), sources(23)
    limits = torch.randint(1, 12, (23,))
    together = sample(model, Sequences.of(texts), limits=limits, seed=7)
    assert together == sample(model, Sequences.of(texts), limits=limits, seed=7)
    order = torch.randperm(23)
    shuffled = Sequences.of([texts[i] for i in order.tolist()])
    again = sample(model, shuffled, limits=limits[order], seed=7, numbers=order)
    assert [each.tokens for each in again] == [together[i].tokens for i in order.tolist()]
    other = sample(model, Sequences.of(texts), limits=limits, seed=8)
    assert [each.tokens for each in other] != [each.tokens for each in together]


def test_temperature_zero_is_greedy_and_a_tiny_one_nearly() -> None:
    model, batch = Toy(hashed(9)), Sequences.of(sources(17))
    expected = greedy(model, batch, limits=9)
    for temperature in (0.0, 1e-320):
        found = sample(model, batch, limits=9, seed=0, temperature=temperature)
        assert [each.tokens for each in found] == [each.tokens for each in expected]
        # Greedy search takes its log-probabilities from another kernel, which rounds differently.
        assert [each.log_probability for each in found] == pytest.approx(
            [each.log_probability for each in expected], abs=1e-5
        )


@pytest.mark.parametrize(("drawn", "token"), [(0.0, 3), (0.5, 5), (1 - 2.0**-52, 5)])
def test_the_ends_of_the_interval_draw_what_has_a_probability(
    drawn: float, token: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sampling, "_drawn", lambda keys, step: torch.full_like(keys, drawn, dtype=torch.float64)
    )
    never = -math.inf
    model = Toy(lambda source, text: [1.0, 1.0, never, 0.0, never, 0.0, never])
    assert sample(model, Sequences.of([[4, END]]), limits=1, seed=0)[0].tokens == [token]


def test_the_log_probability_is_the_models_own() -> None:
    logits = hashed(9)
    for source, each in zip(
        sources(9),
        sample(Toy(logits), Sequences.of(sources(9)), limits=6, seed=1, temperature=2.0, top_k=4),
        strict=True,
    ):
        text = [*each.tokens, *[END] * each.finished]
        steps = [
            log_softmax(logits(tuple(source), (START, *text[:i])))[token] for i, token in enumerate(text)
        ]
        assert each.log_probability == pytest.approx(sum(steps), abs=1e-5)


def test_the_numbers_are_uniform_and_unrelated() -> None:
    rows = torch.arange(4000)
    drawn = torch.stack([uniform(seed, rows, step) for seed in (0, 1, 2) for step in (0, 1, 2)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    cells = torch.histc(drawn, 20, 0, 1)
    assert ((cells - 1800) ** 2 / 1800).sum() < 19 + 4 * math.sqrt(38)
    correlations = torch.corrcoef(drawn) - torch.eye(9).double()
    assert correlations.abs().max() < 5 / math.sqrt(4000)
    follows = torch.corrcoef(torch.stack([drawn[:, 1:].flatten(), drawn[:, :-1].flatten()]))[0, 1]
    assert abs(follows) < 5 / math.sqrt(36000)


def test_the_numbers_are_those_of_splitmix_on_whole_numbers() -> None:
    """The same in Python, whose integers do not wrap by themselves."""
    golden, word = 0x9E3779B97F4A7C15, 2**64

    def stir(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % word
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % word
        return x ^ (x >> 31)

    for seed, row, step in [(0, 0, 0), (12345, 17, 3), (-1, 2**40, 999)]:
        mixed = seed % word
        for part in (row, step):
            mixed = (stir((mixed + golden) % word) + part) % word
        expected = (stir((mixed + golden) % word) >> 12) / 2**52
        assert uniform(seed, torch.tensor([row]), step).item() == expected
    assert stir(golden) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 from seed 0


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-308, 0.7, 1e308])
def test_what_is_divided_by_has_a_reciprocal_since_a_gpu_multiplies_by_that(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    divisors = []

    def through(logprobs: torch.Tensor, *, temperature: float, **options: Any) -> torch.Tensor:
        divisors.append(temperature)
        return let_through(logprobs, temperature=temperature, **options)

    monkeypatch.setattr(sampling, "let_through", through)
    sample(Toy(hashed(9)), Sequences.of([[4, END]]), limits=2, seed=0, temperature=temperature)
    assert divisors
    assert all(2.3e-308 < 1 / divisor < math.inf for divisor in divisors)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"temperature": -0.1}, "temperature of -0.1"),
        ({"temperature": math.nan}, "temperature of nan"),
        ({"temperature": math.inf}, "temperature of inf"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"top_p": math.nan}, "top_p=nan"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float], told: str) -> None:
    with pytest.raises(RegardError, match=told):
        sample(Toy(hashed(9)), Sequences.of([[4, END]]), limits=3, seed=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 4, "top_p": 0.8}]
)
def test_a_stream_gives_the_tokens_of_a_sample(options: dict[str, float]) -> None:
    model = Toy(hashed(9, ending=0.3))
    ended = 0
    for source in sources(20):
        prompt = Sequences.of([source])
        (expected,) = sample(model, prompt, limits=7, seed=5, **options)  # type: ignore[arg-type]
        assert list(stream(model, prompt, limits=7, seed=5, **options)) == expected.tokens  # type: ignore[arg-type]
        ended += expected.finished
    assert 0 < ended < 20


def test_a_stream_is_the_text_of_any_number() -> None:
    model, texts = Toy(hashed(9)), sources(6)
    found = sample(model, Sequences.of(texts), limits=5, seed=5)
    prompt = Sequences.of([texts[4]])
    assert list(stream(model, prompt, limits=5, seed=5, numbers=torch.tensor([4]))) == found[4].tokens


def test_tokens_come_as_soon_as_they_are_known() -> None:
    model = Toy(hashed(9, ending=-9.0))
    tokens = stream(model, Sequences.of([[4, 2]]), limits=5, seed=0)
    assert model.batches == []
    next(tokens)
    assert model.batches == [1]
    assert len(list(tokens)) == 4
    assert model.batches == [1] * 5


def test_the_reader_of_a_stream_keeps_gradients_and_training_mode() -> None:
    class Module(nn.Module):
        def start(self, source):  # type: ignore[no-untyped-def]
            return Toy(hashed(9, ending=-9.0)).start(source)

        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            assert not self.training
            assert not torch.is_grad_enabled()
            return Toy(hashed(9, ending=-9.0)).step(tokens, state)

    model = Module()
    for _ in stream(model, Sequences.of([[4, 2]]), limits=3, seed=0):
        assert model.training
        assert torch.is_grad_enabled()


def test_mistakes_are_told_before_the_first_token_is_asked_for() -> None:
    with pytest.raises(RegardError, match="top_k=0"):
        stream(Toy(hashed(9)), Sequences.of([[4, 2]]), limits=3, seed=0, top_k=0)
    with pytest.raises(RegardError, match="a limit of 0"):
        stream(Toy(hashed(9)), Sequences.of([[4, 2]]), limits=0, seed=0)


def test_several_prompts_are_refused() -> None:
    with pytest.raises(RegardError, match="a stream of 2 prompts"):
        list(stream(Toy(hashed(9)), Sequences.of([[4, 2], [5, 2]]), limits=3, seed=0))
