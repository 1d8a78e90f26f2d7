"""Blocks are made as the settings say."""

import pytest
import torch
from torch import nn

from regard import ALiBi, RegardError, RelativeBuckets
from regard.layers.blocks import FeedForward, SwiGLU, after, before, inside
from regard.layers.embedding import Gaussian, Learned, Sinusoidal
from regard.layers.rotary import Rotary
from regard.models.stack import (
    StackConfig,
    decoder_block,
    decoder_blocks,
    embedding,
    encoder_block,
    encoder_blocks,
    last_norm,
    questions,
)

SETTINGS = {"width": 12, "heads": 2, "hidden_width": 23, "dropout": 0.3}


@pytest.mark.parametrize(
    ("positions", "added", "bias", "turned"),
    [
        ("sinusoidal", Sinusoidal, None, False),
        ("learned", Learned, None, False),
        ("gaussian", Gaussian, None, False),
        ("rotary", None, None, True),
        ("alibi", None, ALiBi, False),
        ("relative", None, RelativeBuckets, False),
        ("none", None, None, False),
    ],
)
def test_positions_go_where_they_belong(positions, added, bias, turned) -> None:  # type: ignore[no-untyped-def]
    config = StackConfig(**SETTINGS, positions=positions)
    found = embedding(config, "vocabulary", 7).positions
    assert found is None if added is None else isinstance(found, added)
    decoder = decoder_block(config)
    for attention in (encoder_block(config).attention, decoder.attention):
        assert attention.bias is None if bias is None else isinstance(attention.bias, bias)
        assert (attention.rotary is not None) is turned
    assert decoder.cross.bias is None
    assert decoder.cross.rotary is None


def test_relative_positions_look_both_ways_in_an_encoder_alone() -> None:
    config = StackConfig(**SETTINGS, positions="relative")
    two_way = [encoder_block(config), encoder_block(config, two_way=False), decoder_block(config)]
    assert [block.attention.bias.two_way for block in two_way] == [True, False, False]


def test_dropout_of_the_weights_is_a_setting_of_its_own() -> None:
    block = decoder_block(StackConfig(**SETTINGS, attention_dropout=0.2))
    assert (block.attention.dropout, block.cross.dropout) == (0.2, 0.2)
    assert decoder_block(StackConfig(**SETTINGS)).attention.dropout == 0
    with pytest.raises(RegardError, match=r"attention_dropout=1\.0: from 0 to below 1"):
        StackConfig(**SETTINGS, attention_dropout=1.0)


@pytest.mark.parametrize(("name", "placement"), [("before", before), ("after", after), ("inside", inside)])
def test_norms_stand_where_they_are_put(name, placement) -> None:  # type: ignore[no-untyped-def]
    config = StackConfig(**SETTINGS, norm=name)
    block = decoder_block(config)
    for around in (block.around_attention, block.around_cross, block.around_feedforward):
        assert around.placement is placement
        assert around.dropout.p == 0.3
    assert isinstance(last_norm(config), nn.Identity if name == "after" else nn.LayerNorm)


@pytest.mark.parametrize(
    ("name", "kind", "function"),
    [("relu", FeedForward, torch.relu), ("gelu", FeedForward, nn.functional.gelu), ("swiglu", SwiGLU, None)],
)
def test_the_feed_forward_map_is_the_one_named(name, kind, function) -> None:  # type: ignore[no-untyped-def]
    made = encoder_block(StackConfig(**SETTINGS, feedforward=name)).feedforward
    assert isinstance(made, kind)
    assert made.inner.weight.shape == (23, 12)
    x = torch.randn(5)
    assert function is None or torch.equal(made.activation(x), function(x))


def test_fewer_heads_of_keys_are_everywhere() -> None:
    block = decoder_block(StackConfig(**SETTINGS, kv_heads=1))
    assert (block.attention.kv_heads, block.cross.kv_heads) == (1, 1)


def test_stacks_are_as_deep_as_they_say_and_later_blocks_are_left_out_more_often() -> None:
    config = StackConfig(**SETTINGS, depth=4, stochastic_depth=0.2)
    for blocks, rates in (
        (encoder_blocks(config), [0.05, 0.1, 0.15, 0.2]),
        (decoder_blocks(config, 2), [0.1, 0.2]),
    ):
        assert [block.around_feedforward.depth.skip for block in blocks] == pytest.approx(rates)
    assert len(encoder_blocks(StackConfig(**SETTINGS, depth=0))) == 0
    with pytest.raises(RegardError, match=r"stochastic_depth=1\.5: from 0 to below 1"):
        StackConfig(**SETTINGS, stochastic_depth=1.5)


def test_a_rotation_of_ones_own_takes_the_place_of_a_texts() -> None:
    config = StackConfig(**SETTINGS, positions="rotary")
    own = Rotary(6, base=7.0)
    assert all(block.attention.rotary is own for block in encoder_blocks(config, rotary=own))


def test_only_pooling_by_attention_asks_a_question() -> None:
    config = StackConfig(**SETTINGS)
    assert questions(config, "mean") is None
    asking = questions(config, "attention")
    assert asking is not None
    assert asking.queries.shape == (1, 12)
