"""Records, met as pairs."""

import json
import sys

import pyarrow
import pytest
from data.tables import comma_separated
from pyarrow import parquet

from regard import RegardError
from regard.data.lines import Report
from regard.data.pairs import read_pairs


@pytest.mark.parametrize("columns", [["fr", "en"], [3, 1]])
def test_columns_are_named_or_numbered_from_one(file, columns, tmp_path):
    rows = [["en", "de", "fr"], ["one", "eins", "un"], ["two", "zwei", "deux"]]
    expected = [("un", "one"), ("deux", "two")]
    if columns == [3, 1]:  # without names there is no header
        rows, header = rows[1:], rows[0]
    else:
        header = rows[0]
    assert [
        *read_pairs(file("a.tsv", "".join("\t".join(row) + "\n" for row in rows)), columns=columns)
    ] == expected
    assert [*read_pairs(file("a.csv", comma_separated(rows)), columns=columns)] == expected
    data = [["one", "eins", "un"], ["two", "zwei", "deux"]]
    records = data if columns == [3, 1] else [dict(zip(header, row, strict=True)) for row in data]
    assert [*read_pairs(file("a.jsonl", "\n".join(map(json.dumps, records))), columns=columns)] == expected
    table = pyarrow.table({name: [row[n] for row in data] for n, name in enumerate(header)})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert [*read_pairs(str(tmp_path / "a.parquet"), columns=columns)] == expected


def test_a_header_with_the_usual_names_is_a_header(file):
    assert [*read_pairs(file("a.tsv", "target\tsource\nun\tone\n"))] == [("one", "un")]
    assert [*read_pairs(file("b.tsv", "one\tun\n"))] == [("one", "un")]


@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [
        ("a.tsv", b"only one column", "missing column"),
        ("a.tsv", b"one\t", "empty"),
        ("a.tsv", b"one\t\xff", "not UTF-8"),
        ("a.csv", b"one", "missing column"),
        ("a.csv", b'"a"b,c', "not CSV"),
        ("a.csv", b"a\rb,c", "not CSV"),
        ("a.csv", b"", "empty"),
        ("a.tsv", b" \t ", "empty"),
        ("a.jsonl", b"  ", "empty"),
        ("a.jsonl", b'{"source": "a", "source": "b", "target": "c"}', "not JSON"),
        ("a.jsonl", b"{", "not JSON"),
        ("a.jsonl", b"[" * 90_000, "not JSON"),
        ("a.jsonl", b"7", "not a record"),
        ("a.jsonl", b'{"source": "a"}', "missing column"),
        ("a.jsonl", b'["a"]', "missing column"),
        ("a.jsonl", b'{"source": "a", "target": ["b"]}', "not text"),
        ("a.jsonl", b'{"source": "a", "target": null}', "empty"),
        ("a.jsonl", b'{"source": "a", "target": "\\u0000"}', "NUL"),
        ("a.jsonl", b'{"source": "a", "target": "\\ud800"}', "half a character"),
        ("a.jsonl", b'{"source": "a", "target": "' + b"x" * 10_001 + b'"}', "too long"),
    ],
)
def test_a_bad_record_is_dropped_and_named(file, name, line, kind):
    good = {"a.tsv": b"s\tt", "a.csv": b"s,t", "a.jsonl": b'{"source": "s", "target": "t"}'}[name]
    path, report = file(name, b"\n".join([good, line, good])), Report()
    assert [*read_pairs(path, policy="skip", report=report)] == [("s", "t")] * 2
    assert report.counts == {kind: 1}
    assert report.first[0].line == 2
    with pytest.raises(RegardError, match=r":2: ") as caught:
        [*read_pairs(path)]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_missing_column_names_those_present(file, tmp_path, policy):
    parquet.write_table(pyarrow.table({"en": ["a"], "de": ["b"]}), tmp_path / "a.parquet")
    for path in [file("a.tsv", "en\tde\na\tb\n"), file("a.csv", "en,de\na,b\n"), str(tmp_path / "a.parquet")]:
        with pytest.raises(RegardError, match=r"no column 'fr', there are: 'en', 'de'"):
            [*read_pairs(path, columns=["en", "fr"], policy=policy)]
    with pytest.raises(RegardError, match=r":1: no column 'fr', there are: 'en'"):
        [*read_pairs(file("a.jsonl", '{"en": "a"}'), columns=["en", "fr"])]
    with pytest.raises(RegardError, match=r"no column 3, there are: 'en', 'de'"):
        [*read_pairs(str(tmp_path / "a.parquet"), columns=[1, 3])]
    with pytest.raises(RegardError, match="empty, a header with 'en', 'fr'"):
        [*read_pairs(file("b.tsv", ""), columns=["en", "fr"])]


