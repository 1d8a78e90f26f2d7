"""Tiles equal the blocks of weights written out in float64, at every level and however they are computed."""

from dataclasses import replace

import pytest
import torch
from sight.explorer.written import cells, hidden_to_allowed, weights
from torch import Tensor

from regard.attention.biases import ALiBi, TensorBias
from regard.attention.call import Call
from regard.attention.masks import Mask, causal, keep, lengths, window
from regard.errors import RegardError
from regard.sight.explorer import full_map as full_map_module
from regard.sight.explorer import tiles
from regard.sight.explorer.full_map import full_map, kept_level
from regard.sight.explorer.tiles import Place, sample, sampled_tile, tile
from regard.sight.selection import part

MASKS = {
    "none": None,
    "causal": causal(),
    "window": causal() & window(40),
    "padded": lengths(torch.tensor([531])),
    "some": keep(torch.rand(1, 563, 563, generator=torch.Generator().manual_seed(1)) < 0.3),
}


def call_of(mask: Mask | None, queries: int = 563, keys: int = 563) -> Call:
    return Call(torch.randn(1, 1, queries, 8), torch.randn(1, 1, keys, 8), mask)


def expected(call: Call, place: Place) -> tuple[Tensor, Tensor]:
    mass, peak = cells(weights(call)[0, 0], place.down, place.across)
    cut = (slice(place.row * 256, place.row * 256 + 256), slice(place.column * 256, place.column * 256 + 256))
    return mass[cut], peak[cut]


PLACES = [
    Place(down=0, across=0, row=0, column=1),
    Place(down=0, across=0, row=2, column=2),
    Place(down=1, across=1, row=1, column=0),
    Place(down=3, across=3, row=0, column=0),
    Place(down=0, across=3, row=1, column=0),
    Place(down=2, across=0, row=0, column=1),
    Place(down=10, across=10, row=0, column=0),
]


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_tile_is_the_blocks_of_the_weights(mask: Mask | None, place: Place) -> None:
    call = call_of(mask)
    mass, peak = expected(call, place)
    for known in (None, full_map(call)):
        found = tile(call, place, known)
        assert found.sampled is None
        torch.testing.assert_close(found.mass.nan_to_num().double(), mass, rtol=0, atol=3e-6)
        torch.testing.assert_close(found.peak.nan_to_num().double(), peak, rtol=0, atol=3e-6)


