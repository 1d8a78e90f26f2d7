"""The kernels in C, against the torch operations they stand for and against float64."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.attention.kernels import native
from regard.attention.kernels.few import few
from regard.errors import RegardError
from regard.layers.lowered import Int8Linear

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)


@pytest.fixture
def compiled() -> Iterator[native.Native]:
    """The kernels, not yet in use; afterwards nobody uses them."""
    library = native.use_native()
    native._used.clear()
    yield library
    native._used.clear()


@pytest.mark.parametrize("rows", [1, 2, 7, 129])
@pytest.mark.parametrize(("out", "into"), [(48, 33), (70, 512), (512, 96)])
@pytest.mark.parametrize("affine", [True, False])
def test_a_map_of_integers_comes_out_the_same_to_the_bit(
    compiled: native.Native, rows: int, out: int, into: int, affine: bool
) -> None:
    linear = Int8Linear(torch.randn(out, into), torch.randn(out) if affine else None)
    x = torch.randn(rows, into) * torch.randn(rows, 1).exp()
    if rows > 2:
        x[rows // 2] = 0
    plain = linear.rows(x)
    native._used.append(compiled)
    assert torch.equal(linear.rows(x), plain)
    every_other = torch.stack([x, -x], dim=-1)[..., 0]
    assert torch.equal(linear.rows(every_other), plain)


def test_nan_spoils_its_own_row_alone(compiled: native.Native) -> None:
    native._used.append(compiled)
    linear, x = Int8Linear(torch.randn(20, 33), torch.randn(20)), torch.randn(5, 33)
    whole = linear.rows(x)
    x[3, 7] = torch.nan
    spoilt = linear.rows(x)
    assert spoilt[3].isnan().all()
    assert torch.equal(spoilt[[0, 1, 2, 4]], whole[[0, 1, 2, 4]])


@pytest.mark.parametrize("width", [64, 24, 100])
@pytest.mark.parametrize(("queries", "masks"), [(1, None), (4, 1), (5, 5)])
def test_a_few_queries_are_answered(
    compiled: native.Native, width: int, queries: int, masks: int | None
) -> None:
    query = torch.randn(3, queries, 4, width).transpose(1, 2)
    key, value = (torch.randn(3, 4, 40, width)[:, :, :29] for _ in range(2))
    added = None
    if masks is not None:
        added = torch.zeros(3, 1, masks, 29).masked_fill(torch.rand(3, 1, masks, 29) < 0.5, -torch.inf)
        added[..., 0] = 0
        key[:, :, 1], value[:, :, 1] = torch.nan, torch.nan  # whoever looks elsewhere sees nothing of it
        added[..., 1] = -torch.inf
    scores = query.double() @ key.double().mT * 0.2 + (0.0 if added is None else added.double())
    weights = scores.nan_to_num(nan=-torch.inf, neginf=-torch.inf).softmax(-1)
    wanted = weights @ value.double().nan_to_num()
    native._used.append(compiled)
    found = few(query, key, value, added=added, scale=0.2, dropout=0.0)
    assert (found.double() - wanted).abs().max() < 2e-6
    alone = few(
        query[1:2], key[1:2], value[1:2], added=None if added is None else added[1:2], scale=0.2, dropout=0.0
    )
    assert torch.equal(alone, found[1:2])


def test_gradients_and_dropout_take_the_torch_operations(compiled: native.Native) -> None:
    native._used.append(compiled)
    query, key, value = (torch.randn(2, 2, n, 8, requires_grad=True) for n in (1, 5, 5))
    few(query, key, value, added=None, scale=1.0, dropout=0.0).sum().backward()
    assert query.grad is not None


def test_without_a_compiler_it_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    native._compiled.cache_clear()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RegardError, match="needs a C compiler"):
        native._compiled()


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    native._compiled.cache_clear()
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(RegardError, match="the C compiler false failed"):
        native._compiled()
    native._compiled.cache_clear()


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("CC", "/nowhere/cc", "the C compiler /nowhere/cc cannot be started"),
        (
            "XDG_CACHE_HOME",
            "/proc/nowhere",
            "cannot be written or loaded .*XDG_CACHE_HOME names another folder",
        ),
    ],
)
def test_what_cannot_be_started_or_kept_is_said_in_one_line(
    setting: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    native._compiled.cache_clear()
    monkeypatch.setattr(native, "_used", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(setting, value)
    with pytest.raises(RegardError, match=said):
        native.use_native()
    native._compiled.cache_clear()


def test_a_library_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "_used", [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_build", lambda place, *_: (place.parent.mkdir(), place.write_text("no")))
    native._compiled.cache_clear()
    with pytest.raises(RegardError, match=r"native-\w+\.so, which cannot be written or loaded"):
        native.use_native()
    native._compiled.cache_clear()
