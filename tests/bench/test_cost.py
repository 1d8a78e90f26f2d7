"""What a layer costs: exponents that are known, and everything that is asked for."""

import csv
import io
import json

import numpy as np
import pytest

from regard import RegardError
from regard.bench.cost import fitted, fitting, measure_costs
from regard.bench.cost_record import as_csv, picture, record_of, tables
from regard.bench.layers import choose_kinds
from regard.bench.record import Setting
from regard.sight.pictures.scene import Stroke

LENGTHS = [16, 32, 64, 128, 256]


@pytest.mark.parametrize("exponent", [0.5, 1, 2, 3])
def test_the_exponent_of_a_power_is_found(exponent):
    assert fitted(LENGTHS, [3.7 * n**exponent for n in LENGTHS]) == pytest.approx(exponent)


def test_the_fit_is_that_of_numpy_over_the_long_end_alone():
    values = [9000.0, 8000.0, *(n**2 + 50.0 * n for n in LENGTHS[2:])]  # what is short tells nothing
    slope = np.polyfit(np.log(LENGTHS[2:]), np.log(values[2:]), 1)[0]
    assert fitted(LENGTHS, values) == pytest.approx(slope)
    assert 1 < slope < 2


def test_one_length_has_no_exponent():
    assert fitted([64], [1.0]) is None
    assert fitted([8, 64], [1.0, 2.0]) is None  # the other is no part of the long end


@pytest.fixture(scope="module")
def found():
    return measure_costs(choose_kinds(None), [64, 16, 32, 64], width=8, setting=Setting(rounds=2))


def test_every_layer_is_measured_at_every_length(found):
    assert found.lengths == [16, 32, 64]
    assert [(cost.layer, cost.length) for cost in found.costs] == [
        (kind.name, n) for kind in choose_kinds(None) for n in (16, 32, 64)
    ]
    for cost in found.costs:
        assert cost.spread[0] <= cost.milliseconds <= cost.spread[1]
        assert cost.megabytes > 0


def test_memory_is_what_the_layer_holds(found):
    """The weights of all heads, n² each: what self-attention written out holds beyond the fused form."""
    (written,) = (cost for cost in found.of("written out") if cost.length == 64)
    assert written.megabytes * 2**20 >= 8 * 64 * 64 * 4
    assert next(each for each in found.growths if each.layer == "written out").memory > 1.4
    assert next(each for each in found.growths if each.layer == "feed-forward").memory == pytest.approx(
        1, abs=0.05
    )


def test_gradients_cost_memory_too():
    both = [
        measure_costs(
            choose_kinds(["feed-forward"]), [32], width=8, setting=Setting(rounds=1), backward=backward
        )
        for backward in (False, True)
    ]
    assert both[1].costs[0].megabytes > both[0].costs[0].megabytes


def test_the_tables_show_every_figure(found):
    theory, exponents, milliseconds, megabytes = tables(found)
    assert [row[0] for row in theory.rows] == [kind.name for kind in choose_kinds(None)]
    assert dict(zip(theory.columns, theory.rows[3], strict=True)) == {
        "layer": "recurrent",
        "operations": "n·d²",
        "sequential": "n",
        "longest path": "n",
        "parameters": "8·d² + 8·d",
        "counted": f"{4 * (2 * 64 + 16):,}",
    }
    assert [row[3] for row in exponents.rows] == ["2", "2", "1", "1", "1", "2", "1"]
    for table in (milliseconds, megabytes):
        assert list(table.columns) == ["layer", "16", "32", "64"]
        assert all(len(row) == 4 and all(row) for row in table.rows)


def test_csv_and_json_say_the_same(found):
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    told = json.loads(record_of(found, choose_kinds(None), {"command": "regard cost"}).json())
    assert len(rows) == len(told["costs"]) == 21
    for row, cost in zip(rows, told["costs"], strict=True):
        assert (row["layer"], int(row["length"])) == (cost["layer"], cost["length"])
        assert float(row["milliseconds"]) == pytest.approx(cost["milliseconds"], abs=1e-4)
        assert int(row["operations"]) == cost["operations"]
        assert int(row["parameters"]) == cost["parameters"]


def test_theory_is_drawn_behind_each_layer(found):
    marks = picture(found, choose_kinds(None)).scene().marks
    pale = [
        mark for mark in marks if isinstance(mark, Stroke) and mark.thick == 1.0 and len(mark.places) == 3
    ]
    strong = [mark for mark in marks if isinstance(mark, Stroke) and mark.said]
    assert len(pale) == len(strong) == 2 * 7
    for line in pale:  # through the longest length of a layer
        assert any(line.places[-1] == pytest.approx(other.places[-1]) for other in strong)


def test_what_does_not_fit_is_left_out():
    some = choose_kinds(["written out", "feed-forward"])
    found = measure_costs(some, [4, 16384], width=8, setting=Setting(rounds=1))
    assert [cost.length for cost in found.of("written out")] == [4]
    assert [cost.length for cost in found.of("feed-forward")] == [4, 16384]
    assert tables(found)[2].rows[0][2] == ""


def test_a_layer_whose_weights_would_not_fit_is_left_out():
    found = fitting(choose_kinds(["dense over positions"]), [8, 512, 640], 256)
    assert [n for _, n in found] == [8, 512]  # 4 bytes · 512 · 256² are 128 MB
    with pytest.raises(RegardError, match="150 MB of weights"):
        fitting(choose_kinds(["dense over positions"]), [1024], 256)


@pytest.mark.parametrize(
    ("lengths", "width", "named"),
    [
        ([0], 8, "lengths 0"),
        ([], 8, "lengths none"),
        ([4], 0, "width 0"),
        ([10**9], 8, "at length 1000000000"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(lengths, width, named):
    with pytest.raises(RegardError, match=named):
        measure_costs(choose_kinds(None), lengths, width=width, setting=Setting())
