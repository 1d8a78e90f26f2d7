"""Attention within a band, against the equation in float64 over all pairs."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.attend import attend
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.masks import Mask, causal, lengths, window
from regard.attention.weights import weigh

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
