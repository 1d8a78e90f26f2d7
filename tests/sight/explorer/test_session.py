"""Every answer to the page equals what weights written out in float64 say."""

import numpy as np
import pytest
import torch
from sight.explorer.small import broken_seen, seen_of
from sight.explorer.unpacked import unpack
from sight.explorer.written import cells, weights
from torch import Tensor

from regard.errors import RegardError
from regard.sight.explorer import full_map, tiles
from regard.sight.explorer import session as session_module
from regard.sight.explorer.session import Session
from regard.sight.explorer.tiles import Place, sample
from regard.sight.explorer.watched import example_of

N = 37


@pytest.fixture
def session() -> Session:
    return Session([example_of(seen_of(N, batch=3))])


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (tiles, session_module, full_map):
        monkeypatch.setattr(each, "CHEAP", 300)


def exact(session: Session, layer: int, entry: int) -> Tensor:
    """[heads, q, k]."""
    return weights(session.example(0).panels[layer].layer.intact())[entry]


def close(found: np.ndarray, wanted: Tensor, rtol: float = 1e-3) -> None:
    np.testing.assert_allclose(np.nan_to_num(found), wanted.numpy(), rtol=rtol, atol=1e-6)


def test_a_tile_of_single_tokens_is_the_weights(session: Session) -> None:
    header, arrays = unpack(session.tile(0, 1, 2, [1], Place(down=0, across=0, row=0, column=0), exact=False))
    assert header["approximate"] is False
    close(arrays["mass"], exact(session, 1, 2)[1])
    close(arrays["peak"], exact(session, 1, 2)[1])
    assert np.isnan(arrays["mass"][3, 4])
    assert not np.isnan(arrays["mass"][4, 3])


def test_several_heads_are_averaged_and_the_peak_is_of_any(session: Session) -> None:
    _, arrays = unpack(session.tile(0, 0, 1, [0, 1], Place(down=2, across=2, row=0, column=0), exact=True))
    each = [cells(head, 2, 2) for head in exact(session, 0, 1)]
    close(arrays["mass"], torch.stack([mass for mass, _ in each]).mean(0))
    close(arrays["peak"], torch.stack([peak for _, peak in each]).amax(0))


def test_no_heads_named_are_all_heads(session: Session) -> None:
    place = Place(down=0, across=0, row=0, column=0)
    assert session.tile(0, 0, 0, [], place, exact=True) == session.tile(0, 0, 0, [0, 1], place, exact=True)


def test_margins_are_entropy_and_received_mass(session: Session) -> None:
    _, arrays = unpack(session.margins(0, 0, 2, [1], exact=False))
    w = exact(session, 0, 2)[1]
    close(arrays["entropy"], -torch.xlogy(w, w).sum(-1), rtol=1e-4)
    close(arrays["received"], w.sum(0), rtol=1e-4)


def test_a_row_is_what_one_query_looks_at_in_every_head(session: Session) -> None:
    _, arrays = unpack(session.row(0, 1, 0, 20))
    close(arrays["weights"], exact(session, 1, 0)[:, 20])
    assert np.isnan(arrays["weights"][:, 21:]).all()
    assert not np.isnan(arrays["weights"][:, :21]).any()


def test_a_column_is_who_looks_at_one_key(session: Session) -> None:
    _, arrays = unpack(session.column(0, 1, 0, 20, [0, 1], exact=True))
    close(arrays["weights"], exact(session, 1, 0)[:, :, 20])
    assert np.isnan(arrays["weights"][:, :20]).all()


def test_the_atlas_has_a_map_and_measures_of_every_head(session: Session) -> None:
    header, arrays = unpack(session.atlas(0, 0, 1, 64))
    w = exact(session, 0, 1)
    close(arrays["maps"], w)
    assert np.isnan(arrays["maps"][:, 0, 1:]).all()
    assert not np.isnan(np.diagonal(arrays["maps"], 0, 1, 2)).any()
    assert header["measures"] == ["entropy", "distance", "sink", "previous", "peak"]
    place = torch.arange(N)
    apart = (place[:, None] - place).abs()
    close(arrays["entropy"], -torch.xlogy(w, w).sum(-1).mean(-1), rtol=1e-4)
    close(arrays["distance"], (w * apart).sum(-1).mean(-1), rtol=1e-4)
    close(arrays["sink"], w[:, :, 0].mean(-1), rtol=1e-4)
    close(arrays["previous"], w.diagonal(-1, 1, 2).sum(-1) / N, rtol=1e-4)
    close(arrays["peak"], w.amax(-1).mean(-1), rtol=1e-4)


