"""The decoder's input."""

from regard.data.batches import Sequences
from regard.models.targets import decoder_input


def test_a_decoder_reads_its_target_one_token_late() -> None:
    assert decoder_input(Sequences.of([[5, 6, 2], [7, 2]])).tolist() == [[1, 5, 6], [1, 7, 2]]
    assert decoder_input(Sequences.of([[2], [2]])).tolist() == [[1], [1]]
