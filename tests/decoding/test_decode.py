"""Greedy decoding against following the likeliest token of one sentence in Python."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch
from decoding.toys import Logits, Toy, hashed, log_softmax, sources
from torch import Tensor, nn

from regard import RegardError
from regard.data.batches import END, START, Sequences
from regard.decoding.decode import evaluating, greedy, per_row
from regard.decoding.hypothesis import Hypothesis, beams


def likeliest(logits: Logits, source: list[int], limit: int) -> tuple[list[int], float, bool]:
    text, total = (START,), 0.0
    while len(text) <= limit:
        row = log_softmax(logits(tuple(source), text))
        token = max(range(2, len(row)), key=lambda i: row[i])
        total += row[token]
        if token == END:
            return list(text[1:]), total, True
        text = (*text, token)
    return list(text[1:]), total, False


def told(hypothesis: Hypothesis) -> tuple[list[int], float, bool]:
    return hypothesis.tokens, pytest.approx(hypothesis.log_probability, abs=1e-5), hypothesis.finished


@pytest.mark.parametrize("ending", [-2.0, 0.5, 1.5])
def test_every_text_is_the_likeliest_walk(ending: float) -> None:
    logits, texts = hashed(9, ending=ending), sources(31)
    limits = torch.randint(1, 14, (31,))
    found = greedy(Toy(logits), Sequences.of(texts), limits=limits)
    for source, limit, hypothesis in zip(texts, limits.tolist(), found, strict=True):
        assert told(hypothesis) == likeliest(logits, source, limit)
        assert hypothesis.ranking == hypothesis.log_probability


def test_a_text_is_the_same_in_any_company() -> None:
    model, texts = Toy(hashed(9, ending=0.7)), sources(23)
    limits = torch.randint(1, 14, (23,))
    together = greedy(model, Sequences.of(texts), limits=limits)
    order = torch.randperm(23).tolist()
    shuffled = greedy(model, Sequences.of([texts[i] for i in order]), limits=limits[order])
    assert [h.tokens for h in shuffled] == [together[i].tokens for i in order]
    for source, limit, hypothesis in zip(texts, limits, together, strict=True):
        (alone,) = greedy(model, Sequences.of([source]), limits=int(limit))
        assert (alone.tokens, alone.finished) == (hypothesis.tokens, hypothesis.finished)


def test_rows_that_ended_are_not_computed_for_long() -> None:
    model, texts = Toy(hashed(9, ending=1.0)), sources(64)
    found = greedy(model, Sequences.of(texts), limits=30)
    lengths = [len(hypothesis.rows) for hypothesis in found]
    for step, rows in enumerate(model.batches):
        going = sum(length > step for length in lengths)
        assert going <= rows <= max(going, 2 * going - 1)
    assert model.batches[0] == 64
    assert model.batches[-1] < 8


def test_the_rows_of_a_text_lead_back_to_its_place_in_every_step() -> None:
    seen: list[Tensor] = []

    class Watched(Toy):
        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            seen.append(tokens)
            return super().step(tokens, state)

    found = greedy(Watched(hashed(9, ending=0.7)), Sequences.of(sources(23)), limits=12)
    rows = beams(found)
    for hypothesis, came_from in zip(found, rows.tolist(), strict=True):
        walked = [seen[step][row].item() for step, row in enumerate(came_from) if row >= 0]
        assert walked == [START, *hypothesis.tokens][: len(walked)]
        assert len(walked) == len(hypothesis.tokens) + hypothesis.finished


def test_no_row_is_stepped_past_its_limit() -> None:
    """A model with 12 positions has room for 12 − n tokens after a source of n, and for none more."""
    texts = [[4, END], [5, 6, 7, 8, 9, END], [6, 7, END], [7, END]]
    limits = torch.tensor([12 - len(text) for text in texts])
    found = greedy(Toy(hashed(9, ending=-9.0), most=12), Sequences.of(texts), limits=limits)
    assert [len(hypothesis.tokens) for hypothesis in found] == limits.tolist()


def test_of_equally_likely_tokens_the_first_is_taken() -> None:
    found = greedy(Toy(lambda source, text: [0.0] * 7), Sequences.of([[4, END]]), limits=5)
    assert (found[0].tokens, found[0].finished) == ([], True)


def test_a_likely_pad_or_start_is_never_written() -> None:
    model = Toy(lambda source, text: [9.0, 8.0, -3.0, 1.0, 2.0])
    assert greedy(model, Sequences.of([[4, END]]), limits=3)[0].tokens == [4, 4, 4]


def test_nan_is_reported_with_its_step_and_row() -> None:
    clean = hashed(9, ending=-9.0)

    def broken(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        row = list(clean(source, text))
        return [float("nan")] * 9 if source[0] == 6 and len(text) == 4 else row

    with pytest.raises(RegardError, match="step 3, row 2: the model gave NaN"):
        greedy(Toy(broken), Sequences.of(sources(5)), limits=6)


def test_a_model_in_training_answers_in_evaluation_and_stays_in_training() -> None:
    class Module(nn.Module):
        def start(self, source):  # type: ignore[no-untyped-def]
            return Toy(hashed(9)).start(source)

        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            assert not self.training
            assert not torch.is_grad_enabled()
            return Toy(hashed(9)).step(tokens, state)

    model = Module()
    greedy(model, Sequences.of(sources(3)), limits=4)
    assert model.training


def test_of_overlapping_evaluations_the_last_gives_the_modes_back() -> None:
    """As two threads decode with one model: the first to end must not switch dropout on for the other."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    model[1].eval()
    inside, go_on = Event(), Event()

    def second() -> list[bool]:
        with evaluating(model):
            inside.set()
            go_on.wait(60)
            return [part.training for part in model.modules()]

    with ThreadPoolExecutor(1) as pool:
        with evaluating(model):
            found = pool.submit(second)
            inside.wait(60)
        go_on.set()
        assert found.result() == [False, False, False]
    assert [part.training for part in model.modules()] == [True, True, False]


def test_one_limit_is_everyones() -> None:
    assert per_row(5, 3) == [5, 5, 5]
    assert per_row(torch.tensor([2, 7]), 2) == [2, 7]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (0, "a limit of 0 tokens"),
        (torch.tensor([3, -1]), "a limit of -1 tokens"),
        (torch.tensor([3, 4, 5]), r"shape \[3\] for 2 rows"),
        (torch.tensor([1.5, 2.0]), "float32"),
        (2.5, "limits=2.5: give a whole number"),
    ],
)
def test_a_limit_that_is_none_is_refused(limits: object, told: str) -> None:
    with pytest.raises(RegardError, match=told):
        per_row(limits, 2)  # type: ignore[arg-type]


def modes(model: nn.Module) -> list[bool]:
    return [part.training for part in model.modules()]


def test_every_modules_own_mode_comes_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))
    model[1].eval()
    before = modes(model)
    with evaluating(model):
        assert not any(modes(model))
        assert not torch.is_grad_enabled()
        with evaluating(model):
            assert not any(modes(model))
        assert not any(modes(model))
        assert not torch.is_grad_enabled()
    assert modes(model) == before
    assert torch.is_grad_enabled()


def test_the_mode_comes_back_after_an_error() -> None:
    model = nn.Dropout()

    def fail() -> None:
        with evaluating(model):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert model.training
    assert torch.is_grad_enabled()


def test_what_is_no_module_is_left_alone() -> None:
    with evaluating(object()):
        assert not torch.is_grad_enabled()
