"""Additive attention in Triton against the equation written out in float64: on a GPU, or by Triton's interpreter."""

from typing import TYPE_CHECKING

import pytest
import torch
from contracts.evaluation import evaluate, looking_and_seen
from torch import Tensor

from regard import (
    Additive,
    ALiBi,
    Bias,
    Call,
    Mask,
    RelativeBuckets,
    TensorBias,
    attend,
    causal,
    documents,
    explain,
    keep,
    lengths,
    prefix,
    weigh,
    window,
)
from regard.sight import evidence

if TYPE_CHECKING:
    from regard.attention.kernels.additive_problem import Problem

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.triton

NEAR = {torch.float32: 2e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}  # ‖error‖ / ‖truth‖
DTYPES = list(NEAR)


def truth(call: Call, value: Tensor, upstream: Tensor) -> list[Tensor]:
    """Output and gradients of query, key, value, V, W and v, by autograd of the equation in float64."""
    score = Additive.__new__(Additive)
    torch.nn.Module.__init__(score)
    for name, weight in call.score.named_parameters():
        setattr(score, name, torch.nn.Parameter(weight.detach().double()))
    parts = [part.detach().double().requires_grad_() for part in (call.query, call.key, value)]
    bias = None
    if call.bias is not None:
        dense = call.bias.dense(call.query.shape[-2], call.key.shape[-2]).double()
        bias = TensorBias(dense if dense.ndim == 2 else dense.expand(1, *dense.shape[-3:]))
    wide = Call(parts[0], parts[1], call.mask, bias, score, call.scale)
    values = parts[2].repeat_interleave(wide.groups, -3) if wide.groups > 1 else parts[2]
    output = weigh(wide) @ values
    return [output, *torch.autograd.grad(output, [*parts, *score.parameters()], upstream.double())]


def check(call: Call, value: Tensor) -> None:
    assert explain(call).choice.kernel == "fused additive"
    upstream = torch.randn(*call.query.shape[:-1], value.shape[-1], dtype=value.dtype)
    found, wanted = evaluate(call, value, upstream), truth(call, value, upstream)
    for mine, theirs in zip([found.output, *found.gradients()], wanted, strict=True):
        assert mine.isfinite().all()
        assert (mine.double() - theirs).norm() <= NEAR[value.dtype] * (theirs.norm() + 1e-3)


