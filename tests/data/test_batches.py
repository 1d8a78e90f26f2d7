"""Packed batches: filled up, refused, moved."""

import pytest
import torch

from regard.data.batches import PAD, Packed, Sequences
from regard.errors import RegardError


def test_filling_up_changes_nothing_but_what_is_behind() -> None:
    texts = Packed.of([[5, 6, 2], [7, 2]])
    filled = texts.filled_up(8, 4)
    assert filled.tokens.tolist() == [5, 6, 2, 7, 2, PAD, PAD, PAD]
    assert filled.lengths.tolist() == [3, 2, 0, 0]
    assert (filled.longest, filled.shortest, filled.filled, len(filled)) == (3, 2, True, 4)
    assert torch.equal(filled.to("cpu").tokens, filled.tokens)


def test_what_does_not_fit_is_refused_by_name() -> None:
    texts = Packed.of([[5, 6, 2], [7, 2]])
    with pytest.raises(RegardError, match="2 sequences of 5 tokens in a row of 4 for 2"):
        texts.filled_up(4, 2)
    with pytest.raises(RegardError, match="1 sequences of 3 tokens, but 5 are there"):
        Packed.end_to_end(texts.tokens, torch.tensor([3]))
    with pytest.raises(RegardError, match="0 sequences"):
        Packed.of([])


def test_a_decoder_reads_its_target_one_token_late() -> None:
    assert Sequences.of([[5, 6, 2], [7, 2]]).decoder_input().tolist() == [[1, 5, 6], [1, 7, 2]]
    assert Sequences.of([[2], [2]]).decoder_input().tolist() == [[1], [1]]
