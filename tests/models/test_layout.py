"""Packed and padded batches give the same numbers: loss, metrics and every gradient, in float64, for all models."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import MultiHeadAttention, RegardError, watch
from regard.attention.masks import lengths
from regard.data.batches import Labelled, Packed, Pairs, Sequences
from regard.layers.pooling import AttentionPooling
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.layout import Encoded, Layout, through
from regard.models.protocols import Loss
from regard.models.stack import StackConfig, encoder_blocks
from regard.models.transformer import Transformer, TransformerConfig

SOURCES = [[5, 6, 7, 2], [4, 2], [9, 8, 7, 6, 5, 4, 2], [3, 2]] * 5
TARGETS = [[7, 7, 2], [4, 5, 6, 8, 9, 2], [2], [5, 4, 3, 2]] * 5
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"]
SMALL: dict[str, Any] = {
    "width": 16,
    "heads": 4,
    "kv_heads": 2,
    "depth": 2,
    "hidden_width": 20,
    "dropout": 0.0,
}


def end_to_end(rows: list[list[int]]) -> Packed:
    return Packed.of(rows)


def filled_up(rows: list[list[int]]) -> Packed:
    return Packed.of(rows).filled_up(sum(map(len, rows)) + 5, len(rows) + 2)


def learnt(model: nn.Module, batch: Any) -> tuple[Loss, dict[str, Tensor]]:
    model.zero_grad()
    loss = model.loss(batch)  # type: ignore[operator]
    loss.total.backward()
    return loss, {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}


def compare(model: nn.Module, padded: Any, packed: Any) -> None:
    one, slopes = learnt(model, padded)
    other, own = learnt(model, packed)
    torch.testing.assert_close(other.total, one.total, rtol=1e-12, atol=1e-12)
    assert int(other.count) == int(one.count)
    for name, value in one.metrics.items():
        torch.testing.assert_close(other.metrics[name], value, rtol=1e-12, atol=1e-12)
    assert own.keys() == slopes.keys()
    for name, slope in slopes.items():
        torch.testing.assert_close(own[name], slope, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("pack", [end_to_end, filled_up])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_transformer_learns_the_same(positions: Any, pack: Any) -> None:
    config = TransformerConfig(
        **SMALL, decoder_depth=2, positions=positions, source_vocabulary=12, target_vocabulary=12, tied="all"
    )
    model = Transformer(config).double()
    compare(model, Pairs(Sequences.of(SOURCES), Sequences.of(TARGETS)), Pairs(pack(SOURCES), pack(TARGETS)))


@pytest.mark.parametrize("pack", [end_to_end, filled_up])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_language_model_learns_the_same(positions: Any, pack: Any) -> None:
    model = LanguageModel(LanguageConfig(**SMALL, positions=positions, vocabulary=12)).double()
    compare(model, Sequences.of(SOURCES), pack(SOURCES))
    compare(model, Sequences.of(TARGETS), pack(TARGETS))  # some are of one token, and predict nothing


@pytest.mark.parametrize("pooling", ["attention", "mean", "first"])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_a_classifier_learns_the_same(positions: Any, pooling: Any) -> None:
    model = Classifier(
        ClassifierConfig(**SMALL, positions=positions, vocabulary=12, pooling=pooling)
    ).double()
    labels = torch.arange(20) % 2
    compare(model, Labelled(Sequences.of(SOURCES), labels), Labelled(Packed.of(SOURCES), labels))


def test_packed_sources_are_decoded_as_padded_ones_are() -> None:
    config = TransformerConfig(**SMALL, decoder_depth=1, source_vocabulary=12, target_vocabulary=12)
    model = Transformer(config).double().eval()
    states = [model.start(sources) for sources in (Sequences.of(SOURCES), Packed.of(SOURCES))]
    (one, _), (other, _) = (model.step(state.first, state) for state in states)
    torch.testing.assert_close(one, other)


def test_the_logits_of_packed_targets_are_those_of_padded_ones() -> None:
    config = TransformerConfig(**SMALL, decoder_depth=1, source_vocabulary=12, target_vocabulary=12)
    model = Transformer(config).double()
    padded = model.logits(Pairs(Sequences.of(SOURCES), Sequences.of(TARGETS)))
    packed = model.logits(Pairs(Packed.of(SOURCES), Packed.of(TARGETS)))
    torch.testing.assert_close(packed, padded[Sequences.of(TARGETS).real()])


def test_filling_cannot_matter_to_the_bit() -> None:
    config = TransformerConfig(
        **SMALL, decoder_depth=2, source_vocabulary=12, target_vocabulary=12, tied="none"
    )
    model = Transformer(config).double()
    batch = Pairs(filled_up(SOURCES), filled_up(TARGETS))
    one, slopes = learnt(model, batch)
    with torch.no_grad():
        for table in (model.source_embedding.table, model.target_embedding.table):
            table[0] = torch.nan
    other, own = learnt(model, batch)
    assert torch.equal(one.total, other.total)
    assert all(torch.equal(own[name], slope) for name, slope in slopes.items())


def test_a_model_can_be_watched_while_it_reads_packed_texts() -> None:
    config = TransformerConfig(**SMALL, decoder_depth=2, source_vocabulary=12, target_vocabulary=12)
    model = Transformer(config)
    batch = Pairs(Packed.of(SOURCES), Packed.of(TARGETS))
    one, slopes = learnt(model, batch)
    with watch(model):
        other, own = learnt(model, batch)
    assert torch.equal(one.total, other.total)
    assert all(torch.equal(own[name], slope) for name, slope in slopes.items())


def test_positions_that_were_not_learned_are_refused_by_the_longest_text(as_a_user: None) -> None:
    model = LanguageModel(LanguageConfig(**SMALL, positions="learned", longest=6, vocabulary=12))
    model.loss(Packed.of([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))  # nine tokens, none beyond its third position
    with pytest.raises(RegardError, match="7 positions, but only 6 were learned"):
        model.logits(Packed.of(SOURCES))


def test_one_side_packed_and_the_other_not_is_refused(as_a_user: None) -> None:
    config = TransformerConfig(**SMALL, decoder_depth=1, source_vocabulary=12, target_vocabulary=12)
    model = Transformer(config)
    with pytest.raises(RegardError, match="pack both, or neither"):
        model.loss(Pairs(Packed.of(SOURCES), Sequences.of(TARGETS)))
    with pytest.raises(RegardError, match="pack both, or neither"):
        model.loss(Pairs(Sequences.of(SOURCES), Packed.of(TARGETS)))


def test_packed_texts_lie_in_one_row_whatever_is_behind_them() -> None:
    texts = filled_up(SOURCES)
    assert replace(texts, tokens=texts.tokens).filled
    assert Layout.of(texts).own().dense(80, 80).shape == (80, 80)


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


class Comparisons(TorchDispatchMode):
    """Counts `positions < lengths` and the like: what a mask of lengths is made with."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket in (torch.ops.aten.lt, torch.ops.aten.eq)
        return func(*args, **(kwargs or {}))


def comparisons(depth: int) -> int:
    config = TransformerConfig(
        **{**SMALL, "depth": depth}, decoder_depth=depth, source_vocabulary=12, target_vocabulary=12
    )
    model, batch = Transformer(config), Pairs(Sequences.of(SOURCES), Sequences.of(TARGETS))
    with Comparisons() as found:
        model.loss(batch)
    return found.count


def test_the_layers_of_a_model_share_what_is_worked_out_for_their_mask() -> None:
    assert comparisons(1) == comparisons(3) > 0