def random_call(
    queries: int,
    keys: int,
    hidden: int,
    *,
    dtype: torch.dtype,
    mask: Mask | None = None,
    bias: Bias | None = None,
    heads: int = 2,
    groups: int = 1,
    wide: int = 5,
) -> tuple[Call, Tensor]:
    score = Additive(6, 7, hidden=hidden, heads=heads, kv_heads=heads // groups).to(dtype)
    query = torch.randn(2, heads, queries, 6, dtype=dtype)
    key = torch.randn(2, heads // groups, keys, 7, dtype=dtype)
    value = torch.randn(2, heads // groups, keys, wide, dtype=dtype)
    return Call(query, key, mask, bias, score), value


def sparse() -> Tensor:
    chance = torch.Generator().manual_seed(3)
    open_ = torch.rand(2, 2, 9, 9, generator=chance, device="cpu") > 0.6
    open_[:, :, 4] = False
    open_[..., 6] = False
    return open_


N = torch.tensor([9, 0], device="cpu")
IDS = torch.tensor([[0] * 4 + [1] * 5, [0] * 3 + [1] * 4 + [-1] * 2], device="cpu")
MASKS = {
    "none": lambda: None,
    "causal": causal,
    "strictly before": lambda: causal(offset=-1),
    "lengths": lambda: lengths(N),
    "padded left": lambda: lengths(torch.tensor([9, 5]), padded="left"),
    "window": lambda: window(3),
    "causal window lengths": lambda: causal() & window(4) & lengths(N),
    "documents": lambda: documents(IDS) & causal(),
    "prefix": lambda: (causal() | prefix(torch.tensor([3, 4]))) & lengths(keys=torch.tensor([9, 7])),
    "keep": lambda: keep(sparse()),
    "not": lambda: ~(window(3) | keep(sparse()[:, 0])),
}
CROSS = {
    "keys and queries": lambda: lengths(keys=N, queries=torch.tensor([3, 7])),
    "decoding": lambda: causal(offset=2) & window(3, offset=2),
    "packed": lambda: documents(IDS, queries=torch.tensor([[0, 0, 1, 1, 1, 2, -1]] * 2)),
}


@pytest.mark.parametrize(("index", "name"), enumerate([*MASKS, *CROSS]))
def test_every_mask_gives_the_equation(index: int, name: str) -> None:
    square = name in MASKS
    mask = (MASKS if square else CROSS)[name]()
    biases = [None, ALiBi(2), TensorBias(torch.randn(9, 9).masked_fill(torch.rand(9, 9) > 0.7, -torch.inf))]
    check(
        *random_call(
            9 if square else 7,
            9,
            6,
            dtype=DTYPES[index % 3],
            mask=mask,
            bias=biases[index // 2 % 3] if square else None,
            groups=1 + index % 2,
        )
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys", "hidden", "wide"), [(1, 1, 1, 1), (35, 130, 9, 20), (33, 3, 8, 70)]
)
def test_odd_sizes_give_the_equation(
    dtype: torch.dtype, queries: int, keys: int, hidden: int, wide: int
) -> None:
    check(*random_call(queries, keys, hidden, dtype=dtype, wide=wide, heads=1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_whose_slopes_do_not_fit_together_take_turns(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.attention.kernels import additive_problem

    call, value = random_call(
        140, 30, 4, dtype=dtype, mask=causal(offset=-100) & window(60, offset=-90), groups=2
    )
    monkeypatch.setattr(additive_problem, "BUDGET", 2 * 30 * 128)
    check(call, value)


@pytest.mark.parametrize(("dtype", "offset"), [(torch.float32, 100), (torch.bfloat16, 250)])
def test_keys_whose_slopes_do_not_fit_together_take_turns(
    dtype: torch.dtype, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.attention.kernels import additive_problem

    call, value = random_call(10, 260, 4, dtype=dtype, mask=causal(offset=offset), groups=2)
    monkeypatch.setattr(additive_problem, "BUDGET", 2 * 10 * 128)
    assert len({str(columns) for _, _, columns in _problem_of(call).chunks()}) == -(-(offset + 10) // 128)
    check(call, value)


def _problem_of(call: Call) -> "Problem":
    from regard.attention.kernels.additive_problem import Problem

    assert isinstance(call.mask, Mask)
    low, high = call.mask.band(call.extent)
    return Problem(call.query, call.key, torch.empty(2, 4), low=low, high=high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_over_pieces_of_the_keys_add_up(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.attention.kernels import additive_launch

    tile = additive_launch.AdditiveTile(queries=16, rows=4, units=16, registers=None, keys=8)
    monkeypatch.setattr(additive_launch, "GRADIENT", tile)
    monkeypatch.setattr(additive_launch, "PIECE", 11)
    check(*random_call(21, 40, 18, dtype=dtype, mask=causal(offset=9) & window(10, offset=9), groups=2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_whose_exponentials_overflow_are_exact_all_the_same(dtype: torch.dtype) -> None:
    call, value = random_call(5, 6, 4, dtype=dtype)
    call.query[0, 0, 1] *= 90.0
    call.key[0, 0, 2] *= -90.0
    call.key[1, 1, 3] *= 1e3
    check(call, value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_query_too_large_for_an_exponential_leaves_the_one_it_is_paired_with_alone(
    dtype: torch.dtype,
) -> None:
    call, value = random_call(21, 6, 4, dtype=dtype)
    call.query[0, 0, 1] *= 90.0
    call.query[0, 1, 20] *= 90.0
    check(call, value)


def test_one_extreme_key_changes_no_bit_of_the_pairs_it_is_not_in() -> None:
    call, value = random_call(5, 6, 4, dtype=torch.bfloat16, mask=causal(offset=0))
    plain = attend(call, value)
    call.key[:, :, 4] *= 1e4  # seen by the last query alone, in one tile with all the others
    assert torch.equal(attend(call, value)[:, :, :4], plain[:, :, :4])


@pytest.mark.parametrize("dtype", DTYPES)
def test_who_sees_nothing_gets_zeros_and_finite_gradients(dtype: torch.dtype) -> None:
    call, value = random_call(7, 9, 4, dtype=dtype, mask=lengths(keys=torch.tensor([9, 0])))
    found = evaluate(call, value, torch.ones(2, 2, 7, 5, dtype=dtype))
    assert torch.equal(found.output[1], torch.zeros(2, 7, 5, dtype=dtype))
    assert all(grad.isfinite().all() for grad in found.gradients())
    assert torch.equal(found.query[1], torch.zeros_like(found.query[1]))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, 1e30])
def test_poison_where_nobody_looks_changes_no_bit(poison: float) -> None:
    mask = causal() & lengths(torch.tensor([5, 3]))
    call, value = random_call(5, 5, 4, dtype=torch.float32, mask=mask)
    looking, seen = looking_and_seen(call)
    upstream = torch.randn(2, 2, 5, 5)
    clean = evaluate(call, value, upstream)
    bad = torch.tensor(poison)
    query, key = call.query.where(looking[..., None], bad), call.key.where(seen[..., None], bad)
    spoiled = evaluate(
        Call(query, key, mask, score=call.score),
        value.where(seen[..., None], bad),
        upstream.where(looking[..., None], bad),
    )
    assert torch.equal(spoiled.output, clean.output)
    for mine, theirs in zip(spoiled.gradients(), clean.gradients(), strict=True):
        assert torch.equal(mine, theirs)


def test_strides_do_not_matter() -> None:
    call, value = random_call(6, 9, 5, dtype=torch.float32)
    twisted = [part.transpose(1, 3).contiguous().transpose(1, 3) for part in (call.query, call.key, value)]
    assert not twisted[0].is_contiguous()
    other = Call(twisted[0], twisted[1], score=call.score)
    assert torch.equal(attend(other, twisted[2]), attend(call, value))


@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_may_share_one_vector_of_any_width(dtype: torch.dtype) -> None:
    score = Additive(4, 4, hidden=8).to(dtype)
    query, key, value = (torch.randn(2, 3, 5, 4, dtype=dtype) for _ in range(3))
    check(Call(query, key, score=score), value)


def test_one_axis_and_three_batch_axes_are_folded() -> None:
    score = Additive(4, 4, hidden=3)
    for shape in ((5, 4), (2, 3, 2, 5, 4)):
        query, key, value = (torch.randn(shape) for _ in range(3))
        check(Call(query, key, keep(torch.rand(*shape[:-2], 5, 5) > 0.3), score=score), value)


def test_dropped_weights_are_the_same_forward_and_backward() -> None:
    call, _ = random_call(6, 40, 3, dtype=torch.float32)
    eye = torch.eye(40).expand(2, 2, 40, 40).clone().requires_grad_()
    query = call.query.clone().requires_grad_()
    torch.manual_seed(3)
    dropped = attend(
        Call(query, call.key, score=call.score), eye, dropout=0.4
    )  # value = identity: the weights
    kept = (dropped != 0).double() / 0.6
    assert 0.3 < (dropped == 0).double().mean() < 0.5
    wide = Call(query.double(), call.key.double(), score=Additive(6, 7, hidden=3, heads=2).double())
    wide.score.load_state_dict(call.score.state_dict())
    upstream = torch.randn(2, 2, 6, 40)
    other = eye.detach().double().requires_grad_()
    wanted = (weigh(wide) * kept) @ other
    torch.testing.assert_close(dropped.double(), wanted, rtol=0, atol=1e-6)
    found = torch.autograd.grad(dropped, [query, eye], upstream)
    for mine, theirs in zip(
        found, torch.autograd.grad(wanted, [query, other], upstream.double()), strict=True
    ):
        torch.testing.assert_close(mine.double(), theirs.double(), rtol=1e-4, atol=1e-5)
    assert (attend(call, eye, dropout=1.0) == 0).all()


def test_a_learned_bias_takes_the_path_that_gives_it_a_gradient() -> None:
    call, value = random_call(4, 4, 3, dtype=torch.float32)
    bias = RelativeBuckets(2, buckets=4, far=3)
    biased = Call(call.query, call.key, bias=bias, score=call.score)
    assert explain(biased).choice.kernel == "written"
    assert "learned" in str(explain(biased))
    assert "Triton" in str(explain(call))
    attend(biased, value).sum().backward()
    assert all(weight.grad is not None for weight in bias.parameters())


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_alone_and_their_gradients_are_those_of_the_equation(dtype: torch.dtype) -> None:
    from regard.attention.kernels.additive import additive_scores

    parts = [torch.randn(shape).to(dtype) for shape in ((2, 35, 9), (2, 41, 9), (2, 9))]
    mine = [part.clone().requires_grad_() for part in parts]
    theirs = [part.double().requires_grad_() for part in parts]
    upstream = torch.randn(2, 35, 41).to(dtype)
    scores = additive_scores(*mine)
    wanted = torch.einsum("nqkr,nr->nqk", torch.tanh(theirs[0][:, :, None] + theirs[1][:, None]), theirs[2])
    grads = torch.autograd.grad(wanted, theirs, upstream.double())
    for one, other in zip(
        [scores, *torch.autograd.grad(scores, mine, upstream)], [wanted, *grads], strict=True
    ):
        assert (one.double() - other).norm() <= NEAR[dtype] * other.norm()


def test_evidence_is_what_float64_weights_give() -> None:
    call, _ = random_call(21, 37, 5, dtype=torch.bfloat16, mask=lengths(keys=torch.tensor([37, 20])))
    wide = Call(
        call.query.double(), call.key.double(), call.mask, score=Additive(6, 7, hidden=5, heads=2).double()
    )
    wide.score.load_state_dict(call.score.state_dict())
    weights, summary = weigh(wide).detach(), evidence.summarise(call)
    close = {"rtol": 0, "atol": 2e-5, "check_dtype": False}
    torch.testing.assert_close(summary.entropy, -torch.special.xlogy(weights, weights).sum(-1), **close)
    torch.testing.assert_close(summary.received, weights.sum(-2), **close)
    torch.testing.assert_close(summary.peak, weights.amax(-1), **close)


def test_the_operator_is_registered_as_torch_wants_it() -> None:
    shapes = ((1, 2, 3, 4), (1, 2, 5, 4), (2, 4), (1, 2, 5, 3))
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    torch.library.opcheck(
        torch.ops.regard.additive_attend.default,
        (*inputs, None, None, None, None, 1, 0.5, 0.0),
        test_utils=(
            "test_schema",
            "test_autograd_registration",
            "test_faketensor",
            "test_aot_dispatch_static",
        ),
    )
