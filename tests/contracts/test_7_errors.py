"""Contract 7: errors against float64 are no larger than twice those of the plain computation in the same dtype."""

import math
from collections.abc import Callable

import pytest
import torch
from contracts.cases import BATCH, DTYPES, HEADS, WIDTH, Case, biases, scores
from torch import Tensor
from torch.nn import functional as F

from regard import (
    Additive,
    Call,
    Mask,
    MultiHeadAttention,
    TensorBias,
    attend,
    causal,
    keep,
    lengths,
    lookup,
    packed,
    weigh,
    window,
)
from regard.attention.choose import choose


def plain(call: Call, value: Tensor) -> Tensor:
    """Scores, softmax and values as one would type them, every step in the dtype of the call."""
    groups = call.query.shape[1] // call.key.shape[1]
    key, value = (part.repeat_interleave(groups, 1) for part in (call.key, value))
    scores = call.score(call.query, key if not hasattr(call.score, "key_weight") else call.key)
    if call.bias is not None:
        scores = scores + call.bias.dense(*scores.shape[-2:]).to(scores.dtype)
    if call.mask is not None:
        allowed = call.mask.dense(*scores.shape[-2:])
        while allowed.ndim < 4:
            allowed = allowed.unsqueeze(-3)
        scores = scores.masked_fill(~allowed, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ value


def by_torch(call: Call, value: Tensor) -> Tensor:
    """The same by torch's fused kernel, from the mapped queries and keys."""
    groups = call.query.shape[1] // call.key.shape[1]
    query, key = call.score.map_query(call.query), call.score.map_key(call.key)
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    size = query.shape[-2], key.shape[-2]
    added = torch.zeros(1, 1, *size, dtype=query.dtype)
    if call.bias is not None:
        added = added + call.bias.dense(*size).to(query.dtype)
    if (allowed := call.allowed()) is not None:
        added = added.masked_fill(~allowed, -math.inf)
    scale = call.score.factor(call.query.shape[-1]) if call.scale is None else call.scale
    return F.scaled_dot_product_attention(query, key, value, added, scale=scale).nan_to_num(0.0)


def reference_error(call: Call, value: Tensor, truth: Tensor) -> Tensor:
    """That of the plain computation. On a GPU torch's fused kernels, which `attend` calls, have larger ones."""
    error = (plain(call, value).double() - truth).abs()
    if not value.is_cuda or isinstance(call.score, Additive):
        return error
    return torch.maximum(error, (by_torch(call, value).double() - truth).abs())


def in_float64(call: Call, value: Tensor) -> Tensor:
    bias, score = call.bias, call.score.double()
    if isinstance(bias, torch.nn.Module):
        bias = bias.double()
    wide = Call(call.query.double(), call.key.double(), call.mask, bias, score)
    return weigh(wide) @ value.double().repeat_interleave(wide.groups, 1)


@torch.no_grad()
def test_the_error_is_at_most_twice_that_of_the_plain_computation(case: Case) -> None:
    ours, theirs, size = [], [], 0.0
    for seed in range(8):  # the largest error of one draw is luck; of eight it is the computation's
        call, value = case.build(seed)
        mine, truth = attend(call, value), in_float64(call, value)
        ours.append((mine.double() - truth).abs())
        theirs.append(reference_error(call, value, truth))
        size = max(size, truth.abs().max().item())
    mine, plainly = torch.stack(ours), torch.stack(theirs)
    # Half the spacing of the dtype at the size of the answer: what storing the right result already costs.
    floor = torch.finfo(DTYPES[case.dtype]).eps * size / 2
    assert mine.max() <= 2 * plainly.max() + floor
    assert mine.square().mean().sqrt() <= 2 * plainly.square().mean().sqrt() + floor / 10


test_the_error_is_at_most_twice_that_of_the_plain_computation.wanted = (  # type: ignore[attr-defined]
    lambda case: case.dtype != "f64"
)


# Logits of 6e4 and more after the scale: a product of float16 passes 65504 before it is scaled.
LARGE = 150.0
SHORT, LONG = 11, 211  # at most as many keys as are written out in 16 bits, and more


def masks(n: int) -> dict[str, Callable[[], Mask | None]]:
    return {
        "none": lambda: None,
        "causal": causal,
        "window": lambda: window(3),
        "lengths": lambda: causal() & lengths(torch.tensor([n, 7, 0])),
        "keep": lambda: keep(torch.rand(n, n) > 0.5),
    }


def large(dtype: torch.dtype, n: int, *, kv_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((HEADS, n, LARGE), (kv_heads, n, LARGE), (kv_heads, n, 1.0))
    query, key, value = (torch.randn(BATCH, h, n, WIDTH).mul(size).to(dtype) for h, n, size in shapes)
    return query, key, value


@torch.no_grad()
@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize("mask", masks(1))
@pytest.mark.parametrize("score", [name for name in scores() if name != "additive"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_large_logits_in_16_bits_cost_no_more_than_they_cost_torch(
    dtype: str, score: str, mask: str, n: int
) -> None:
    ours, theirs = [], []
    for seed in range(2):
        torch.manual_seed(seed)
        query, key, value = large(DTYPES[dtype], n)
        call = Call(query, key, masks(n)[mask](), None, scores()[score](HEADS).to(DTYPES[dtype]))
        mixed = attend(call, value)
        assert mixed.isfinite().all()
        assert weigh(call).isfinite().all()
        truth = in_float64(call, value)
        ours.append((mixed.double() - truth).abs())
        if dtype == "f16":
            theirs.append((by_torch(call, value).double() - truth).abs())
        else:  # has the range, but not the digits: the plain computation is what can be asked for
            theirs.append(reference_error(call, value, truth))
    mine, bar = torch.stack(ours), torch.stack(theirs)
    floor = torch.finfo(DTYPES[dtype]).eps * 4
    assert mine.max() <= 2 * bar.max() + floor
    assert mine.square().mean().sqrt() <= 2 * bar.square().mean().sqrt() + floor / 10


@pytest.mark.parametrize("n", [SHORT, LONG])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_large_logits_in_16_bits_are_finite_whatever_computes_them(dtype: str, n: int) -> None:
    wanted = DTYPES[dtype]
    query, key, value = (part.requires_grad_() for part in large(wanted, n))
    lowest = torch.full((n, n), torch.finfo(wanted).min)
    calls = {
        "additive": Call(query, key, causal(), None, Additive(WIDTH, WIDTH, hidden=5).to(wanted), 1e5),
        "buckets": Call(query, key, None, biases()["buckets"](n, n).to(wanted)),
        "learned": Call(query, key, None, TensorBias(torch.randn(n, n, dtype=wanted, requires_grad=True))),
        "lowest": Call(query, key, None, TensorBias(lowest.to(wanted))),
        "scaled up": Call(query, key, causal(), scale=3.0),
        "packed": Call(query[:1], key[:1], causal() & packed(torch.tensor([n - 4, 4]))),
    }
    for name, call in calls.items():
        mixed = attend(call, value[: len(call.query)])
        mixed.float().sum().backward()
        assert mixed.isfinite().all(), f"{name}, by {choose(call, call.reach()).kernel}"
        assert (mixed.abs() <= value.abs().max() * 1.01).all(), name
        assert weigh(call).isfinite().all(), name
        assert lookup(call, value[: len(call.query)]).isfinite().all(), name
    assert all(part.grad.isfinite().all() for part in (query, key, value))
    grouped = large(wanted, n, kv_heads=1)
    assert attend(*grouped, causal()).isfinite().all()
    assert attend(*grouped, causal(), dropout=0.5).isfinite().all()
    heads = MultiHeadAttention(WIDTH, 2).to(wanted)
    assert heads(query[:, 0], mask=causal()).isfinite().all()
    assert weigh(heads.call(query[:, 0])).isfinite().all()
