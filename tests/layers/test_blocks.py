"""Blocks against torch's own layers."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import MultiHeadAttention, RegardError, causal, lengths
from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, SwiGLU
from regard.layers.residual import Residual, after, before


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
