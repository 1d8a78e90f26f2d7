"""What one pass says when the log-sum-exp is known, against weights written out in float64."""

import math

import pytest
import torch
from contracts.test_6_evidence import pooled_by_hand
from sight.kernels.test_planner import HEADS, IDS, MASKS, MEMORY, N, close, random_call, written
from torch import Tensor, nn
from torch.nn import functional as F

from regard import ALiBi, Call, causal, documents, lengths, watch, window
from regard.sight import evidence, interpose
from regard.sight.kernels.kernel_mask import kernel_call
from regard.sight.kernels.tilings import EvidenceTiling
from regard.sight.layer import Layer

pytestmark = pytest.mark.triton


def level_of(call: Call) -> Tensor:
    """log Σ exp(score), from the passes that find it themselves."""
    looking = evidence.Looking(call)
    evidence.ask(call, looking)
    return looking.answer().logsumexp


def check(call: Call, size: tuple[int, int] | None = None) -> None:
    from regard.sight.kernels import launch  # wants Triton

    assert launch.fits_single_pass(kernel_call(call), size)
    weights = written(call)
    asked: list[evidence.Question] = [evidence.Summing(call)]
    if size is not None:
        asked.append(evidence.Pooling(call, *size))
    evidence.ask(call, *asked, level=level_of(call))
    summary = asked[0].answer()
    close(summary.entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(summary.peak, weights.amax(-1))
    close(summary.received, weights.sum(-2), atol=2e-5)
    assert torch.equal(summary.logsumexp == -torch.inf, weights.sum(-1) == 0)
    if size is not None:
        close(asked[1].answer(), pooled_by_hand(weights, *size))


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_every_mask(mask) -> None:
    check(random_call(mask, torch.float16))


@pytest.mark.parametrize("bias", [ALiBi(HEADS), ALiBi(HEADS).shifted(51)], ids=["alibi", "shifted"])
def test_slopes_and_more_keys_than_queries(bias) -> None:
    check(random_call(causal(offset=51), torch.float16, keys=MEMORY, bias=bias))


@pytest.mark.parametrize("size", [(2, 4), (4, 1)], ids=str)
@pytest.mark.parametrize("mask", [None, causal(), lengths(torch.tensor([256, 100])), window(90)], ids=repr)
def test_maps_whose_cells_are_of_whole_tiles(mask, size: tuple[int, int]) -> None:
    query, key = torch.randn(2, 2, 1, 256, 16).half()
    check(Call(query, key, mask), size)


def test_columns_of_several_tiles() -> None:
    query, key = torch.randn(2, 1, 1, 384, 16).half()
    check(Call(query, key, causal()), (3, 1))


@pytest.mark.parametrize(
    "sizes", [(64, 64, 4), (64, 128, 4), (128, 64, 8), (64, 128, 8), (128, 128, 4)], ids=str
)
def test_tiles_of_every_shape(sizes: tuple[int, int, int]) -> None:
    from regard.sight.kernels import launch

    tall, size, warps = sizes
    call = random_call(causal(), torch.float16)
    told, weights = kernel_call(call), written(call).flatten(0, 1)
    tiling = EvidenceTiling(tall=tall, size=size, warps=warps, stages=2)
    found = launch.single_pass(told, launch.look(told).level, tiling=tiling)
    close(found.entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(found.received, weights.sum(-2), atol=2e-5)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_is_masked_cannot_matter(poison: float) -> None:
    mask = causal() & lengths(N, padded="right") & documents(IDS)
    clean = random_call(mask, torch.float16)
    query, key = clean.query.clone(), clean.key.clone()
    query[1, :, 77:], key[1, :, 77:] = poison, poison
    for call in (clean, Call(query, key, mask)):
        level = level_of(clean).where(torch.arange(150) < N[:, None, None], poison)
        summing = evidence.Summing(call)
        evidence.ask(call, summing, level=level)
        close(summing.answer().received, written(clean).sum(-2), atol=2e-5)
        assert (summing.answer().entropy[1, :, 77:] == 0).all()


def test_nan_that_is_looked_at_is_told() -> None:
    call = random_call(causal() & window(20), torch.float16)
    call.key[0, :, 60] = torch.nan
    summing = evidence.Summing(call)
    evidence.ask(call, summing, level=level_of(call))
    summary = summing.answer()
    assert summary.entropy[0, :, 60:80].isnan().all()
    assert summary.received[0, :, 41:80].isnan().all()
    assert not summary.received[0, :, :41].isnan().any()
    assert not summary.received[1].isnan().any()


def test_the_forward_pass_tells_it_and_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        interpose._OPERATORS, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None
    )
    dtype = torch.float16 if torch.get_default_device().type == "cuda" else torch.float32

    class Attending(nn.Module):
        def forward(self, query: Tensor, key: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, key, is_causal=True)

    model, call = Attending(), random_call(causal(), dtype, kv_heads=HEADS)
    plain = model(call.query, call.key)
    told: list[Tensor | None] = []
    ask = evidence.ask

    def spied(call: Call, *questions: evidence.Question, level: Tensor | None = None) -> None:
        told.append(level)
        ask(call, *questions, level=level)

    monkeypatch.setattr(evidence, "ask", spied)
    with watch(model) as seen:
        watched = model(call.query, call.key)
    with watch(model) as trained:
        model(call.query.clone().requires_grad_(), call.key)
    with watch(model, keep="evidence", ask=["entropy", "received"]) as kept:
        model(call.query, call.key)
    assert torch.equal(plain, watched)
    weights = written(call)
    scores = call.query.double() @ call.key.double().mT / math.sqrt(call.query.shape[-1])
    expected = scores.masked_fill(torch.ones(150, 150).triu(1).bool(), -torch.inf).logsumexp(-1)
    # Who asks at once is told; who may ask later is told what is there anyway, for the backward pass.
    assert len(told) == 1
    assert seen[0]._logsumexp is None
    for level in (told[0], trained[0]._logsumexp):
        assert level is not None
        close(level, expected, atol=1e-5)
    for layer in (seen[0], trained[0], kept[0]):
        close(layer.received(), weights.sum(-2), atol=2e-5)
        close(layer.entropy(), -torch.special.xlogy(weights, weights).sum(-1), atol=1e-5)


def test_what_one_answer_found_serves_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.sight.kernels import launch  # wants Triton

    passes: list[str] = []
    for name, run in [("look", launch.look), ("single_pass", launch.single_pass)]:

        def spied(call, level=None, *rest, name=name, run=run, **options):
            passes.append(name if level is None else f"{name}, given the log-sum-exp")
            return run(call, level, *rest, **options)

        monkeypatch.setattr(launch, name, spied)
    call = random_call(causal(), torch.float16, kv_heads=HEADS)
    layer, weights = Layer.of("one", call), written(call)
    close(layer.received(), weights.sum(-2), atol=2e-5)
    close(layer.entropy(), -torch.special.xlogy(weights, weights).sum(-1))
    close(layer.top(2)[1], weights.topk(2).values)
    close(layer.map(5, 7), pooled_by_hand(weights, 5, 7))
    assert passes == ["look", "look, given the log-sum-exp"]  # once to find it, once for the top keys
