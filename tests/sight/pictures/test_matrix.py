import numpy as np
import pytest
import torch

from regard import RegardError
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import Box, Label


def test_every_number_is_written_in_its_cell():
    scene = matrix(torch.tensor([[1.0, -0.25], [-0.004, 2.0]]), rows=["a", "b"], columns=["x", "y"]).scene()
    texts = [mark.text for mark in scene.marks if isinstance(mark, Label)]
    assert texts == ["x", "y", "a", "1.00", "−0.25", "b", "0.00", "2.00"]


def test_signs_have_hues_and_amounts_depths():
    scene = matrix([[2.0, 1.0, 0.0, -2.0]]).scene()
    most, half, none, below = (np.array(mark.fill) for mark in scene.marks if isinstance(mark, Box))
    assert most[2] > most[0]  # blue
    assert below[0] > below[2]  # orange
    assert (none == 255).all()
    np.testing.assert_allclose(half, (most + none) / 2, atol=1)


def test_marked_cells_are_outlined():
    scene = matrix([[1.0, 2.0]], marked=np.array([[False, True]])).scene()
    cells = [mark for mark in scene.marks if isinstance(mark, Box) and mark.fill]
    (outline,) = [mark for mark in scene.marks if isinstance(mark, Box) and mark.edge]
    assert outline.x == cells[1].x


@pytest.mark.parametrize("values", [[], [[]], [1.0], [[float("nan")]], np.ones((65, 2)), np.ones((2, 65))])
def test_what_is_no_readable_matrix_is_refused(values):
    with pytest.raises(RegardError, match="give finite numbers"):
        matrix(values)


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(RegardError, match="1 rows and 2 columns"):
        matrix([[1.0, 2.0], [3.0, 4.0]], rows=["a"])
