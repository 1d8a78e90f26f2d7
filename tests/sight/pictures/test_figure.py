import sys

import matplotlib as mpl
import numpy as np
import pytest
import torch

from regard import Call, RegardError, heatmap
from regard.sight.layer import Layer
from regard.sight.pictures.alignment_map import alignment_map
from regard.sight.pictures.atlas import atlas
from regard.sight.pictures.figure import plot
from regard.sight.pictures.word_lines import lines
from regard.sight.seen import Seen

mpl.use("agg")
from matplotlib import pyplot as plt

WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_heat_map_has_its_weights_and_tokens():
    figure = plot(heatmap(WEIGHTS, ["a", "b"], ["c", "$d$", "e"], title="T"))
    axes = figure.axes[0]
    assert np.array_equal(axes.images[0].get_array(), WEIGHTS)
    assert labels(axes.yaxis) == ["a", "b"]
    assert labels(axes.xaxis) == ["c", r"\$d\$", "e"]
    figure.canvas.draw()


def test_an_alignment_has_its_links():
    figure = plot(alignment_map(WEIGHTS, ["a", "b"], ["c", "d", "e"], sure=[(0, 1)], possible=[(1, 1)]))
    dots = [line.get_xydata().tolist() for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert sorted(dots) == [[[0.0, 0.0]], [[2.0, 1.0]]]
    assert len(figure.axes[0].lines) == 4


def test_an_atlas_has_a_pair_of_axes_for_each_head():
    figure = plot(atlas([np.ones((2, 3, 3)), np.ones((1, 3, 3))], numbers=[[1, 2], [3]]))
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 0]
    assert [axes.get_xlabel() for axes in figure.axes] == ["1", "2", "3", ""]


def test_what_was_seen_is_plotted_as_an_atlas():
    layer = Layer.of("x", Call(*torch.randn(2, 1, 3, 5, 4)))
    assert len(plot(Seen([layer])).axes) == len(plot(layer).axes) == 3


def test_what_has_no_figure_is_refused(as_a_user):
    with pytest.raises(RegardError, match="Lines"):
        plot(lines(WEIGHTS, ["a", "b"], ["c", "d", "e"]))


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[plot\]'"):
        plot(heatmap(WEIGHTS, ["a", "b"], ["c", "d", "e"]))
