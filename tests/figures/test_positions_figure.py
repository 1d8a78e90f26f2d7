"""Dot products of positions, each way against its formula by hand."""

import json

import numpy as np
import pytest
import torch

import regard
from regard import RegardError
from regard.figures.position_vectors import fourier_series, largest_error, trained_table
from regard.layers import Sinusoidal

COUNT, WIDTH, DECAY = 11, 14, 0.07


@pytest.fixture(scope="module")
def found():
    return regard.figures.positions(seed=3, count=COUNT, width=WIDTH, decay=DECAY)


def test_each_product_is_the_one_of_its_formula(found):
    products = {name: np.array(each) for name, each in found.numbers["products"].items()}
    i, j = np.mgrid[:COUNT, :COUNT]
    words = torch.randn(
        2 * COUNT, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    ).numpy()
    frequencies = 10000.0 ** (-2 * np.arange(WIDTH // 2) / WIDTH)
    expected = {
        "[i]": i * j,
        "i / n": i * j / COUNT**2,
        "x + i": sum((words[i, f] + i) * (words[j, f] + j) for f in range(WIDTH)),
        "sinusoidal": sum(np.cos((i - j) * frequency) for frequency in frequencies),
    }
    for name, each in expected.items():
        np.testing.assert_allclose(products[name], each, atol=1e-4)
    np.testing.assert_allclose(products["Gaussian"], np.exp(-DECAY * (i - j) ** 2), atol=1e-3)
    for name in ("sinusoidal", "Gaussian", "rotary"):  # of i − j alone
        np.testing.assert_allclose(products[name][1:, 1:], products[name][:-1, :-1], atol=2e-4)
    np.testing.assert_allclose(products["x + i"].T, products["x + i"])


def test_what_the_naive_ways_fail_and_the_others_pass(found):
    checks = found.numbers["checks"]
    assert checks["[i]"]["self largest"] == pytest.approx(1 / COUNT, abs=1e-4)  # the last alone
    assert checks["[i]"]["near > far"] == 0.5  # to the left, never to the right
    assert checks["[i]"]["same at any i"] == 0  # 0·1 against 9·10
    assert checks["i / n"]["same at any n"] == 0.25
    for name in ("sinusoidal", "Gaussian"):
        assert list(checks[name].values()) == pytest.approx([1, 1, 1, 1], abs=1e-3)
    assert checks["untrained table"]["self largest"] == 1
    assert checks["untrained table"]["near > far"] < 0.8 < checks["trained table"]["near > far"]


def test_the_last_position_takes_nearly_all_weight_of_counted_positions(found):
    powers = np.exp(5.0 * np.arange(COUNT))  # [5]·[j]
    share = found.numbers["weight of the last position under softmax of [i]·[j], from the middle"]
    assert share == pytest.approx(powers[-1] / powers.sum(), abs=1e-6)
    assert f"{share:.2%}" in found.see[0]


def test_the_parts_of_a_score_are_those_of_added_and_of_appended_positions(found):
    terms = found.numbers["standard deviation of the parts of a score"]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2 * COUNT, WIDTH, generator=generator, dtype=torch.float64)[:COUNT]
    p = Sinusoidal(WIDTH)(torch.arange(COUNT)).double()
    added, appended = Sinusoidal(WIDTH).add(x), Sinusoidal(WIDTH).concatenate(x)
    torch.testing.assert_close(appended @ appended.T, x @ x.T + p @ p.T)
    torch.testing.assert_close(added @ added.T, x @ x.T + p @ p.T + x @ p.T + p @ x.T)
    assert terms["waves appended"]["x_i·p_j"] == terms["waves appended"]["p_i·x_j"] == 0
    for name in ("waves added", "waves appended"):
        assert terms[name]["p_i·p_j"] == pytest.approx(np.std((p @ p.T).numpy()), abs=1e-3)
        assert terms[name]["x_i·x_j"] == pytest.approx(np.std((x @ x.T).numpy()), abs=1e-3)
    assert terms["waves added"]["x_i·p_j"] == pytest.approx(np.std((x @ p.T).numpy()), abs=1e-3)


def test_the_series_has_the_fourier_coefficients_of_the_repeated_gaussian():
    half = (COUNT - 1 + np.sqrt(14 / DECAY)) / 2
    t = np.linspace(-half, half, 20001)
    bell = sum(np.exp(-DECAY * (t + 2 * half * times) ** 2) for times in range(-3, 4))
    at = np.arange(COUNT)
    by_hand = np.full(COUNT, np.trapezoid(bell, t) / (2 * half))
    for k in range(1, 5):
        size = np.trapezoid(bell * np.cos(np.pi * k * t / half), t) / half
        by_hand += size * np.cos(np.pi * k * at / half)
    vectors = fourier_series(5, COUNT, DECAY)(torch.arange(COUNT))
    np.testing.assert_allclose((vectors @ vectors[0]).numpy(), by_hand, atol=1e-7)


def test_more_terms_are_nearer_to_the_gaussian_unless_the_series_begins_at_one(found):
    errors = found.numbers["largest error of the Gaussian by terms"]
    whole = list(errors["from k = 0"].values())
    assert whole[:8] == sorted(whole[:8], reverse=True)
    assert whole[-1] < 1e-6
    mean = (np.pi / DECAY) ** 0.5 / (COUNT - 1 + np.sqrt(14 / DECAY))
    assert errors["from k = 1"]["24"] == pytest.approx(mean, rel=1e-3)
    assert errors["Gaussian"]["7"] < errors["Gaussian"]["3"]


def test_a_series_of_one_term_is_off_by_what_it_leaves_out():
    mean = (np.pi / DECAY) ** 0.5 / (COUNT - 1 + np.sqrt(14 / DECAY))
    assert largest_error(fourier_series(1, COUNT, DECAY), COUNT, DECAY) == pytest.approx(1 - mean, rel=1e-3)


def test_a_trained_table_looks_at_both_neighbours():
    generator = torch.Generator().manual_seed(1)
    table = trained_table(torch.randn(COUNT, 8, generator=generator) * 0.02, generator)
    weights = torch.softmax(table @ table.T / 8**0.5, dim=-1)
    for place in range(1, COUNT - 1):
        assert weights[place, place - 1 : place + 2].sum() > 0.8
        assert weights[place, place - 1 : place + 2].min() > 0.2


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(found):
    again, other = (
        regard.figures.positions(seed=seed, count=COUNT, width=WIDTH, decay=DECAY) for seed in (3, 4)
    )
    assert again.numbers == found.numbers
    assert other.numbers["products"]["x + i"] != found.numbers["products"]["x + i"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"count": 7}, "--count 7"),
        ({"count": 65}, "--count 65"),
        ({"width": 5}, "--width 5"),
        ({"width": 0}, "--width 0"),
        ({"decay": 0.0}, "--decay 0.0"),
        ({"decay": float("nan")}, "--decay nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.positions(**wrong)


def test_the_smallest_settings_can_be_drawn_and_the_largest_have_numbers(tmp_path):
    files = regard.figures.positions(count=8, width=2, decay=1.0).write(tmp_path)
    assert "NaN" not in files[2].read_text()
    large = regard.figures.positions(count=64, decay=0.001)
    assert "NaN" not in json.dumps(large.numbers)
