"""The kernels of torch operations, against the equation: whatever layout a projection leaves, few queries, narrow bands."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.attend import attend
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.kernels.native import kernels
from regard.attention.kernels.torch_kernels import small_queries
from regard.attention.masks import Mask, causal, keep, lengths, window
from regard.attention.weights import weigh

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_parts_of_one_projection_may_have_any_width(device: str, dtype: torch.dtype) -> None:
    """Keys of width 16 beside values of width 2: rows begin at multiples of 18 numbers, and the values at the 17th."""
    wide = torch.randn(3, 2, 11, 18, device=device).to(dtype).requires_grad_()
    query = torch.randn(3, 2, 7, 16, device=device).to(dtype)
    key, value = wide.split([16, 2], dim=-1)
    mixed = attend(query, key, value)
    mixed.float().sum().backward()
    exact = weigh(query.double(), key.double()) @ value.double()
    torch.testing.assert_close(mixed.double(), exact, rtol=0, atol={torch.float32: 1e-5}.get(dtype, 2e-2))
    assert wide.grad is not None
    assert wide.grad.isfinite().all()


@pytest.mark.parametrize("queries", [1, 4, 5])
@pytest.mark.parametrize(
    "mask",
    [None, lengths(keys=torch.tensor([7, 1, 0])), keep(torch.rand(3, 1, 1, 7) > 0.4)],
    ids=["everything", "lengths", "some"],
)
def test_a_few_queries_get_what_the_equation_says(queries: int, mask: Mask | None) -> None:
    query, key, value = torch.randn(3, 2, queries, 6), torch.randn(3, 2, 7, 6), torch.randn(3, 2, 7, 5)
    assert explain(Call(query, key, mask)).choice.kernel == "small queries"
    expected = weigh(query.double(), key.double(), mask) @ value.double()
    torch.testing.assert_close(attend(query, key, value, mask).double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(4, 7), (1, 7), (2, 4, 7), (3, 2, 1, 7), (1, 2, 4, 7), (3, 2, 4, 7)], ids=str
)
def test_a_mask_may_be_the_same_for_all_or_differ_by_head(shape: tuple[int, ...]) -> None:
    query, key, value = (torch.randn(3, 2, n, 6) for n in (4, 7, 7))
    added = torch.zeros(shape).masked_fill(torch.rand(shape) < 0.5, -torch.inf)
    added[..., 2] = 0.0
    found = small_queries(query, key, value, added=added, scale=0.3, dropout=0.0)
    expected = (query.double() @ key.double().mT * 0.3 + added.double()).softmax(-1) @ value.double()
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_nan_where_no_query_looks_does_not_matter() -> None:
    query, key, value = torch.randn(2, 2, 1, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 5)
    mask = lengths(keys=torch.tensor([4, 7]))
    expected = attend(query, key, value, mask)
    key[0, :, 4:], value[0, :, 4:] = torch.nan, torch.inf
    assert torch.equal(attend(query, key, value, mask), expected)


def test_dropout_takes_weights_away_and_makes_the_others_larger() -> None:
    query, key = torch.randn(40, 2, 5, 6), torch.randn(40, 2, 7, 6)
    assert explain(Call(query, key), dropout=0.25).choice.kernel == "small queries"
    weights = weigh(query, key)
    left = attend(query, key, torch.eye(7).expand(40, 2, 7, 7), dropout=0.25)
    kept = left > 0
    torch.testing.assert_close(left, torch.where(kept, weights / 0.75, 0.0))
    assert 0.72 < kept.double().mean() < 0.78


def inputs(dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    parts = [torch.randn(2, 3, n, 8, generator=generator, dtype=torch.float64) for n in (4, 7, 7)]
    added = torch.zeros(2, 1, 4, 7).masked_fill(torch.rand(2, 1, 4, 7, generator=generator) < 0.4, -torch.inf)
    added[..., 0] = 0
    return [part.to(dtype).requires_grad_() for part in parts], added


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    return (query @ key.mT * 0.3 + added).softmax(-1) @ value


def test_gradients_do_not_choose_the_kernel() -> None:
    parts, added = inputs()
    with_gradients = small_queries(*parts, added=added, scale=0.3, dropout=0.0)
    assert with_gradients.requires_grad
    with torch.no_grad():
        assert torch.equal(small_queries(*parts, added=added, scale=0.3, dropout=0.0), with_gradients)
    detached = [part.detach() for part in parts]
    assert torch.equal(small_queries(*detached, added=added, scale=0.3, dropout=0.0), with_gradients)


def test_first_and_second_gradients_are_those_of_float64() -> None:
    (found, added), (wanted, _) = inputs(), inputs(torch.float64)
    weights = torch.randn(2, 3, 4, 8)
    first = torch.autograd.grad(
        (small_queries(*found, added=added, scale=0.3, dropout=0.0) * weights).sum(), found, create_graph=True
    )
    expected = torch.autograd.grad((plain(*wanted, added) * weights).sum(), wanted, create_graph=True)
    for one, other in zip(first, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-6)
    second = torch.autograd.grad(sum((each**2).sum() for each in first), found)
    expected = torch.autograd.grad(sum((each**2).sum() for each in expected), wanted)
    for one, other in zip(second, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_the_transforms_of_torch_func_go_through() -> None:
    (query, key, value), _ = inputs()
    found = torch.func.vmap(lambda one: attend(one, key, value))(torch.stack([query, query + 1]))
    torch.testing.assert_close(found[0], attend(query, key, value), rtol=0, atol=1e-6)


def test_it_is_said_which_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(torch.randn(3, 2, 1, 6), torch.randn(3, 2, 7, 6))
    assert (
        "small queries (torch): the C kernel has no dropout" in str(explain(call, dropout=0.1))
        or kernels() is None
    )
    if kernels() is not None:
        assert "small queries (C)" in str(explain(call))
    monkeypatch.setattr("regard.attention.kernels.torch_kernels.kernels", lambda: None)
    assert "small queries (torch): the C kernels are not built" in str(explain(call))


BANDS = {
    "around": window(5),
    "back": causal() & window(9),
    "itself": window(1),
    "ahead": window(4, offset=7),
    "behind": window(3, offset=-20),
    "wide": window(36),
}


def parts(queries: int = 300, keys: int = 300, *, kv_heads: int = 4, dtype: torch.dtype = torch.float64):
    sizes = ((4, queries, 6), (kv_heads, keys, 6), (kv_heads, keys, 5))
    return [torch.randn(2, *size, dtype=dtype, requires_grad=True) for size in sizes]


@pytest.mark.parametrize("mask", BANDS.values(), ids=BANDS.keys())
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_a_band_is_what_the_equation_says_gradients_included(mask: Mask, kv_heads: int, padded: bool) -> None:
    inputs = parts(kv_heads=kv_heads)
    if padded:
        mask = mask & lengths(torch.tensor([300, 170]))
    call = Call(inputs[0], inputs[1], mask)
    assert explain(call).choice.kernel == "blocks"
    mine = attend(call, inputs[2])
    expected = weigh(call) @ inputs[2].repeat_interleave(4 // kv_heads, 1)
    torch.testing.assert_close(mine, expected)
    upstream = torch.randn_like(mine)
    slopes = [torch.autograd.grad(output, inputs, upstream) for output in (mine, expected)]
    for own, other in zip(*slopes, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize(("queries", "keys"), [(130, 1000), (1000, 260), (65, 300), (128, 256)])
def test_queries_and_keys_need_not_be_as_many(queries: int, keys: int) -> None:
    query, key, value = parts(queries, keys)
    for offset in (0, keys - queries, 40):
        mask = window(20, offset=offset)
        call = Call(query, key, mask)
        assert explain(call).choice.kernel == "blocks"
        torch.testing.assert_close(attend(call, value), weigh(call) @ value)


def test_axes_may_be_fewer_or_more() -> None:
    query, key, value = (torch.randn(3, 2, 2, 200, 4).double() for _ in range(3))
    for some in ((0, 0, 0), (0, 0), (0,), ()):
        asked = [part[some] for part in (query, key, value)]
        torch.testing.assert_close(attend(*asked, window(7)), weigh(asked[0], asked[1], window(7)) @ asked[2])


def test_nan_where_nobody_looks_does_not_matter() -> None:
    query, key, value = (part.detach() for part in parts(dtype=torch.float32))
    mask = window(6) & lengths(torch.tensor([300, 100]))
    expected = attend(query, key, value, mask)
    assert not expected[1, :, 100:].any()
    for part in (query, key, value):
        part[1, :, 100:] = torch.nan
    assert torch.equal(attend(query, key, value, mask), expected)


def test_work_grows_with_the_length_and_not_with_its_square() -> None:
    def work(length: int) -> int:
        query, key, value = parts(length, length, dtype=torch.float32)
        with FlopCounterMode(display=False) as counted, torch.no_grad():
            attend(query, key, value, window(16))
        return counted.get_total_flops()

    assert work(2048) == 2 * work(1024)


def test_what_is_no_narrow_band_goes_another_way() -> None:
    query, key, _ = parts()
    for mask in (causal(), window(90), window(5) & lengths(torch.tensor([300, 200])) | window(2)):
        assert explain(Call(query, key, mask)).choice.kernel != "blocks"
    assert "128 keys around them" not in str(explain(Call(query, key, window(5))))
    assert "64 queries at a time over 72 keys around them" in str(explain(Call(query, key, window(5))))


@pytest.mark.skipif(kernels() is None, reason="the C kernels are not built")
def test_autocast_does_not_choose_the_kernel_of_a_few_queries() -> None:
    query, key, value = (torch.randn(3, 2, n, 6, device="cpu").requires_grad_() for n in (2, 7, 7))
    plain = attend(query, key, value)
    with torch.autocast("cpu", torch.bfloat16):
        found = attend(query, key, value)
        narrow = small_queries(query.bfloat16(), key, value.bfloat16(), added=None, scale=0.5, dropout=0.0)
    assert torch.equal(found, plain)
    weights = (query.double() * 0.5 @ key.double().mT).softmax(-1)
    torch.testing.assert_close(narrow.double(), weights @ value.double(), rtol=0, atol=0.05)
