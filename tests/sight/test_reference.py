import pytest

from regard import RegardError
from regard.sight.reference import Reference, agreement, parse_references, pharaoh


def test_a_line_is_a_sentence_and_sure_pairs_are_possible_too():
    first, empty, last = parse_references("0-0 1-2 3?4\n\n2?1 2-1 10-0\r\n")
    assert first == Reference(sure=frozenset({(0, 0), (1, 2)}), possible=frozenset({(3, 4)}))
    assert first.possible == {(0, 0), (1, 2), (3, 4)}
    assert empty.sure == empty.possible == frozenset()
    assert last.sure == last.possible == {(2, 1), (10, 0)}
    assert parse_references("") == []


def test_some_corpora_count_from_one():
    assert parse_references("1-1 2?3", first=1) == parse_references("0-0 1?2")


@pytest.mark.parametrize("link", ["1", "1:2", "a-b", "1-2-3", "-1-2", "1?", "0x1-2", "٣-1"])
def test_what_is_no_pair_is_refused_with_its_line(link):
    with pytest.raises(RegardError) as error:
        parse_references(f"0-0\n1-1 {link} 2-2\n")
    assert "line 2" in str(error.value)
    assert repr(link) in str(error.value)


def test_a_word_before_the_first_is_refused_with_its_line():
    with pytest.raises(RegardError, match=r"line 1: '0-1'.*from 1"):
        parse_references("0-1", first=1)


def test_what_is_written_is_read():
    assert pharaoh({(1, 2), (0, 0)}) == "0-0 1-2"
    assert parse_references(pharaoh({(1, 2), (0, 0)}))[0].sure == {(1, 2), (0, 0)}


def test_the_error_rate_by_hand():
    # A has 4 pairs, 2 of them sure and 3 possible; S has 3: 1 − (2 + 3) / (4 + 3).
    (reference,) = parse_references("0-0 1-1 2-2 3?2")
    found = agreement([{(0, 0), (1, 1), (3, 2), (4, 4)}], [reference])
    assert found.error_rate == pytest.approx(2 / 7)
    assert found.precision == pytest.approx(3 / 4)
    assert found.recall == pytest.approx(2 / 3)


def test_a_corpus_is_counted_as_a_whole():
    references = parse_references("0-0\n0-0 1-1 2-2")
    found = agreement([{(5, 5)}, {(0, 0), (1, 1), (2, 2)}], references)
    assert found.error_rate == pytest.approx(1 - (3 + 3) / (4 + 4))  # and not the mean of 1 and 0


def test_only_sure_pairs_must_be_found_and_possible_ones_may():
    (reference,) = parse_references("0-0 1?1")
    assert agreement([{(0, 0)}], [reference]).error_rate == 0
    assert agreement([{(0, 0), (1, 1)}], [reference]).error_rate == 0
    assert agreement([{(1, 1)}], [reference]).error_rate == pytest.approx(0.5)
    assert agreement([set()], [reference]).error_rate == 1


def test_nothing_to_find_and_nothing_found_is_right():
    found = agreement([frozenset()], [Reference(sure=frozenset())])
    assert (found.error_rate, found.precision, found.recall) == (0, 1, 1)


def test_a_missing_sentence_is_noticed():
    with pytest.raises(RegardError, match=r"2 sentences.*for 1"):
        agreement([frozenset(), frozenset()], [Reference(sure=frozenset())])
