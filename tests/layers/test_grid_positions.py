"""Positions of patches: the row beside the column, a learned surface, and turns by both."""

import math

import pytest
import torch

from regard import RegardError
from regard.layers.embedding import Learned, Sinusoidal
from regard.layers.grid_positions import Grid, GridRotary, LearnedGrid
from regard.layers.rotary import Rotary


def test_a_grid_is_a_row_beside_a_column() -> None:
    grid = Grid(Sinusoidal(4), Learned(2, count=9))
    vectors = grid(3, 5)
    assert vectors.shape == (15, 6)
    for r, c in [(0, 0), (1, 4), (2, 3)]:
        expected = torch.cat([Sinusoidal(4)(torch.tensor(r)), grid.columns(torch.tensor(c))])
        assert torch.equal(vectors[r * 5 + c], expected)
    assert torch.equal(grid.add(torch.zeros(2, 15, 6), rows=3, columns=5)[1], vectors)
    with pytest.raises(RegardError, match="3 × 5 grid of width 6"):
        grid.add(torch.zeros(2, 14, 6), rows=3, columns=5)


def test_a_learned_grid_is_a_table_where_it_was_learned() -> None:
    grid = LearnedGrid(7, rows=3, columns=5)
    assert torch.equal(grid(3, 5)[1 * 5 + 4], grid.table[1, 4])
    assert torch.equal(grid.add(torch.zeros(2, 15, 7), rows=3, columns=5)[1], grid(3, 5))
    with pytest.raises(RegardError, match="3 × 5 grid of width 7"):
        grid.add(torch.zeros(2, 14, 7), rows=3, columns=5)
    with pytest.raises(RegardError, match="rows=0"):
        LearnedGrid(7, rows=0, columns=5)


def test_a_grid_may_be_beside_the_patches() -> None:
    patches = torch.randn(2, 15, 5)
    for grid in (Grid(Sinusoidal(4), Sinusoidal(3)), LearnedGrid(7, rows=3, columns=5)):
        found = grid.concatenate(patches, rows=3, columns=5)
        assert found.shape == (2, 15, 12)
        assert torch.equal(found[..., :5], patches)
        assert torch.equal(found[1, :, 5:], grid(3, 5))
        with pytest.raises(RegardError, match="3 × 5 grid cannot be beside 14 patches"):
            grid.concatenate(patches[:, :14], rows=3, columns=5)


def cubic(places: int, learned: int) -> torch.Tensor:
    """[places, learned]: how much of each learned row a new row takes (Keys 1981 with a = −3/4, edges repeated)."""

    def kernel(x: float, a: float = -0.75) -> float:
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a

    shares = torch.zeros(places, learned).double()
    for row in range(places):
        at = (row + 0.5) * learned / places - 0.5
        for neighbour in range(math.floor(at) - 1, math.floor(at) + 3):
            shares[row, min(max(neighbour, 0), learned - 1)] += kernel(abs(at - neighbour))
    return shares


@pytest.mark.parametrize("size", [(5, 7), (6, 14), (2, 3), (3, 4)])
def test_a_learned_grid_is_interpolated_by_cubics(size: tuple[int, int]) -> None:
    grid = LearnedGrid(2, rows=3, columns=5).double()
    expected = torch.einsum("Rr,Cc,rcd->RCd", cubic(size[0], 3), cubic(size[1], 5), grid.table)
    torch.testing.assert_close(grid(*size), expected.flatten(0, 1), rtol=0, atol=1e-12)


def test_a_grid_turns_half_by_the_row_and_half_by_the_column() -> None:
    x = torch.randn(2, 1 + 15, 8).double()
    turned = GridRotary(8, columns=5, leading=1)(x)
    assert torch.equal(turned[:, 0], x[:, 0])
    for patch in range(15):
        row, column = divmod(patch, 5)
        by_row = Rotary(4, base=100.0)(x[:, 1 + patch : 2 + patch, :4], offset=row)
        by_column = Rotary(4, base=100.0)(x[:, 1 + patch : 2 + patch, 4:], offset=column)
        expected = torch.cat([by_row, by_column], -1)[:, 0]
        torch.testing.assert_close(turned[:, 1 + patch], expected, rtol=0, atol=1e-12)


def test_scores_on_a_grid_depend_on_the_steps_between_two_patches() -> None:
    rotary = GridRotary(8, columns=7)
    q, k = torch.randn(8).double(), torch.randn(8).double()
    scores = rotary(q.expand(35, 8)) @ rotary(k.expand(35, 8)).T
    steps = [scores[7 * r + c, 7 * (r + 2) + c - 1] for r in (0, 1, 2) for c in (1, 4, 6)]
    torch.testing.assert_close(torch.stack(steps), steps[0].expand(9), rtol=0, atol=1e-12)
    assert abs(scores[0, 8] - scores[0, 16]) > 1e-3


def test_a_grid_may_be_continued_from_an_offset() -> None:
    rotary, x = GridRotary(8, columns=3, leading=2), torch.randn(11, 8)
    assert torch.equal(rotary(x)[4:], rotary(x[4:], offset=4))
