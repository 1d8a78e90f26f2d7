"""A step of beam search in two kernels, against the same in tensors: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch import Tensor

from regard.data.batches import END, PAD, START
from regard.decoding import steady_beam
from regard.decoding.steady_beam import SteadyBeam

pytestmark = pytest.mark.triton

SENTENCES, ROOM = 5, 6


class Told:
    """Gives logits that were made beforehand, whatever the texts."""

    def __init__(self, logits: list[Tensor]) -> None:
        self.logits, self.at, self.came = logits, torch.tensor([0]), []

    def step(self, tokens: Tensor) -> Tensor:
        return self.logits[int(self.at)].clone()

    def take(self, state: object) -> None:
        """Nothing to take."""

    def go_on(self, parents: Tensor) -> None:
        self.came.append(parents.clone())
        self.at += 1


def beams(logits: list[Tensor], most: Tensor, *, size: int, count: int, penalty: float) -> SteadyBeam:
    found = SteadyBeam(Told(logits), most, size=size, count=count, penalty=penalty, room=ROOM)
    found.begin()
    return found


def state(steady: SteadyBeam) -> dict[str, Tensor]:
    return {name: part for name, part in vars(steady).items() if isinstance(part, Tensor)}


@pytest.mark.parametrize("penalty", [0.6, 0.0, -0.5])
@pytest.mark.parametrize(("size", "count", "words"), [(1, 1, 29), (2, 1, 29), (4, 4, 29), (5, 3, 4200)])
def test_a_step_is_that_of_tensors(
    size: int, count: int, words: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(words + size)
    logits = [3 * torch.randn(SENTENCES * size, words) for _ in range(ROOM)]
    for each in logits:
        each[:, END] += 4  # so that texts end
        each[:, PAD], each[:, START] = 9, 8  # never chosen, and yet counted
    most = torch.tensor([ROOM, ROOM, 2, ROOM, 4])
    plain, quick = (beams(logits, most, size=size, count=count, penalty=penalty) for _ in range(2))
    for _ in range(ROOM):
        with monkeypatch.context() as patch:
            patch.setattr(steady_beam, "fits_a_kernel", lambda _: False)
            plain.step()
            patch.setattr(steady_beam, "fits_a_kernel", lambda _: True)
            quick.step()
        for (name, wanted), found in zip(state(plain).items(), state(quick).values(), strict=True):
            known = wanted > -torch.inf
            if name == "_kept_ends":  # of what is not kept, anything
                known = plain._kept_scores > -torch.inf
            elif name in ("_parents", "_written", "_notes"):
                continue  # read below, where they are of texts
            assert torch.equal(found > -torch.inf, wanted > -torch.inf), name
            torch.testing.assert_close(found[known], wanted[known], rtol=1e-5, atol=1e-5, msg=name)
    assert plain.over.any()
    for mine, other in zip(quick.found(), plain.found(), strict=True):
        assert [(one.tokens, one.rows, one.finished) for one in mine] == [
            (one.tokens, one.rows, one.finished) for one in other
        ]


def test_of_equals_the_first_text_and_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_beam, "fits_a_kernel", lambda _: True)
    logits = torch.zeros(SENTENCES * 3, 29)
    logits[:, [7, 11, 5, 20]] = 4.0
    steady = beams([logits, logits], torch.full((SENTENCES,), ROOM), size=3, count=1, penalty=0.0)
    steady.step()
    assert steady.tokens.tolist() == [5, 7, 11] * SENTENCES
    steady.step()
    assert steady.tokens.tolist() == [5, 7, 11] * SENTENCES
    assert steady.standing.came[1].tolist() == [[0, 0, 0]] * SENTENCES


def only(*tokens: int, rows: int = SENTENCES * 2) -> Tensor:
    """Logits that leave these tokens alone, all alike."""
    return torch.full((rows, 29), -torch.inf).index_fill(1, torch.tensor(tokens), 0.0)


def test_a_sentence_whose_texts_have_all_ended_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_beam, "fits_a_kernel", lambda _: True)
    steady = beams([only(END)], torch.full((SENTENCES,), ROOM), size=2, count=2, penalty=0.6)
    steady.step()
    assert steady.over.all()
    assert [[one.tokens for one in some] for some in steady.found()] == [[[]]] * SENTENCES


def test_of_texts_that_are_equally_likely_both_are_kept_the_earlier_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steady_beam, "fits_a_kernel", lambda _: True)
    steady = beams([only(END, 7), only(END)], torch.full((SENTENCES,), ROOM), size=2, count=2, penalty=0.0)
    steady.step()
    steady.step()
    found = steady.found()
    assert [[one.tokens for one in some] for some in found] == [[[], [7]]] * SENTENCES
    assert found[0][0].logprob == found[0][1].logprob


@pytest.mark.parametrize("size", [1, 2])
def test_nan_is_told(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_beam, "fits_a_kernel", lambda _: True)
    logits = torch.randn(SENTENCES * size, 29)
    logits[2 * size] = torch.nan
    steady = beams([logits], torch.full((SENTENCES,), ROOM), size=size, count=1, penalty=0.6)
    steady.step()
    firsts = steady._tops[0, ::size].isfinite().tolist()
    assert firsts == [True, True, False, True, True]
    assert ((steady.standing.came[0] >= 0) & (steady.standing.came[0] < size)).all()
