"""Longer training pairs out of short ones."""

import pytest

from regard.data.joined_pairs import FEWEST, MOST, POOL, join_pairs

PAIRS = [(f"s{number}.", f"t{number}.") for number in range(3 * POOL)]


def parts(side: str) -> list[str]:
    return [word[1:] for word in side.split()]


@pytest.mark.parametrize("share", [0.15, 1.0, 2.5])
def test_every_pair_comes_once_and_in_order_and_so_many_are_added(share: float) -> None:
    found = list(join_pairs(PAIRS, share=share, seed=1))
    assert [pair for pair in found if " " not in pair[0]] == PAIRS
    assert len(found) - len(PAIRS) == pytest.approx(share * len(PAIRS), abs=1)


def test_both_sides_of_a_joined_pair_are_of_the_same_pairs_read_before_it() -> None:
    read = 0
    sizes = set()
    for source, target in join_pairs(PAIRS, share=0.5, seed=1):
        assert parts(source) == parts(target)
        if " " in source:
            assert len({*parts(source)}) == len(parts(source))
            assert all(int(part.rstrip(".")) < read for part in parts(source))
            sizes.add(len(parts(source)))
        else:
            read += 1
    assert sizes == {*range(FEWEST, MOST + 1)}


def test_what_is_joined_comes_from_all_that_was_read_not_from_the_last_lines_alone() -> None:
    last = [pair for pair in join_pairs(PAIRS, share=0.5, seed=1) if " " in pair[0]][-500:]
    assert min(int(part.rstrip(".")) for source, _ in last for part in parts(source)) < POOL


def test_the_seed_decides_what_is_joined() -> None:
    once, again, other = (list(join_pairs(PAIRS[:500], share=0.3, seed=seed)) for seed in (1, 1, 2))
    assert once == again != other


def test_one_pair_alone_is_joined_with_nothing() -> None:
    assert list(join_pairs(PAIRS[:1], share=5.0, seed=1)) == PAIRS[:1]
