"""Blocks against their equations written out, and what goes around attention in them."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import MultiHeadAttention, RegardError, causal, lengths
from regard.layers.blocks import (
    DecoderBlock,
    Dropout,
    EncoderBlock,
    FeedForward,
    Residual,
    StochasticDepth,
    SwiGLU,
    after,
    before,
    inside,
)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    ours.input.all.load_state_dict({"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias})
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", [F.relu, F.gelu])
def test_an_encoder_block_is_torchs_encoder_layer(norm_first: bool, activation) -> None:  # type: ignore[no-untyped-def]
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    residual = partial(Residual, 12, placement=before if norm_first else after)
    ours = EncoderBlock(
        MultiHeadAttention(12, 3), FeedForward(12, 20, activation=activation), residual
    ).double()
    copy_attention(ours.attention, theirs.self_attn)
    ours.feedforward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.outer.load_state_dict(theirs.linear2.state_dict())
    x, n = torch.randn(3, 7, 12).double(), torch.tensor([7, 4, 1])
    padding = torch.arange(7) >= n[:, None]
    expected = theirs(x, src_mask=torch.ones(7, 7).bool().triu(1), src_key_padding_mask=padding)
    found = ours(x, mask=causal() & lengths(n))
    torch.testing.assert_close(found[~padding], expected[~padding], rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_block_is_torchs_decoder_layer(norm_first: bool) -> None:
    theirs = nn.TransformerDecoderLayer(
        12, 3, 20, 0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    residual = partial(Residual, 12, placement=before if norm_first else after)
    ours = DecoderBlock(
        MultiHeadAttention(12, 3), MultiHeadAttention(12, 3), FeedForward(12, 20), residual
    ).double()
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    ours.feedforward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.outer.load_state_dict(theirs.linear2.state_dict())
    x, memory, m = torch.randn(3, 7, 12).double(), torch.randn(3, 5, 12).double(), torch.tensor([5, 2, 1])
    expected = theirs(
        x,
        memory,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(7).double(),
        memory_key_padding_mask=torch.arange(5) >= m[:, None],
    )
    found = ours(x, memory, mask=causal(), memory_mask=lengths(keys=m))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_rows_that_share_a_memory_step_as_if_each_had_its_own() -> None:
    block = DecoderBlock(
        MultiHeadAttention(12, 3), MultiHeadAttention(12, 3), FeedForward(12, 20), partial(Residual, 12)
    ).double()
    x, memory, m = torch.randn(6, 2, 12).double(), torch.randn(3, 5, 12).double(), torch.tensor([5, 2, 1])
    own, _ = block.step(
        x,
        block.start(memory.repeat_interleave(2, 0)),
        mask=causal(offset=0),
        memory_mask=lengths(keys=m.repeat_interleave(2)),
    )
    shared, _ = block.step(x, block.start(memory), mask=causal(offset=0), memory_mask=lengths(keys=m))
    torch.testing.assert_close(shared, own, rtol=0, atol=1e-12)
    with pytest.raises(RegardError, match="6 rows and 4 memories"):
        block.step(x, block.start(torch.randn(4, 5, 12).double()))


def test_feed_forward_maps_are_their_equations() -> None:
    x = torch.randn(3, 5, 4)
    plain, gated = FeedForward(4, 7), SwiGLU(4, 7)
    torch.testing.assert_close(
        plain(x),
        torch.clamp_min(x @ plain.inner.weight.T + plain.inner.bias, 0) @ plain.outer.weight.T
        + plain.outer.bias,
    )
    gate = x @ gated.gate.weight.T
    torch.testing.assert_close(
        gated(x), (gate / (1 + torch.exp(-gate)) * (x @ gated.inner.weight.T)) @ gated.outer.weight.T
    )


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_the_three_placements_of_a_norm(norm) -> None:  # type: ignore[no-untyped-def]
    x, w = torch.randn(4, 6), torch.randn(6, 6)

    def layer(y: Tensor) -> Tensor:
        return y @ w

    def written(y: Tensor) -> Tensor:
        if norm is nn.RMSNorm:
            return y / (y.square().mean(-1, keepdim=True) + torch.finfo(y.dtype).eps).sqrt()
        return (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()

    for placement, expected in (
        (before, x + layer(written(x))),
        (after, written(x + layer(x))),
        (inside, x + written(layer(x))),
    ):
        torch.testing.assert_close(Residual(6, placement=placement, norm=norm)(x, layer), expected)


def test_dropout_of_a_residual_spares_the_way_around() -> None:
    residual = Residual(6, dropout=0.5)
    x = torch.randn(1000, 6)
    added = residual(x, torch.ones_like) - x
    assert added.round().unique().tolist() == [0, 2]
    torch.testing.assert_close(added, added.round())


@pytest.mark.parametrize("placement", [before, after, inside])
def test_stochastic_depth_leaves_a_layer_out_for_whole_samples(placement) -> None:  # type: ignore[no-untyped-def]
    residual = Residual(6, placement=placement, skip=0.75).double()
    torch.nn.init.normal_(residual.norm.bias)
    x, w = torch.randn(400, 3, 6).double(), torch.randn(6, 6).double()

    def layer(y: Tensor) -> Tensor:
        return y @ w

    found = residual(x, layer)
    norm = residual.norm
    around = norm(x) if placement is after else x
    through = {
        before: x + 4 * layer(norm(x)),
        after: norm(x + 4 * layer(x)),
        inside: x + 4 * norm(layer(x)),
    }[placement]
    skipped, taken = ((found - y).abs().amax((1, 2)) < 1e-10 for y in (around, through))
    assert (skipped ^ taken).all()
    assert 0.65 < skipped.double().mean() < 0.85


def test_stochastic_depth_has_no_effect_once_trained_and_none_unless_asked_for() -> None:
    x = torch.randn(50, 6)
    asked, plain = Residual(6, skip=0.5).eval(), Residual(6)
    assert torch.equal(asked(x, torch.sin), plain(x, torch.sin))
    state = torch.get_rng_state()
    plain.train()(x, torch.sin)
    assert torch.equal(torch.get_rng_state(), state)
    assert list(asked.state_dict()) == list(plain.state_dict()) == ["norm.weight", "norm.bias"]


def test_a_share_of_one_is_refused() -> None:
    with pytest.raises(RegardError, match=r"skip=1\.0"):
        StochasticDepth(1.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_that_share_is_dropped_and_the_mean_stays(share: float, dtype: torch.dtype) -> None:
    x = torch.ones(499, 401, dtype=dtype)
    y = Dropout(share)(x)
    assert y.dtype == dtype
    assert y.eq(0).double().mean().item() == pytest.approx(share, abs=0.01)
    torch.testing.assert_close(
        y.unique().double(), torch.tensor([0, 1 / (1 - share)]).double(), rtol=1e-2, atol=0
    )
    assert y.double().mean().item() == pytest.approx(1, abs=0.06)


def test_neighbours_are_dropped_independently() -> None:
    kept = Dropout(0.5)(torch.ones(200_000)).bool().double() - 0.5
    for distance in (1, 2, 3, 4, 8):
        assert abs((kept[distance:] * kept[:-distance]).mean().item()) < 0.005


def test_the_gradient_goes_where_the_numbers_went() -> None:
    x = torch.ones(37, 3, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_seed_makes_it_the_same_and_nothing_is_dropped_when_not_training() -> None:
    drop, x = Dropout(0.4), torch.randn(5, 7)
    torch.manual_seed(1)
    first = drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert drop.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