@pytest.mark.usefixtures("costly")
def test_what_is_costly_is_first_answered_from_some_queries(session: Session) -> None:
    place = Place(down=3, across=3, row=0, column=0)
    first, quick = unpack(session.tile(0, 0, 0, [0], place, exact=False))
    assert first["approximate"] is True
    assert first["sampled"] >= 1
    w = exact(session, 0, 0)[0]
    rows = sample(range(N), 8, first["sampled"])
    of_rows, _ = cells(w[rows], 0, 3)
    bands = torch.stack([of_rows[rows // 8 == band].mean(0) for band in range(5)])
    close(quick["mass"], bands)
    then, slow = unpack(session.tile(0, 0, 0, [0], place, exact=True))
    assert then["approximate"] is False
    close(slow["mass"], cells(w, 3, 3)[0])
    again, _ = unpack(session.tile(0, 0, 0, [0], place, exact=False))  # now it is known
    assert again["approximate"] is False


@pytest.mark.usefixtures("costly")
def test_margins_and_columns_of_some_queries_leave_the_others_open(session: Session) -> None:
    w = exact(session, 0, 0)[0]
    header, arrays = unpack(session.margins(0, 0, 0, [0], exact=False))
    assert header["approximate"] is True
    known = ~np.isnan(arrays["entropy"])
    assert 0 < known.sum() < N
    close(arrays["entropy"][known], -torch.xlogy(w, w).sum(-1)[torch.from_numpy(known)], rtol=1e-4)
    # Some queries stand for all: together they give as much as all do.
    some = w[torch.from_numpy(known)]
    close(arrays["received"], some.sum(0) * N / len(some), rtol=1e-4)
    header, arrays = unpack(session.column(0, 0, 0, 0, [0], exact=False))
    assert header["approximate"] is True
    known = ~np.isnan(arrays["weights"][0])
    close(arrays["weights"][0][known], w[torch.from_numpy(known), 0])


@pytest.mark.usefixtures("costly")
def test_an_atlas_of_some_queries_is_exact_for_those(session: Session) -> None:
    header, arrays = unpack(session.atlas(0, 0, 0, 8))
    assert header["approximate"] is True
    rows = sample(range(N), 5, 1)
    w = exact(session, 0, 0)[:, rows]
    place = torch.arange(N)
    close(arrays["distance"], (w * (rows[:, None] - place).abs()).sum(-1).mean(-1), rtol=1e-4)
    close(arrays["entropy"], -torch.xlogy(w, w).sum(-1).mean(-1), rtol=1e-4)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda a: a.row(0, 0, 0, 37), "query 37, but there are only 37"),
        (lambda a: a.row(0, 2, 0, 0), "layer 2, but there are only 2"),
        (lambda a: a.row(0, 0, 3, 0), "entry 3, but there are only 3"),
        (lambda a: a.row(1, 0, 0, 0), "exhibit 1, but there are only 1"),
        (lambda a: a.atlas(0, 0, 0, 999), "small maps of 999 cells"),
        (lambda a: a.media(0, 0, 0), "which is no picture"),
        (lambda a: a.importance(0, 0), "there is no model to run again"),
        (lambda a: a.margins(0, 0, 0, [9], exact=True), "head 9, but there are only 2"),
    ],
)
def test_what_is_not_there_is_named(session: Session, ask, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=message):
        ask(session)


@pytest.fixture
def broken() -> Session:
    """Query 20 has a NaN in head 1."""
    return Session([example_of(broken_seen(N, query=20))])


def test_rows_that_are_no_numbers_are_told_from_hidden_ones(broken: Session) -> None:
    _, arrays = unpack(broken.row(0, 0, 0, 20))
    assert np.isfinite(arrays["weights"][0, :21]).all()
    assert np.isposinf(arrays["weights"][1, :21]).all()
    assert np.isnan(arrays["weights"][:, 21:]).all()
    for cheap in (True, False):
        _, arrays = unpack(broken.column(0, 0, 0, 5, [0, 1], exact=cheap))
        assert np.isnan(arrays["weights"][:, :5]).all()
        assert np.isposinf(arrays["weights"][1, 20])
        assert np.isfinite(arrays["weights"][:, 5:20]).all()
        assert np.isfinite(arrays["weights"][:, 21:]).all()


def test_margins_say_which_queries_give_no_number(broken: Session) -> None:
    for heads in ([1], [0, 1]):
        _, arrays = unpack(broken.margins(0, 0, 0, heads, exact=True))
        assert np.flatnonzero(np.isposinf(arrays["entropy"])).tolist() == [20]
        assert np.flatnonzero(np.isposinf(arrays["received"])).tolist() == list(range(21))
        assert not np.isnan(arrays["entropy"]).any()
    _, arrays = unpack(broken.margins(0, 0, 0, [0], exact=True))
    assert np.isfinite(arrays["entropy"]).all()


@pytest.mark.parametrize("size", [8, 37, 64])
def test_a_small_map_has_no_number_in_its_own_cells_alone(broken: Session, size: int) -> None:
    _, arrays = unpack(broken.atlas(0, 0, 0, size))
    maps, side = arrays["maps"], min(size, N)
    band = 20 * side // N
    assert not np.isposinf(maps[0]).any()
    assert set(np.nonzero(np.isposinf(maps[1]))[0].tolist()) == {band}
    last = max(key * side // N for key in range(21))
    assert np.flatnonzero(np.isposinf(maps[1, band])).tolist() == list(range(last + 1))
    assert np.isfinite(arrays["entropy"][0])
    for name in ("entropy", "sink", "peak", "distance", "previous"):
        assert np.isposinf(arrays[name][1]), name


def test_a_mean_of_heads_is_no_number_where_one_of_them_is_none(broken: Session) -> None:
    _, arrays = unpack(broken.tile(0, 0, 0, [0, 1], Place(down=0, across=0, row=0, column=0), exact=True))
    assert np.isposinf(arrays["mass"][20, :21]).all()
    assert np.isposinf(arrays["peak"][20, :21]).all()
    assert np.isnan(arrays["mass"][20, 21:]).all()
    assert np.isposinf(arrays["mass"]).sum() == 21
