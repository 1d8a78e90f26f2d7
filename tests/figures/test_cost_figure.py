"""The figure of costs: every layer at every length, and parameters that are those of the formulas."""

import pytest
import torch

import regard
from regard import RegardError
from regard.bench.lecture_layers import lecture_kinds

NAMES = [kind.name for kind in lecture_kinds()]


@pytest.fixture(scope="module")
def found():
    return regard.figures.cost(width=16, longest=128, rounds=2)


def test_parameters_are_those_of_the_lecture_by_hand(found):
    d, length = 16, 128
    expected = {
        "attention, d_k = d": 3 * d * d,
        "attention, d_k = d + output": 4 * d * d,
        "attention, d_k = d/8": 2 * d * 2 + d * d,
        "attention, d_k = d/8 + output": 2 * d * 2 + 2 * d * d,
        "recurrent": 2 * d * d,
        "convolution, k = 3": 3 * d * d,
        "dense over positions": length * d * d,
    }
    layers = found.numbers["layers"]
    assert {name: layer["parameters, counted"] for name, layer in layers.items()} == expected
    assert {name: layer["parameters, by formula"] for name, layer in layers.items()} == expected


def test_every_layer_is_measured_at_every_length(found):
    assert found.numbers["lengths"] == [32, 64, 128]
    costs = found.numbers["costs"]
    assert [(cost["layer"], cost["length"]) for cost in costs] == [
        (n, at) for n in NAMES for at in (32, 64, 128)
    ]
    assert all(cost["milliseconds"] > 0 and cost["megabytes"] > 0 for cost in costs)


def test_the_numbers_are_written_into_the_picture(found, tmp_path):
    files = found.write(tmp_path)
    drawn = files[1].read_text()
    for part in ("dense over positions", "L·d·d_v", f"{128 * 256:,}", "d_k = d/8"):
        assert part in drawn
    assert "1.25·d² for d_k = d/8, but 3·d²" in found.see[2]


def test_progress_is_reported_and_the_global_generator_is_left_alone():
    lines = []
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    regard.figures.cost(width=8, longest=32, rounds=1, progress=lines.append)
    assert torch.rand(1) == expected
    assert lines == ["7 layers at 1 lengths, 1 rounds …"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"width": 12}, "--width 12"),
        ({"width": 0}, "--width 0"),
        ({"longest": 31}, "--longest 31"),
        ({"longest": 5000}, "--longest 5000"),
        ({"rounds": 0}, "--rounds 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.cost(**wrong)
