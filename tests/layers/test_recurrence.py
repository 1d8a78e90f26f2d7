"""Recurrence against the equations of its cells, and over padded sequences."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard import RegardError
from regard.layers.recurrence import Recurrence

CELLS = ["rnn", "gru", "lstm"]


def written(recurrence: Recurrence, x: Tensor, state: Tensor, layer: int = 0, way: str = "") -> Tensor:
    """One step of a layer, [b, parts, width], as the papers write it (biases on both products, as torch has them)."""
    names = (f"{name}_l{layer}{way}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    w, u, b, c = (getattr(recurrence.stack, name) for name in names)
    h = state[:, 0]
    new, old = x @ w.T + b, h @ u.T + c
    if recurrence.cell == "rnn":
        return torch.tanh(new + old)[:, None]
    if recurrence.cell == "gru":
        (r1, z1, n1), (r2, z2, n2) = new.chunk(3, -1), old.chunk(3, -1)
        z = torch.sigmoid(z1 + z2)
        return ((1 - z) * torch.tanh(n1 + torch.sigmoid(r1 + r2) * n2) + z * h)[:, None]
    i, f, g, o = (new + old).chunk(4, -1)
    memory = torch.sigmoid(f) * state[:, 1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.stack([torch.sigmoid(o) * torch.tanh(memory), memory], 1)


@pytest.mark.parametrize("cell", CELLS)
def test_a_step_is_the_equation(cell: Any) -> None:
    recurrence = Recurrence(5, 7, cell=cell, depth=2).double()
    x, state = torch.randn(3, 5).double(), torch.randn(3, 2, recurrence.parts, 7).double()
    first = written(recurrence, x, state[:, 0])
    expected = torch.stack([first, written(recurrence, first[:, 0], state[:, 1], 1)], 1)
    torch.testing.assert_close(recurrence.step(x, state), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_the_whole(cell: Any) -> None:
    recurrence = Recurrence(5, 7, cell=cell, depth=3).double()
    x, state = torch.randn(3, 4, 5).double(), torch.randn(3, 3, recurrence.parts, 7).double()
    states, last = recurrence(x, state)
    for t in range(4):
        state = recurrence.step(x[:, t], state)
        torch.testing.assert_close(state[:, -1, 0], states[:, t], rtol=0, atol=1e-12)
    torch.testing.assert_close(state, last, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_both_ways_are_two_readings_side_by_side(cell: Any) -> None:
    recurrence = Recurrence(5, 6, cell=cell, both_ways=True).double()
    x, n = torch.randn(2, 4, 5).double(), torch.tensor([4, 3])
    states, last = recurrence.read(x, n)
    for row, length in enumerate(n.tolist()):
        forth = back = torch.zeros(1, recurrence.parts, 3).double()
        for t in range(length):
            forth = written(recurrence, x[row, t][None], forth)
            torch.testing.assert_close(states[row, t, :3], forth[0, 0], rtol=0, atol=1e-12)
        for t in reversed(range(length)):
            back = written(recurrence, x[row, t][None], back, way="_reverse")
            torch.testing.assert_close(states[row, t, 3:], back[0, 0], rtol=0, atol=1e-12)
        torch.testing.assert_close(last[row, 0], torch.cat([forth, back], -1)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_the_last_state_of_the_top_layer_is_what_it_says_at_the_ends(cell: Any) -> None:
    recurrence, n = Recurrence(5, 6, cell=cell, depth=3, both_ways=True), torch.tensor([4, 2])
    states, last = recurrence.read(torch.randn(2, 4, 5), n)
    assert last.shape == (2, 3, recurrence.parts, 6)
    assert torch.equal(last[:, -1, 0, :3], states[torch.arange(2), n - 1, :3])
    assert torch.equal(last[:, -1, 0, 3:], states[:, 0, 3:])


@pytest.mark.parametrize("both_ways", [True, False])
def test_padding_cannot_matter(both_ways: bool) -> None:
    recurrence, n = Recurrence(5, 6, depth=2, both_ways=both_ways), torch.tensor([4, 1, 7])
    x = torch.randn(3, 7, 5)
    padding = torch.arange(7) >= n[:, None]
    found = []
    for filling in (0.0, float("nan")):
        filled = torch.where(padding[..., None], filling, x).requires_grad_()
        states, last = recurrence.read(filled, n)
        grads = torch.autograd.grad(
            states.square().sum() + last.square().sum(), [filled, *recurrence.parameters()]
        )
        assert (states[padding] == 0).all()
        found.append([states, last, *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_there_is_dropout_between_layers_and_only_in_training() -> None:
    recurrence, x = Recurrence(5, 7, depth=2, dropout=0.5), torch.randn(3, 5)
    state = torch.randn(3, 2, 2, 7)
    one, other = recurrence.step(x, state), recurrence.step(x, state)
    assert torch.equal(one[:, 0], other[:, 0])
    assert not torch.equal(one[:, 1], other[:, 1])
    recurrence.eval()
    assert torch.equal(recurrence.step(x, state), recurrence.step(x, state))


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="width=7"):
        Recurrence(5, 7, both_ways=True)
    with pytest.raises(RegardError, match=r"lengths \[2, 0\]"):
        Recurrence(5, 6).read(torch.zeros(2, 2, 5), torch.tensor([2, 0]))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_reading_cell_by_cell_is_reading_at_once(cell: Any, both_ways: bool, depth: int) -> None:
    recurrence = Recurrence(5, 6, cell=cell, depth=depth, both_ways=both_ways).double()
    x, n = torch.randn(4, 5, 5).double(), torch.tensor([5, 3, 1, 4])
    states, last = recurrence.read(x, n)
    spoilt = torch.where(torch.arange(5)[None, :, None] < n[:, None, None], x, torch.nan)
    empty = torch.full((1, 5, 5), torch.nan).double()
    slowly, end = recurrence.read_on(torch.cat([spoilt, empty]), torch.cat([n, torch.tensor([0])]))
    torch.testing.assert_close(slowly[:4], states, rtol=0, atol=1e-12)
    torch.testing.assert_close(end[:4], last, rtol=0, atol=1e-12)
    assert not slowly[4].any()
    assert not end[4].any()
    found = torch.autograd.grad(slowly.square().sum() + end.sum(), list(recurrence.parameters()))
    right = torch.autograd.grad(states.square().sum() + last.sum(), list(recurrence.parameters()))
    for mine, other in zip(found, right, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)