@pytest.mark.parametrize("level", [1, 2, 4])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_full_map_kept_coarsely_gives_the_same_tiles(
    mask: Mask | None, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(mask)
    monkeypatch.setattr(full_map_module, "CELLS", (563 >> level) ** 2 + 2 * (563 >> level) + 1)
    assert kept_level(563, 563) == level
    known = full_map(call)
    for place in PLACES:  # those below the level from their own keys, under the log-sum-exp of all
        mass, peak = expected(call, place)
        found = tile(call, place, known)
        torch.testing.assert_close(found.mass.nan_to_num().double(), mass, rtol=0, atol=3e-6)
        torch.testing.assert_close(found.peak.nan_to_num().double(), peak, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", ["causal", "window", "padded", "some"])
def test_single_pairs_that_may_not_look_are_hidden_and_no_others(name: str) -> None:
    call = call_of(MASKS[name])
    for row, column in ((0, 0), (1, 0), (0, 2), (2, 2)):
        found = tile(call, Place(down=0, across=0, row=row, column=column), None)
        cut = (slice(row * 256, row * 256 + 256), slice(column * 256, column * 256 + 256))
        assert torch.equal(found.mass.isnan(), ~hidden_to_allowed(call)[0, 0][cut])


def test_a_block_is_hidden_only_when_all_of_it_is() -> None:
    call = call_of(causal(), 512, 512)
    found = tile(call, Place(down=1, across=1, row=0, column=0), None)
    row, column = torch.arange(256)[:, None], torch.arange(256)
    assert torch.equal(found.mass.isnan(), column > row)


def test_a_bias_of_minus_infinity_hides_too() -> None:
    bias = torch.zeros(6, 9)
    bias[2, 4] = -torch.inf
    call = Call(torch.randn(1, 1, 6, 8), torch.randn(1, 1, 9, 8), bias=TensorBias(bias))
    found = tile(call, Place(down=0, across=0, row=0, column=0), None)
    assert found.mass.isnan().nonzero().tolist() == [[2, 4]]


def test_an_even_weight_of_zero_is_not_hidden() -> None:
    query = torch.tensor([[[[200.0, 0.0]]]])
    key = torch.tensor([[[[1.0, 0.0], [-1.0, 0.0]]]])
    found = tile(Call(query, key), Place(down=0, across=0, row=0, column=0), None)
    assert found.mass.tolist() == [[1.0, 0.0]]


def test_rows_of_a_map_sum_to_one_at_every_level() -> None:
    call = call_of(causal() & window(100))
    for level in range(11):
        found = tile(call, Place(down=level, across=10, row=0, column=0), None)
        torch.testing.assert_close(found.mass.sum(-1), torch.ones(len(found.mass)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_sampled_tile_is_exact_for_the_queries_it_looked_at(
    mask: Mask | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = call_of(mask)
    monkeypatch.setattr(tiles, "CHEAP", 2 * 563 * 141)
    found = sampled_tile(call, Place(down=2, across=2, row=0, column=0))
    assert found.sampled is not None
    assert found.sampled is not None
    assert found.sampled < 4
    rows = sample(range(563), 4, found.sampled)
    picked = weights(call)[0, 0][rows]
    mass, peak = cells(picked, 0, 2)
    for band in range(141):
        of_band = rows // 4 == band
        torch.testing.assert_close(
            found.mass[band].nan_to_num().double(), mass[of_band].mean(0), rtol=0, atol=3e-6
        )
        torch.testing.assert_close(
            found.peak[band].nan_to_num().double(), peak[of_band].amax(0), rtol=0, atol=3e-6
        )


def test_samples_are_spread_evenly_and_stay_inside() -> None:
    assert sample(range(0, 10), 4, 1).tolist() == [2, 6, 9]
    assert sample(range(8, 16), 4, 2).tolist() == [9, 11, 13, 15]
    assert sample(range(3), 4, 9).tolist() == [0, 1, 2]


def test_a_bias_that_knows_positions_is_asked_about_the_right_ones() -> None:
    call = Call(torch.randn(1, 4, 30, 8), torch.randn(1, 4, 30, 8), causal(), ALiBi(4))
    apart = torch.arange(30) - torch.arange(30)[:, None]
    slopes = torch.tensor([2.0 ** (-8 * (head + 1) / 4) for head in range(4)]).double()
    scores = call.query.double() @ call.key.double().mT / 8**0.5 - slopes[:, None, None] * apart.abs()
    exact = torch.softmax(scores.masked_fill(apart > 0, -torch.inf), -1)
    from regard.sight.evidence import rectangle

    some = part(call, torch.tensor([3, 17, 29]))
    found = rectangle(some, some.extent.rows, some.extent.columns)
    torch.testing.assert_close(found[0].double(), exact[0][:, [3, 17, 29]], rtol=0, atol=3e-6)


def test_a_tile_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(RegardError, match="row 3 at level 0: there are 563 positions"):
        tile(call_of(None), Place(down=0, across=0, row=3, column=0), None)


def test_a_level_beyond_the_whole_map_is_refused() -> None:
    call = call_of(None, 37, 600)
    assert tile(call, Place(down=6, across=10, row=0, column=0), None).mass.shape == (1, 1)
    for down, across, message in (
        (7, 0, "row at level 7: 37 positions have levels 0 to 6"),
        (0, 11, "0 to 10"),
    ):
        with pytest.raises(RegardError, match=message):
            tile(call, Place(down=down, across=across, row=0, column=0), None)


@pytest.mark.parametrize(
    "place", [Place(down=10, across=0, row=0, column=0), Place(down=10, across=10, row=0, column=0)], ids=str
)
def test_tall_cells_take_no_more_memory_than_the_map(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips of a few queries are not filled up to the height of a cell."""
    made: list[int] = []
    pad = full_map_module.F.pad
    monkeypatch.setattr(
        full_map_module.F, "pad", lambda *given: made.append((found := pad(*given)).numel()) or found
    )
    monkeypatch.setattr("regard.sight.strips.CAPACITY", 1 << 12)
    call = call_of(causal(), 1021, 1021)
    for known in (None, full_map(call)):
        found = tile(call, place, known)
        torch.testing.assert_close(
            found.mass.nan_to_num().double(), expected(call, place)[0], rtol=0, atol=3e-6
        )
    assert max(made, default=0) <= 4 * 1021 * 1021


BROKEN = {"NaN": torch.nan, "+inf": torch.inf, "-inf": -torch.inf}


@pytest.mark.parametrize("where", ["query", "key"])
@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("mask", [None, causal()], ids=["none", "causal"])
@pytest.mark.parametrize("levels", [(0, 0), (1, 1), (3, 0), (0, 3)], ids=str)
def test_what_is_no_number_is_told_from_what_may_not_look(
    mask: Mask | None, value: float, where: str, levels: tuple[int, int]
) -> None:
    """As torch's softmax has it: a row with a score of NaN or +∞ is NaN at every key that may be looked at."""
    call = call_of(mask, 101, 101)
    (call.query if where == "query" else call.key)[0, 0, 61, 3] = value
    scores = (call.query @ call.key.mT)[0, 0].double() / 8**0.5
    open_ = torch.ones(101, 101, dtype=torch.bool) if mask is None else hidden_to_allowed(call)[0, 0]
    exact = torch.softmax(scores.masked_fill(~open_, -torch.inf), -1).masked_fill(~open_, 0.0)
    assert exact.isnan().any()
    down, across = levels
    mass, _ = cells(exact.nan_to_num(0.0), down, across)
    broken = cells(exact.isnan().double(), down, across)[0] > 0
    seen = cells(open_.double(), down, across)[0] > 0
    place = Place(down=down, across=across, row=0, column=0)
    found = [tile(call, place, None), tile(call, place, full_map(call))]
    finer = replace(
        full_map(call), cells=full_map(call).cells.coarser(7, 7)
    )  # which is of no use for this tile
    for one in (*found, tile(call, place, finer)):
        assert torch.equal(one.mass == torch.inf, broken)
        assert torch.equal(one.peak == torch.inf, broken)
        assert torch.equal(one.mass.isnan(), ~seen & (mass == 0) & ~broken)
        torch.testing.assert_close(one.mass[~broken & seen].double(), mass[~broken & seen], rtol=0, atol=3e-6)
