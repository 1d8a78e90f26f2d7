"""`attend` against the written-out equation: any shape, every kernel, every gradient."""

import hypothesis.strategies as st
import pytest
import torch
from contracts.cases import scores, square_masks
from hardware import VARLEN_IN_C
from hypothesis import given
from torch.profiler import profile

from regard import (
    Additive,
    ALiBi,
    Bilinear,
    Call,
    Cosine,
    Dot,
    LowRank,
    RegardError,
    RelativeBuckets,
    ScaledDot,
    Score,
    TensorBias,
    attend,
    causal,
    explain,
    keep,
    lengths,
    weigh,
)

sizes = st.sampled_from([0, 1, 2, 3, 5, 7, 13])


@given(
    batch=st.lists(sizes, max_size=3),
    queries=sizes,
    keys=sizes,
    width=st.sampled_from([1, 2, 5, 8]),
    value_width=st.sampled_from([1, 3, 8, 11]),
    masked=st.booleans(),
    score=st.sampled_from(["dot", "scaled", "cosine", "bilinear", "low-rank", "additive"]),
)
def test_any_shape(
    batch: list[int], queries: int, keys: int, width: int, value_width: int, masked: bool, score: str
) -> None:
    torch.manual_seed(1)
    query = torch.randn(*batch, queries, width).double()
    key, value = torch.randn(*batch, keys, width).double(), torch.randn(*batch, keys, value_width).double()
    made: dict[str, Score] = {
        "dot": Dot(),
        "scaled": ScaledDot(),
        "cosine": Cosine(),
        "bilinear": Bilinear(width, width),
        "low-rank": LowRank(width, width, rank=3),
        "additive": Additive(width, width, hidden=4),
    }
    mask = keep(torch.rand(*batch, queries, keys) > 0.5) if masked else None
    call = Call(query, key, mask, score=made[score].double())
    mixed = attend(call, value)
    assert mixed.shape == (*batch, queries, value_width)
    torch.testing.assert_close(mixed, weigh(call) @ value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", square_masks())
@pytest.mark.parametrize("score", scores())
def test_gradients_of_every_score_and_mask(score: str, mask: str) -> None:
    made = scores()[score](2).double()
    query = torch.randn(3, 4, 11, 8).double()[..., ::1].requires_grad_()
    key, value = torch.randn(3, 2, 11, 8).double(), torch.randn(3, 2, 11, 5).double()
    key, value = key.requires_grad_(), value.requires_grad_()

    def run(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *weights: torch.Tensor
    ) -> torch.Tensor:
        return attend(Call(query, key, square_masks()[mask](), score=made), value)

    # fast_mode checks one random direction through all inputs: enough to catch a wrong formula, at a tenth the time.
    weights = [weight for weight in made.parameters() if weight.requires_grad]
    assert torch.autograd.gradcheck(run, (query, key, value, *weights), fast_mode=True)


@pytest.mark.parametrize("score", scores())
@pytest.mark.parametrize("learned", [False, True])
def test_gradients_through_a_bias(score: str, learned: bool) -> None:
    made = scores()[score](4).double()
    parts = [
        torch.randn(2, 4, 3, 8),
        torch.randn(2, 4, 5, 8),
        torch.randn(2, 4, 5, 2),
        torch.randn(1, 4, 3, 5),
    ]
    query, key, value, bias = (part.double().requires_grad_() for part in parts)
    bias = bias if learned else bias.detach()

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        return attend(Call(query, key, lengths(keys=torch.tensor([4, 0])), TensorBias(bias), made), value)

    inputs = (query, key, value, bias) if learned else (query, key, value)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def kernels_of(call: Call, value: torch.Tensor) -> set[str]:
    with profile() as seen:
        attend(call, value)
    return {event.key for event in seen.key_averages() if "attention" in event.key}


FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
on_the_cpu = pytest.mark.skipif("config.getoption('--device') != 'cpu'", reason="names the kernel of the CPU")


@on_the_cpu
@pytest.mark.parametrize("score", [name for name in scores() if name != "additive"])
@pytest.mark.parametrize("value_width", [5, 8, 11])
@pytest.mark.parametrize("mask", ["none", "causal", "causal-lengths", "window", "keep"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_five_scores_reach_a_kernel_that_holds_no_weights(
    score: str, value_width: int, mask: str, kv_heads: int
) -> None:
    """torch's fused one in float64; in float32 the C kernel, but for masks that only a matrix says."""
    query, key = torch.randn(3, 4, 11, 8).double(), torch.randn(3, kv_heads, 11, 8).double()
    value, one = torch.randn(3, kv_heads, 11, value_width), scores()[score](kv_heads)
    assert FLASH in kernels_of(Call(query, key, square_masks()[mask](), score=one.double()), value.double())
    call = Call(query.float(), key.float(), square_masks()[mask](), score=one.float())
    if VARLEN_IN_C and mask != "keep":
        assert explain(call).choice.kernel == "varlen"
    else:
        assert FLASH in kernels_of(call, value)


@on_the_cpu
def test_a_fixed_bias_reaches_the_fused_kernel_and_a_learned_one_cannot() -> None:
    query = torch.randn(1, 4, 6, 8)
    assert FLASH in kernels_of(Call(query, query, causal(), ALiBi(4)), query)
    assert FLASH not in kernels_of(Call(query, query, causal(), RelativeBuckets(4, buckets=8, far=16)), query)


def test_gradients_do_not_choose_the_kernel() -> None:
    query = torch.randn(1, 4, 6, 8)
    call = Call(query, query, causal(), RelativeBuckets(4, buckets=8, far=16))
    with torch.no_grad():
        without = attend(call, query)
    assert torch.equal(attend(call, query), without)


@pytest.mark.parametrize("score", ["scaled", "additive"])
def test_dropout_drops_weights_and_keeps_their_mean(score: str) -> None:
    query, key = torch.randn(1, 4, 9, 8), torch.randn(1, 4, 64, 8)
    call = Call(query, key, score=scores()[score](4))
    value = torch.eye(64).expand(1, 4, 64, 64)  # so that the output is the weights
    weights = weigh(call)
    dropped = torch.stack([attend(call, value, dropout=0.25) for _ in range(200)])
    share = (dropped == 0).double().mean().item()
    assert 0.24 < share < 0.26
    kept = dropped[dropped != 0] / weights.expand_as(dropped)[dropped != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / 0.75))


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    query = torch.randn(2, 4, 5, 8)
    with pytest.raises(RegardError, match=r"\(2, 4, 5, 8\) and value \(2, 4, 6, 8\)"):
        attend(query, query, torch.randn(2, 4, 6, 8))
    with pytest.raises(RegardError, match="needs a value"):
        attend(query, query)  # type: ignore[call-overload]
    with pytest.raises(RegardError, match=r"dropout=1\.5"):
        attend(query, query, query, dropout=1.5)
