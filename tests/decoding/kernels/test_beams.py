"""A step of beam search in two kernels, against the same in tensors: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from regard.data.batches import END, PAD, START
from regard.decoding import beam
from regard.decoding.beam import BeamSearch
from regard.decoding.hypothesis import Hypothesis

pytestmark = pytest.mark.triton

SENTENCES, CAPACITY = 5, 6


class Run:
    """A beam search over logits that were made beforehand, whatever the texts."""

    def __init__(self, logits: list[Tensor], most: Tensor, *, size: int, count: int, penalty: float) -> None:
        self.logits, self.at, self.came = logits, torch.tensor([0]), []
        self.search = BeamSearch(
            most.tolist(),
            capacity=CAPACITY,
            device=torch.get_default_device(),
            size=size,
            count=count,
            penalty=penalty,
        )
        self.search.begin(START)

    def step(self) -> None:
        logits = self.logits[int(self.at)].clone()
        self.came.append(self.search.advance(logits, self.at).clone())
        self.at += 1

    def texts(self) -> list[list[Hypothesis]]:
        return self.search.texts(range(SENTENCES))


def state(search: BeamSearch) -> dict[str, Tensor]:
    return {name: part for name, part in vars(search).items() if isinstance(part, Tensor)}


@pytest.mark.parametrize("penalty", [0.6, 0.0, -0.5])
@pytest.mark.parametrize(("size", "count", "words"), [(1, 1, 29), (2, 1, 29), (4, 4, 29), (5, 3, 4200)])
def test_a_step_is_that_of_tensors(
    size: int, count: int, words: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(words + size)
    logits = [3 * torch.randn(SENTENCES * size, words) for _ in range(CAPACITY)]
    for each in logits:
        each[:, END] += 4  # so that texts end
        each[:, PAD], each[:, START] = 9, 8  # never chosen, and yet counted
    most = torch.tensor([CAPACITY, CAPACITY, 2, CAPACITY, 4])
    plain, quick = (Run(logits, most, size=size, count=count, penalty=penalty) for _ in range(2))
    for _ in range(CAPACITY):
        with monkeypatch.context() as patch:
            patch.setattr(beam, "kernel_fits", lambda _: False)
            plain.step()
            patch.setattr(beam, "kernel_fits", lambda _: True)
            quick.step()
        for (name, wanted), found in zip(
            state(plain.search).items(), state(quick.search).values(), strict=True
        ):
            known = wanted > -torch.inf
            if name == "kept_ends":  # of what is not kept, anything
                known = plain.search.kept_scores > -torch.inf
            elif name in ("parents", "written", "_notes"):
                continue  # read below, where they are of texts
            assert torch.equal(found > -torch.inf, wanted > -torch.inf), name
            torch.testing.assert_close(found[known], wanted[known], rtol=1e-5, atol=1e-5, msg=name)
    assert plain.search.over.any()
    for mine, other in zip(quick.texts(), plain.texts(), strict=True):
        assert [(one.tokens, one.rows, one.finished) for one in mine] == [
            (one.tokens, one.rows, one.finished) for one in other
        ]


def test_of_equals_the_first_text_and_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "kernel_fits", lambda _: True)
    logits = torch.zeros(SENTENCES * 3, 29)
    logits[:, [7, 11, 5, 20]] = 4.0
    run = Run([logits, logits], torch.full((SENTENCES,), CAPACITY), size=3, count=1, penalty=0.0)
    run.step()
    assert run.search.tokens.tolist() == [5, 7, 11] * SENTENCES
    run.step()
    assert run.search.tokens.tolist() == [5, 7, 11] * SENTENCES
    assert run.came[1].tolist() == [[0, 0, 0]] * SENTENCES


def only(*tokens: int, rows: int = SENTENCES * 2) -> Tensor:
    """Logits that leave these tokens alone, all alike."""
    return torch.full((rows, 29), -torch.inf).index_fill(1, torch.tensor(tokens), 0.0)


def test_a_sentence_whose_texts_have_all_ended_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "kernel_fits", lambda _: True)
    run = Run([only(END)], torch.full((SENTENCES,), CAPACITY), size=2, count=2, penalty=0.6)
    run.step()
    assert run.search.over.all()
    assert [[one.tokens for one in some] for some in run.texts()] == [[[]]] * SENTENCES


def test_of_texts_that_are_equally_likely_both_are_kept_the_earlier_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beam, "kernel_fits", lambda _: True)
    run = Run([only(END, 7), only(END)], torch.full((SENTENCES,), CAPACITY), size=2, count=2, penalty=0.0)
    run.step()
    run.step()
    found = run.texts()
    assert [[one.tokens for one in some] for some in found] == [[[], [7]]] * SENTENCES
    assert found[0][0].log_probability == found[0][1].log_probability


@pytest.mark.parametrize("size", [1, 2])
def test_nan_is_told(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "kernel_fits", lambda _: True)
    logits = torch.randn(SENTENCES * size, 29)
    logits[2 * size] = torch.nan
    run = Run([logits], torch.full((SENTENCES,), CAPACITY), size=size, count=1, penalty=0.6)
    run.step()
    firsts = run.search.tops[0, ::size].isfinite().tolist()
    assert firsts == [True, True, False, True, True]
    assert ((run.came[0] >= 0) & (run.came[0] < size)).all()
