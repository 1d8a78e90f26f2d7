import pytest
import torch

from regard import RegardError
from regard.sight.alignment import flipped, hard_alignment, of_words, soft_alignment, symmetrised

WEIGHTS = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.1, 0.5], [0.0, 0.0, 0.0], [0.2, 0.45, 0.35]])


def test_each_target_takes_its_heaviest_source_and_a_blind_one_none():
    assert hard_alignment(WEIGHTS) == {(0, 0), (2, 1), (1, 3)}
    assert hard_alignment(torch.zeros(3, 0)) == hard_alignment(torch.zeros(0, 3)) == frozenset()


def test_a_soft_alignment_takes_all_above_its_threshold():
    assert soft_alignment(WEIGHTS, 0.3) == {(0, 0), (0, 1), (2, 1), (1, 3), (2, 3)}
    assert soft_alignment(WEIGHTS, 0.5) == {(0, 0)}  # 0.5 is not above 0.5
    assert len(soft_alignment(WEIGHTS, 0)) == 9


@pytest.mark.parametrize("above", [-0.1, 1.0])
def test_a_threshold_that_says_nothing_is_refused(above):
    with pytest.raises(RegardError, match=str(above)):
        soft_alignment(WEIGHTS, above)


def test_the_opposite_direction_is_turned_round():
    assert flipped({(0, 1), (2, 2)}) == {(1, 0), (2, 2)}
    assert flipped(hard_alignment(WEIGHTS.T)) == {(0, 0), (1, 3), (2, 1)}


def test_words_are_aligned_where_their_pieces_are():
    pieces = {(0, 0), (1, 2), (2, 2), (3, 3)}  # "watch ##men look </s>" with "die Wäch ##ter </s>"
    assert of_words(pieces, source=[0, 0, 1, -1], target=[0, 1, 1, -1]) == {(0, 0), (0, 1), (1, 1)}


def test_symmetrised_lies_between_intersection_and_union():
    chance = torch.Generator().manual_seed(1)
    for _ in range(50):
        forward, backward = (
            hard_alignment(torch.rand(6, 5, generator=chance)),
            flipped(hard_alignment(torch.rand(5, 6, generator=chance))),
        )
        found = symmetrised(forward, backward)
        assert forward & backward <= found <= forward | backward
        assert symmetrised(forward, forward) == forward
        assert symmetrised(backward, forward) & forward & backward == forward & backward


def test_growing_takes_neighbours_that_align_a_new_word_and_no_others():
    forward = {(0, 0), (1, 1), (1, 2), (4, 4)}
    backward = {(0, 0), (1, 1), (0, 1), (4, 3)}
    # (1, 2) lies beside (1, 1) and target 2 is new; (0, 1) has both words aligned already.
    # (4, 4) has no neighbour, but both its words are free; then (4, 3) is not.
    assert symmetrised(forward, backward) == {(0, 0), (1, 1), (1, 2), (4, 4)}


def test_growing_goes_on_from_what_was_grown():
    forward, backward = {(0, 0), (0, 1), (0, 2)}, {(0, 0)}
    assert symmetrised(forward, backward) == forward
