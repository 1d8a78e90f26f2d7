import json

import pyarrow
import pytest
from data.tables import comma_separated
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from regard import RegardError
from regard.data.lines import Report
from regard.data.pairs import Parallel, read_labelled, read_pairs, read_text

PAIRS = [('one, "two"', "un, 'deux'"), ("a\u2028b\x0cc", "ä"), ("three", "trois"), ("  x ", "\ufeffy")]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_format_gives_the_same_pairs(file, packed, tmp_path):
    a = file(f"a{packed}", "".join(s + "\n" for s, _ in PAIRS))
    b = file(f"b{packed}", "".join(t + "\r\n" for _, t in PAIRS))
    assert [*read_pairs(Parallel(a, b))] == PAIRS
    assert [*read_pairs(file(f"x.tsv{packed}", "".join(f"{s}\t{t}\tmore\n" for s, t in PAIRS)))] == PAIRS
    assert [*read_pairs(file(f"x.csv{packed}", comma_separated(PAIRS)))] == PAIRS
    objects = "\n".join(json.dumps({"id": 1, "target": t, "source": s}) for s, t in PAIRS)
    assert [*read_pairs(file(f"x.jsonl{packed}", objects))] == PAIRS
    assert [*read_pairs(file(f"y.JSONL{packed}", "\n".join(map(json.dumps, PAIRS))))] == PAIRS
    table = pyarrow.table(
        {"id": [1, 2, 3, 4], "target": [t for _, t in PAIRS], "source": [s for s, _ in PAIRS]}
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    assert [*read_pairs(str(tmp_path / "x.parquet"))] == PAIRS


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (b"\xff", "not UTF-8"),
        (b"a\x00", "NUL"),
        (b"", "empty"),
        (b" \xe2\x80\xa8\t", "empty"),
        (b"x" * 21, "too long"),
    ],
)
def test_a_bad_line_on_one_side_drops_the_pair_on_both(file, side, bad, what):
    texts = [[b"s1", b"s2", b"s3"], [b"t1", b"t2", b"t3"]]
    texts[side][1] = bad
    place = Parallel(*(file(name, b"\n".join(lines)) for name, lines in zip("ab", texts, strict=True)))
    report = Report()
    assert [*read_pairs(place, policy="skip", report=report, limit=20)] == [("s1", "t1"), ("s3", "t3")]
    assert report.counts == {what: 1}
    assert str(report.first[0]).startswith(f"{(place.source, place.target)[side]}:2: ")
    assert str(report.first[0]).endswith(", pair dropped")
    with pytest.raises(RegardError, match=rf"{'ab'[side]}:2: "):
        [*read_pairs(place, limit=20)]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_no_pattern_of_bad_lines_shifts_a_pair(tmp_path_factory, good):
    folder = tmp_path_factory.mktemp("pairs")
    for side, name in enumerate("ab"):
        lines = [b"%d\n" % n if row[side] else b"\xff\x00\n" for n, row in enumerate(good)]
        (folder / name).write_bytes(b"".join(lines))
    report = Report()
    found = [*read_pairs(Parallel(str(folder / "a"), str(folder / "b")), policy="skip", report=report)]
    assert found == [(str(n), str(n)) for n, row in enumerate(good) if all(row)]
    assert report.total == len(good) - len(found)


def test_unequal_line_counts_are_named_with_both_counts(file):
    a, b = file("a", "1\n2\n3\n4\n5"), file("b", "1\n2\n3\n")
    for place, longer in [(Parallel(a, b), a), (Parallel(b, a), a)]:
        with pytest.raises(RegardError, match="has 5") as caught:
            [*read_pairs(place)]
        assert "has 3" in str(caught.value)
        report = Report()
        assert len([*read_pairs(place, policy="skip", report=report)]) == 3
        assert report.counts == {"unequal line counts": 2}
        assert str(report.first[0]).startswith(f"{longer}:4: {place.source} has ")
        assert str(report.first[0]).endswith(f", the last 2 of {a} dropped")


