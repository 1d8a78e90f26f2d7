"""Any watched model becomes an example, its tokens along the axes they belong to."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sight.explorer.small import seen_of

from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig
from regard.sight.explorer.example import Picture, Text
from regard.sight.explorer.watched import example_of
from regard.sight.seen import Seen
from regard.sight.watch import watch

SIZES = {"width": 8, "heads": 2, "depth": 1, "decoder_depth": 1, "hidden_width": 8}


def translated(source: int, target: int) -> Seen:
    from regard.data.batches import Pairs, Sequences

    model = Transformer(TransformerConfig(source_vocabulary=20, target_vocabulary=20, **SIZES)).eval()
    pair = Pairs(Sequences.of([list(range(4, 4 + source))]), Sequences.of([list(range(4, 4 + target))]))
    with torch.no_grad(), watch(model) as seen:
        model.logits(pair)
    return seen


def test_tokens_stand_along_both_axes_of_self_attention() -> None:
    example = example_of(seen_of(5), list("abcde"))
    assert [(panel.query_side, panel.key_side, panel.cross) for panel in example.panels] == [
        (0, 0, False)
    ] * 2
    assert example.sides[0] == Text(name="tokens", tokens=(tuple("abcde"),))
    assert example.name == "abcde"


@pytest.mark.parametrize("target", [3, 5])
def test_the_memory_stands_along_the_keys_of_cross_attention(target: int) -> None:
    example = example_of(translated(5, target), list("vwxyz")[:target], memory=list("abcde"))
    sides = {panel.layer.name: (panel.query_side, panel.key_side, panel.cross) for panel in example.panels}
    assert sides["decoder.0.cross"] == (0, 1, True)
    assert sides["decoder.0.attention"] == (0, 0, False)
    if target != 5:  # of one length, nothing tells an encoder from a decoder
        assert sides["encoder.0.attention"] == (1, 1, False)


def test_rows_of_different_lengths_are_cut_to_their_own() -> None:
    example = example_of(seen_of(5, batch=2), [list("abcde"), list("abc")])
    assert example.panels[0].sizes == ((5, 5), (3, 3))
    assert example.panels[0].call(1).query.shape[-2] == 3


def test_an_image_stands_along_its_patches_behind_the_models_own_tokens() -> None:
    example = example_of(seen_of(7), image=np.zeros((4, 6, 3), np.uint8), grid=(2, 3))
    side = example.sides[0]
    assert isinstance(side, Picture)
    assert (side.grid, side.special) == ((2, 3), ("token 0",))


def test_the_steps_of_a_decoder_are_one_layer() -> None:
    model = Transformer(TransformerConfig(source_vocabulary=20, target_vocabulary=20, **SIZES)).eval()
    from regard.data.batches import Sequences
    from regard.decoding.decode import greedy

    with watch(model) as seen:
        greedy(model, Sequences.of([[4, 5, 6]]), limits=4)
    example = example_of(seen)
    assert len(example.panels) == 3
    assert all(panel.sizes[0][0] > 1 for panel in example.panels)


def test_what_was_saved_is_explored_like_what_was_seen(tmp_path: Path) -> None:
    seen = seen_of(6)
    seen.save(tmp_path / "seen.safetensors")
    example = example_of(Seen.load(tmp_path / "seen.safetensors"))
    assert [panel.layer.name for panel in example.panels] == ["first", "second"]


def test_several_calls_that_are_not_steps_are_shown_one_by_one() -> None:
    model = torch.nn.Module()
    seen = Seen([*seen_of(5), *seen_of(4)], model)
    assert [panel.name for panel in example_of(seen).panels] == [
        "first · call 1", "first · call 2", "second · call 1", "second · call 2",
    ]  # fmt: skip


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="no attention call was seen"):
        example_of(Seen())
    with pytest.raises(RegardError, match="3 tokens positions, but no axis has as many: attention of 5 × 5"):
        example_of(seen_of(5), list("abc"))
    with pytest.raises(RegardError, match="give a list of tokens"):
        example_of(seen_of(5), "abcde")
    with pytest.raises(RegardError, match="tokens of 3 texts, but a batch of 2"):
        example_of(seen_of(5, batch=2), [list("abcde")] * 3)
    with pytest.raises(RegardError, match="give rows × columns of patches"):
        example_of(seen_of(5), image=np.zeros((4, 6, 3), np.uint8), grid=(2, 3))


def test_what_kept_only_evidence_says_so_before_a_browser_opens() -> None:
    from sight.explorer.small import Reader

    model = Reader()
    with torch.no_grad(), watch(model, keep="evidence") as seen:
        model(torch.randn(1, 5, 16))
    with pytest.raises(RegardError, match="keep='evidence'"):
        example_of(seen)
