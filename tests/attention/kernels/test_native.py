"""The kernels in C, against the torch operations they stand for and against float64."""

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.attention.kernels import compiling, native
from regard.attention.kernels.few import few
from regard.decoding.probabilities import following, leading
from regard.decoding.ranking import best
from regard.errors import RegardError
from regard.layers.lowered import Int8Linear
from regard.layers.residual import after

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


@pytest.fixture(params=["multiplied here", "multiplied by oneDNN"])
def either(compiled: native.Native, request: pytest.FixtureRequest) -> Iterator[native.Native]:
    """The kernels, with and without a product of their own, which not every machine has."""
    had = compiled.multiplies
    compiled.multiplies = request.param == "multiplied here"
    if compiled.multiplies and not had:
        pytest.skip("this machine has no instructions for it")
    yield compiled
    compiled.multiplies = had


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 12, 13, 129])
@pytest.mark.parametrize(("out", "into"), [(48, 33), (70, 512), (512, 96)])
@pytest.mark.parametrize("affine", [True, False])
def test_a_map_of_integers_comes_out_the_same_to_the_bit(
    either: native.Native, rows: int, out: int, into: int, affine: bool
) -> None:
    linear = Int8Linear(torch.randn(out, into), torch.randn(out) if affine else None)
    x = torch.randn(rows, into) * torch.randn(rows, 1).exp()
    if rows > 2:
        x[rows // 2] = 0
    plain = linear.rows(x)
    native._used.append(either)
    assert torch.equal(linear.rows(x), plain)
    every_other = torch.stack([x, -x], dim=-1)[..., 0]
    assert torch.equal(linear.rows(every_other), plain)


def test_a_map_made_without_kernels_takes_them_up_and_one_made_with_them_does_without(
    compiled: native.Native,
) -> None:
    weight, x = torch.randn(40, 70), torch.randn(5, 70)
    before = Int8Linear(weight, None)
    wanted = before.rows(x)
    native._used.append(compiled)
    with_them = Int8Linear(weight, None)
    assert torch.equal(before.rows(x), wanted)
    native._used.clear()
    assert torch.equal(with_them.rows(x), wanted)


def test_the_largest_whole_numbers_do_not_overflow(compiled: native.Native) -> None:
    width = 131072  # the sum is just below 2³¹, and what leads to it is above
    linear = Int8Linear(torch.ones(33, width), None)
    native._used.append(compiled)
    assert torch.allclose(linear.rows(torch.ones(2, width)), torch.full((2, 33), float(width)))


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("by_c", [True, False])
def test_a_map_that_rectifies_maps_what_is_above_zero(either: native.Native, rows: int, by_c: bool) -> None:
    plain = Int8Linear(torch.randn(40, 70), torch.randn(40))
    x = torch.randn(rows, 70)
    x[0] = -x[0].abs() * 100  # of which nothing is left
    wanted = plain.rows(x.clamp_min(0))
    plain.rectifies = True
    if by_c:
        native._used.append(either)
    assert torch.equal(plain.rows(x), wanted)
    assert not torch.equal(plain.rows(-x), wanted)


@pytest.mark.parametrize("rectifies", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_spoils_its_own_row_alone(either: native.Native, rectifies: bool, sign: float) -> None:
    native._used.append(either)
    linear, x = Int8Linear(torch.randn(20, 33), torch.randn(20)), torch.randn(5, 33)
    linear.rectifies = rectifies
    whole = linear.rows(x)
    x[3, 7] = torch.tensor(torch.nan).copysign(torch.tensor(sign))
    spoilt = linear.rows(x)
    assert spoilt[3].isnan().all()
    assert torch.equal(spoilt[[0, 1, 2, 4]], whole[[0, 1, 2, 4]])


@pytest.mark.parametrize("width", [1, 5, 16, 37, 512])
def test_a_sum_is_normalised(compiled: native.Native, width: int) -> None:
    norm = torch.nn.LayerNorm(width)
    with torch.no_grad():
        norm.weight.normal_(), norm.bias.normal_()
    x, added = torch.randn(3, 7, width) + 5, torch.randn(7, 3, width).transpose(0, 1)
    wanted = copy.deepcopy(norm).double()(x.double() + added.double())
    with torch.no_grad():
        plain = after(x, lambda _: added, norm)
        native._used.append(compiled)
        found = after(x, lambda _: added, norm)
        alone = after(x[1:2, 2:3], lambda _: added[1:2, 2:3], norm)
    error = (found.double() - wanted).abs().max()
    assert error <= 2 * (plain.double() - wanted).abs().max() + 1e-6
    assert torch.equal(alone, found[1:2, 2:3])
    assert after(x, lambda _: added, norm).requires_grad  # who wants gradients is given them


def test_norms_of_other_shapes_are_left_to_torch(compiled: native.Native) -> None:
    native._used.append(compiled)
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        for norm in (torch.nn.LayerNorm((3, 4)), torch.nn.LayerNorm(4, elementwise_affine=False)):
            assert torch.equal(after(x, torch.zeros_like, norm), norm(x))
        assert after(x[:0], torch.zeros_like, torch.nn.LayerNorm(4)).shape == (0, 3, 4)


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
    monkeypatch.setattr(compiling, "_build", lambda place, *_: (place.parent.mkdir(), place.write_text("no")))
    native._compiled.cache_clear()
    with pytest.raises(RegardError, match=r"native-\w+\.so, which cannot be written or loaded"):
        native.use_native()
    native._compiled.cache_clear()


@pytest.mark.parametrize("words", [4, 63, 65, 1000, 10_000])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_leading_words_are_those_of_the_written_out_ranking(
    compiled: native.Native, words: int, count: int
) -> None:
    logits = torch.randn(7, words) * 3
    logits[3] = logits[3].round()  # equals, of which the first come first
    logits[4, 3:] = -torch.inf  # one word is left
    logits[5, :2] = 50.0  # what may not be chosen has its share of the probability
    texts = torch.arange(7)
    wanted, which = best(following(logits, step=0, texts=texts), count)
    native._used.append(compiled)
    found, places = leading(logits, count, step=0, texts=texts)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)
    assert torch.equal(places.where(found > -torch.inf, 0), which.where(found > -torch.inf, 0))
    every_other = torch.stack([logits, -logits], dim=-1)[..., 0]
    assert torch.equal(leading(every_other, count, step=0, texts=texts)[1], places)


@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_are_refused_where_somebody_reads_them(
    compiled: native.Native, fault: float
) -> None:
    native._used.append(compiled)
    logits = torch.randn(3, 100)
    logits[1, 50] = fault
    with pytest.raises(RegardError, match="step 8, row 1: the model gave"):
        leading(logits, 2, step=8, texts=torch.arange(3))
    found, places = leading(logits, 2, step=8, texts=torch.tensor([0, -1, 2]))
    assert found[[0, 2]].isfinite().all()
    assert 0 <= int(places.min()) <= int(places.max()) < 100
    logits[1] = -torch.inf
    with pytest.raises(RegardError, match="nothing to choose from"):
        leading(logits, 2, step=8, texts=torch.arange(3))
