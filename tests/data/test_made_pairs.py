"""Training pairs made of others: joined ones, and sources typed in a hurry."""

import pytest

from regard.data.made_pairs import FEWEST, MOST, POOL, hurried_sources, join_pairs

PAIRS = [(f"s{number}.", f"t{number}.") for number in range(3 * POOL)]


def parts(side: str) -> list[int]:
    return [int(word[1:].rstrip(".,")) for word in side.split()]


@pytest.mark.parametrize("share", [0.15, 1.0, 2.5])
@pytest.mark.parametrize("make", [join_pairs, hurried_sources])
def test_every_pair_comes_once_and_in_order_and_so_many_are_added(make, share: float) -> None:
    found = list(make(PAIRS, share=share, seed=1))
    kept = iter(found)
    assert all(pair in kept for pair in PAIRS)
    assert len(found) - len(PAIRS) == pytest.approx(share * len(PAIRS), abs=1)


def test_both_sides_of_a_joined_pair_are_of_the_same_pairs_read_before_it() -> None:
    read, sizes = 0, set()
    for source, target in join_pairs(PAIRS, share=0.5, seed=1):
        assert parts(source) == parts(target)
        if " " in source:
            assert len({*parts(source)}) == len(parts(source))
            assert max(parts(source)) < read
            sizes.add(len(parts(source)))
        else:
            read += 1
    assert sizes == {*range(FEWEST, MOST + 1)}


def test_what_is_joined_comes_from_all_that_was_read_not_from_the_last_lines_alone() -> None:
    last = [pair for pair in join_pairs(PAIRS, share=0.5, seed=1) if " " in pair[0]][-500:]
    assert min(part for source, _ in last for part in parts(source)) < POOL


def test_of_a_long_file_the_first_lines_are_drawn_as_often_as_the_last() -> None:
    count = 30 * POOL
    pairs = ((f"s{number}.", f"t{number}.") for number in range(count))
    joined = [source for source, _ in join_pairs(pairs, share=0.05, seed=1) if " " in source]
    drawn = [part / count for source in joined[-150:] for part in parts(source)]
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.05)


def test_half_of_the_joined_are_clauses_of_one_sentence_on_both_sides() -> None:
    joined = [pair for pair in join_pairs(PAIRS, share=1.0, seed=1) if " " in pair[0]]
    clauses = [pair for pair in joined if "," in pair[0]]
    assert len(clauses) / len(joined) == pytest.approx(0.5, abs=0.02)
    for source, target in joined:
        inner = {side.count(".") for side in (source, target)}
        assert inner == ({1} if (source, target) in clauses[:50] else inner)
        assert source.count(",") == target.count(",")


def test_a_clause_begins_small_if_its_word_is_written_small_elsewhere() -> None:
    pairs = [("He came.", "Il vint."), ("I saw him and he left.", "Je le vis et il partit.")]
    found = {pair for pair in join_pairs(pairs * 40, share=3.0, seed=4) if "," in pair[0]}
    assert ("I saw him and he left, he came.", "Je le vis et il partit, il vint.") in found
    assert ("He came, I saw him and he left.", "Il vint, Je le vis et il partit.") in found


def test_only_statements_with_one_full_stop_on_both_sides_become_clauses() -> None:
    pairs = [("He came.", "Il vint !"), ("She left...", "Elle partit."), (".", ".")]
    joined = [source for source, _ in join_pairs(pairs * 20, share=2.0, seed=1) if " " in source]
    assert joined
    assert not any("," in source for source in joined)


def test_questions_are_never_joined_as_clauses() -> None:
    pairs = [("Who came?", "Qui est venu ?"), ("He did.", "Lui.")]
    joined = [source for source, _ in join_pairs(pairs * 20, share=2.0, seed=1) if source not in dict(pairs)]
    assert any("?" in source for source in joined)
    assert all("," not in source for source in joined if "?" in source)


def test_a_hurried_source_says_the_same_and_its_target_is_as_it_was() -> None:
    pairs = [("Where is the Station?", "Où est la gare ?")]
    found = [pair for pair in hurried_sources(pairs * 200, share=1.0, seed=1) if pair != pairs[0]]
    assert {target for _, target in found} == {"Où est la gare ?"}
    assert {source for source, _ in found} == {
        "where is the station",
        "where is the station?",
        "WHERE IS THE STATION",
        "WHERE IS THE STATION?",
        "Where is the Station",
    }


def test_a_source_of_punctuation_alone_stays_as_it_is() -> None:
    assert {*hurried_sources([("?!", "?")], share=9.0, seed=1)} == {("?!", "?")}


@pytest.mark.parametrize("make", [join_pairs, hurried_sources])
def test_the_seed_decides_what_is_made(make) -> None:
    pairs = [(f"Source {number}.", f"Target {number}.") for number in range(500)]
    once, again, other = (list(make(pairs, share=0.3, seed=seed)) for seed in (1, 1, 2))
    assert once == again != other


def test_one_pair_alone_is_joined_with_nothing() -> None:
    assert list(join_pairs(PAIRS[:1], share=5.0, seed=1)) == PAIRS[:1]
