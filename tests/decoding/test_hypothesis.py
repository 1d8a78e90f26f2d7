"""Hypotheses and the rows they came from."""

import pytest
import torch

from regard import RegardError, watch
from regard.data.batches import END, Pairs, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.decoding.hypothesis import Hypothesis, beams
from regard.models.transformer import Transformer, TransformerConfig


def came_from(*rows: int) -> Hypothesis:
    return Hypothesis(
        tokens=[4] * len(rows), log_probability=-1.0, ranking=-1.0, finished=False, rows=list(rows)
    )


def test_beams_are_filled_up_after_the_end() -> None:
    assert beams([came_from(0, 2), came_from(1, 4, 5)]).tolist() == [[0, 2, -1], [1, 4, 5]]


def test_the_beams_of_nothing_are_refused() -> None:
    with pytest.raises(RegardError, match="no hypothesis"):
        beams([])


@pytest.mark.parametrize("size", [0, 1, 3])
def test_the_attention_of_a_decode_is_found_again_along_its_beams(size: int) -> None:
    """Stitched from the steps, it is what the same texts attend to when they are read whole. Size 0 is greedy."""
    config = TransformerConfig(
        width=16,
        heads=2,
        depth=1,
        decoder_depth=2,
        hidden_width=32,
        source_vocabulary=19,
        target_vocabulary=19,
    )
    model = Transformer(config).eval()
    source, limits = Sequences.of([[5, 6, 7, 8, END], [9, END], [4, 4, 4, END]]), torch.tensor([7, 4, 5])
    with watch(model) as steps:
        if size:
            found = beam(model, source, size=size, limits=limits, count=size)
        else:
            found = [[each] for each in greedy(model, source, limits=limits)]
    hypotheses = [each for texts in found for each in texts]
    owners = [row for row, texts in enumerate(found) for _ in texts]
    target = Sequences.of([[*each.tokens, *[END] * each.finished] for each in hypotheses])
    with watch(model) as whole, torch.no_grad():
        model.logits(Pairs(Sequences(source.tokens[owners], source.lengths[owners]), target))
    for name in ("decoder.1.attention", "decoder.1.cross"):
        stitched = steps.stitched(name, beams=beams(hypotheses)).weights()
        expected = whole[name].weights()
        torch.testing.assert_close(
            stitched.transpose(1, 2)[target.real()],
            expected.transpose(1, 2)[target.real()],
            rtol=0,
            atol=1e-5,
        )
