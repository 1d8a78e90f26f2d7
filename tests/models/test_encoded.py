"""What an encoder says, pooled, and the blocks it goes through."""

import pytest
import torch

from regard import MultiHeadAttention, RegardError
from regard.attention.masks import lengths
from regard.layers.pooling import AttentionPooling
from regard.models.encoded import Encoded, through
from regard.models.stack import StackConfig, encoder_blocks


def test_a_full_batch_has_no_padding() -> None:
    encoded = Encoded.full(torch.randn(3, 5, 2))
    assert encoded.lengths.tolist() == [5, 5, 5]
    assert not encoded.lengths.is_floating_point()


def test_sequences_are_pooled_as_if_alone() -> None:
    x, n = torch.randn(2, 7, 6), torch.tensor([7, 3])
    encoded, asking = Encoded(x, n), AttentionPooling(MultiHeadAttention(6, 2))
    torch.testing.assert_close(encoded.pooled("attention", asking)[1], asking(x[1, :3])[0])
    torch.testing.assert_close(encoded.pooled("mean")[1], x[1, :3].mean(0))
    assert torch.equal(encoded.pooled("first"), x[:, 0])
    with pytest.raises(RegardError, match="without an AttentionPooling"):
        encoded.pooled("attention")


def test_blocks_are_gone_through_in_order_and_padding_is_not_seen() -> None:
    blocks = encoder_blocks(StackConfig(width=6, heads=2, depth=2, hidden_width=5, dropout=0.0))
    x = torch.randn(2, 7, 6)
    whole = blocks[1](blocks[0](x))
    assert torch.equal(through(blocks, x, None), whole)
    short = through(blocks, x, lengths(torch.tensor([7, 3])))
    torch.testing.assert_close(short[0], whole[0])
    torch.testing.assert_close(short[1, :3], through(blocks, x[1:, :3], None)[0])
