from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from regard.sight.pictures.heatmap import heatmap
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import PictureGrid

LEFT = matrix([[1.0, 2.0], [3.0, 4.0]], title="left", rows=["a", "b"], digits=0)
RIGHT = matrix([[5.0], [6.0]], title="right", digits=0)


def printed(picture, width):
    output = StringIO()
    Console(file=output, width=width).print(picture.terminal())
    return [line.split() for line in output.getvalue().splitlines()]


def test_pictures_of_a_row_are_beside_one_another_where_they_fit():
    assert printed(PictureGrid(rows=[[LEFT, RIGHT]]), 40) == [
        ["left", "right"],
        ["a", "1", "2", "5"],
        ["b", "3", "4", "6"],
    ]


def test_pictures_of_a_row_follow_one_another_where_they_do_not_fit():
    assert printed(PictureGrid(rows=[[LEFT, RIGHT]]), 12) == [
        ["left"],
        ["a", "1", "2"],
        ["b", "3", "4"],
        ["right"],
        ["5"],
        ["6"],
    ]


@pytest.mark.parametrize("width", [40, 80])
def test_the_scale_of_a_narrow_map_is_not_cut_off(width):
    small = heatmap([[0.25]], ["q"], ["k"], allowed=np.array([[False]]))
    lines = printed(PictureGrid(rows=[[small, small]]), width)
    assert sum(" ".join(line).count("may not look") for line in lines) == 2