@pytest.mark.parametrize(
    ("columns", "named"),
    [(["a"], "give 2"), ([0, 1], "from 1"), (["a", 1], "either"), ("ab", "give 2"), ([True, 1], "either")],
)
def test_columns_that_make_no_sense(columns, named, as_a_user):
    with pytest.raises(RegardError, match=named):
        read_pairs("a.tsv", columns=columns)


@pytest.mark.parametrize("name", ["a.text", "a", "a.gz", "tsv", "a.parquet.gz", "a.tsv.zip"])
def test_an_unknown_suffix_lists_the_known_ones(file, name):
    with pytest.raises(RegardError, match=r"\.tsv, \.csv, \.txt, \.jsonl, \.parquet"):
        [*read_pairs(file(name, "a\tb\n"))]


def test_parquet_that_is_broken_or_missing_or_not_installed(file, tmp_path, monkeypatch):
    with pytest.raises(RegardError, match="cannot be read as Parquet") as caught:
        [*read_pairs(file("a.parquet", b"PAR1 no"))]
    assert "\n" not in str(caught.value)
    with pytest.raises(RegardError, match="no such file"):
        [*read_pairs(str(tmp_path / "none.parquet"))]
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(RegardError, match="cannot be read as Parquet"):
        [*read_pairs(str(tmp_path / "folder.parquet"))]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[parquet\]'"):
        [*read_pairs(str(tmp_path / "a.parquet"))]


def test_parquet_rows_are_counted_from_one(tmp_path):
    table = pyarrow.table({"a": ["s1", None, "s3", "s4"], "b": ["t1", "t2", "t3", "\0"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    report = Report()
    found = [*read_pairs(str(tmp_path / "a.parquet"), columns=[1, 2], policy="skip", report=report)]
    assert found == [("s1", "t1"), ("s3", "t3")]
    assert [(problem.line, problem.kind) for problem in report.first] == [(2, "empty"), (4, "NUL")]


HUGGING_FACE = [
    {"id": str(n), "translation": {"en": en, "fr": fr}} for n, (en, fr) in enumerate([("a", "b")] * 3)
]


@pytest.mark.parametrize("columns", [["en", "fr"], ["translation.en", "translation.fr"]])
def test_nested_columns_are_found_by_their_own_name_or_by_their_path(file, tmp_path, columns):
    report = Report()
    path = file("a.jsonl", "\n".join(map(json.dumps, HUGGING_FACE)))
    assert [*read_pairs(path, columns=columns, report=report)] == [("a", "b")] * 3
    assert report.layouts[path] == f"columns {columns[0]!r} and {columns[1]!r} of objects"
    parquet.write_table(pyarrow.Table.from_pylist(HUGGING_FACE), tmp_path / "a.parquet")
    assert [*read_pairs(str(tmp_path / "a.parquet"), columns=columns)] == [("a", "b")] * 3


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_columns_that_nobody_named_are_listed_and_not_guessed(file, tmp_path, policy):
    parquet.write_table(pyarrow.Table.from_pylist(HUGGING_FACE), tmp_path / "a.parquet")
    for path in (file("a.jsonl", "\n".join(map(json.dumps, HUGGING_FACE))), str(tmp_path / "a.parquet")):
        with pytest.raises(
            RegardError, match=r"'id', 'translation.en', 'translation.fr'; say which"
        ) as caught:
            [*read_pairs(path, policy=policy)]
        assert "data.columns=[translation.en,translation.fr]" in str(caught.value)


def test_a_nested_name_that_stands_twice_is_not_guessed(file):
    line = json.dumps({"human": {"en": "a", "fr": "b"}, "machine": {"en": "c", "fr": "d"}})
    with pytest.raises(RegardError, match="2 columns are called 'en'"):
        [*read_pairs(file("a.jsonl", line), columns=["en", "fr"])]
    assert [*read_pairs(file("a.jsonl", line), columns=["machine.en", "human.fr"])] == [("c", "b")]