def test_what_is_over_is_not_looked_at(file):
    place, report = Parallel(file("a", b"1\n\xff\n\n"), file("b", "1\n")), Report()
    assert [*read_pairs(place, policy="skip", report=report)] == [("1", "1")]
    assert report.counts == {"unequal line counts": 2}
    with pytest.raises(RegardError, match=r"has 3 lines and .* has 1:"):
        [*read_pairs(place)]


def test_an_empty_file_beside_a_full_one(file):
    with pytest.raises(RegardError, match=r"has 0 lines and .* has 2"):
        [*read_pairs(Parallel(file("a", ""), file("b", "1\n2\n")))]
    assert [*read_pairs(Parallel(file("c", ""), file("d", "")))] == []
    assert [*read_pairs(file("a.tsv", ""))] == []


def test_parallel_files_have_no_columns():
    with pytest.raises(RegardError, match="no columns"):
        read_pairs(Parallel("a", "b"), columns=[1, 2])


def test_labels_are_read_as_text(file):
    expected = [("good, film", "1"), ("bad", "0")]
    assert [*read_labelled(file("a.tsv", "good, film\t1\nbad\t0\n"))] == expected
    assert [*read_labelled(file("a.csv", 'label,text\n1,"good, film"\n0,bad\n'))] == expected
    objects = '{"text": "good, film", "label": 1}\n{"text": "bad", "label": 0}\n'
    assert [*read_labelled(file("a.jsonl", objects))] == expected


def test_texts_are_lines_or_a_column(file):
    report = Report()
    assert [*read_text(file("a.txt", "one\n\n \t\u3000\ntwo"), report=report)] == ["one", "two"]
    assert report.counts == {"empty": 2}
    assert [*read_text(file("a.jsonl", '{"text": "one"}\n{"text": " "}\n'))] == ["one"]
    assert [*read_text(file("b.csv", "text\none\n\n"))] == ["one"]
    assert [*read_text(file("a.tsv", "one\tun\n"), column=2)] == ["un"]
    assert [*read_text(file("a.tsv.gz", "en\tfr\none\tun\n"), column="en")] == ["one"]
    with pytest.raises(RegardError, match="no columns"):
        [*read_text(file("a.txt", ""), column=2)]


def test_several_files_are_read_one_after_another_each_with_its_own_header(file, tmp_path):
    file("part-2.tsv", "target\tsource\nzwei\ttwo\n")
    file("part-1.tsv", "one\teins\n")
    file("part-3.jsonl", '{"source": "three", "target": "drei"}\n')
    expected = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert [*read_pairs(str(tmp_path / "part-*"))] == expected
    assert [*read_pairs([str(tmp_path / "part-[12].tsv"), str(tmp_path / "part-3.jsonl")])] == expected
    report = Report()
    file("part-4.tsv", "four\t\n")
    [*read_pairs(str(tmp_path / "part-*"), policy="skip", report=report)]
    assert str(report.first[0]).startswith(f"{tmp_path}/part-4.tsv:1: target: empty")
    with pytest.raises(RegardError, match="no file matches"):
        [*read_pairs(str(tmp_path / "none-*.tsv"))]
    with pytest.raises(RegardError, match="no files"):
        [*read_pairs([])]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(file):
    assert [*read_pairs(file("a[1].tsv", "one\tun\n"))] == [("one", "un")]


def test_patterns_may_be_parallel(file, tmp_path):
    for n, (source, target) in enumerate([("one", "un"), ("two", "deux")]):
        file(f"{n}.en", source)
        file(f"{n}.fr", target)
    place = Parallel(str(tmp_path / "*.en"), str(tmp_path / "*.fr"))
    assert [*read_pairs(place)] == [("one", "un"), ("two", "deux")]
    file("2.en", "three")
    with pytest.raises(RegardError, match=r"stands for 3 files and .* for 2"):
        [*read_pairs(place)]
