"""Records of files; pairs, texts and labelled texts."""

import csv
import io
import json
import sys

import pyarrow
import pytest
from data.tables import comma_separated
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from regard import RegardError
from regard.data.records import Wanted, is_header, read_labelled, read_pairs, read_text
from regard.data.text_lines import Parallel, Report


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
    with pytest.raises(RegardError, match=r"means 3 files and .* means 2"):
        [*read_pairs(place)]


ROWS = [["1", "hello", "bonjour"], ["2", "thanks", "merci"], ["3", "yes", "oui"]]
WANTED = Wanted(usual=("source", "target"))


def test_a_header_of_other_names_stops_with_the_choices(file):
    path = file("a.csv", comma_separated([["id", "english", "french"], *ROWS]))
    with pytest.raises(RegardError) as caught:
        [*read_pairs(path, policy="skip")]
    assert str(caught.value) == (
        f"{path}: it has the columns 'id', 'english', 'french'; say which to take as source and target, such as "
        "data.columns=[english,french] (for evaluate: --columns english,french)"
    )
    expected = [(en, fr) for _, en, fr in ROWS]
    assert [*read_pairs(path, columns=["english", "french"])] == expected
    assert [*read_pairs(path, columns=[2, 3])] == expected
    assert [*read_pairs(path, columns=["French", " english"])] == [(fr, en) for en, fr in expected]


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (["english", "french"], True),
        (["ID", "Source Text", "target_text"], True),
        (["", "en", "fr"], True),
        (["sentence1", "sentence2"], True),
        (["Target", "SOURCE"], True),
        (["hello", "bonjour"], False),
        (["image", "image"], False),
        (["Go.", "Va !", "CC-BY 2.0"], False),
        (["text", "bonjour"], False),
        (["", ""], False),
        (["1", "en"], False),
        (["source 0", "target 0"], False),
    ],
)
def test_a_first_row_is_a_header_if_all_of_it_are_names_of_columns(first, header):
    assert is_header(first, [["a b", "c d", "e f"]] * 3, WANTED) == header


def test_a_list_of_languages_has_no_header():
    rows = [["english", "en"], ["french", "fr"], ["german", "de"]]
    assert not is_header(rows[0], rows[1:], WANTED)
    assert is_header(["language", "name"], [["french", "français"], ["german", "de"]], WANTED)


def test_a_column_of_numbers_but_for_its_first_row_has_a_header(file):
    table = [["nr.", "phrase a", "phrase b"], *ROWS]
    assert is_header(table[0], table[1:], WANTED)
    assert not is_header(ROWS[0], ROWS[1:], WANTED)
    path = file("a.tsv", "".join("\t".join(row) + "\n" for row in table))
    assert [*read_pairs(path, columns=[2, 3])] == [(en, fr) for _, en, fr in ROWS]


def test_rows_without_a_header_are_read_as_they_are_and_said_to_be(file):
    report = Report()
    path = file("a.tsv", "hello\tbonjour\tCC-BY\nyes\toui\tCC-BY\n")
    assert [*read_pairs(path, report=report)] == [("hello", "bonjour"), ("yes", "oui")]
    assert report.layouts == {path: "columns 1 and 2 of 3; the first line is no header"}
    path = file("b.csv", "target,source\nun,one\n")
    assert [*read_pairs(path, report=report)] == [("one", "un")]
    assert report.layouts[path] == "columns 'source' and 'target'; the first line is a header"


def test_a_column_of_numbers_beside_others_is_not_taken_for_a_text(file):
    path = file("a.csv", comma_separated(ROWS))
    with pytest.raises(RegardError, match=r"column 1 of 3 holds numbers alone, .*data\.columns=\[2,3\]"):
        [*read_pairs(path)]
    assert next(read_pairs(path, columns=[2, 3])) == ("hello", "bonjour")
    assert [*read_pairs(file("b.tsv", "1\tun\n2\tdeux\n"))] == [("1", "un"), ("2", "deux")]  # all there is
    labels = file("c.tsv", "good\t1\tme\nbad\t0\tyou\n")
    assert [*read_labelled(labels)] == [("good", "1"), ("bad", "0")]


def test_two_columns_of_one_name_are_not_guessed(file):
    with pytest.raises(RegardError, match="2 columns are called 'text'"):
        [*read_labelled(file("a.csv", "text,label,text\na,b,c\n"))]


def test_the_only_column_of_texts_is_taken_whatever_its_name(file):
    assert [*read_text(file("a.csv", "sentence\none\ntwo\n"))] == ["one", "two"]
    with pytest.raises(RegardError, match=r"data\.column=review "):
        [*read_text(file("b.csv", "id,review\n1,one\n2,two\n"))]


CSV_PAIRS = [("one, two", "un; deux"), ("a\nb\n\nc", 'say "x"'), ("three", "trois")]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_commas_semicolons_and_tabs_separate_a_csv(file, mark, header):
    written = io.StringIO()
    rows = ([("source", "target")] if header else []) + CSV_PAIRS
    csv.writer(written, delimiter=mark, lineterminator="\r\n").writerows(rows)
    report = Report()
    path = file("a.csv", written.getvalue())
    assert [*read_pairs(path, report=report)] == CSV_PAIRS
    assert ("separated by semicolons" in report.layouts[path]) == (mark == ";")


def test_a_quoted_field_may_go_over_several_lines_and_lines_are_still_counted(file):
    path, report = (
        file("a.csv", comma_separated([CSV_PAIRS[1], ["only one"], CSV_PAIRS[2]])),
        Report(),
    )
    assert [*read_pairs(path, policy="skip", report=report)] == CSV_PAIRS[1:]
    assert report.first[0].line == 5  # the first record takes four lines


def test_separators_inside_the_text_do_not_decide(file):
    path = file("a.csv", "Hello; you,Salut; toi\nyes,oui\nno; no,non\n")
    assert [*read_pairs(path)] == [("Hello; you", "Salut; toi"), ("yes", "oui"), ("no; no", "non")]
    path = file("b.csv", "Well, yes;Eh bien, oui\nno;non\n")
    assert [*read_pairs(path)] == [("Well, yes", "Eh bien, oui"), ("no", "non")]
    path = file("c.csv", "source;target;a,b\none;un;x\n")
    assert [*read_pairs(path)] == [("one", "un")]


def test_separators_that_do_not_decide_are_asked_about(file):
    with pytest.raises(RegardError, match=r"Cut by commas 2, 2; by semicolons 2, 2 fields a row: quote"):
        [*read_pairs(file("a.csv", "a,b;c\nd,e;f\n"))]


@pytest.mark.parametrize("policy", ["error", "skip"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('a,b\n"one\ntwo, three\n', "does not end properly"),
        ('a,b\n"one\ntwo"x,three\nc,d\n', "does not end properly"),
        ('a,b\n"one\n' + "more\n" * 100 + '",c\n', "does not end within 200 characters"),
        (b'a,b\n"one\n\xff\n",c\n', r"has a line \(3\) that is not UTF-8"),
    ],
)
def test_a_quote_left_open_stops_for_what_follows_cannot_be_trusted(file, policy, text, what):
    with pytest.raises(RegardError, match=rf"a.csv:2: a quoted field that begins here {what}") as caught:
        [*read_pairs(file("a.csv", text), policy=policy, limit=20)]
    assert "\n" not in str(caught.value)


def test_a_txt_has_a_tab_between_source_and_target(file):
    assert [*read_pairs(file("a.txt", "one\tun\ntwo\tdeux\n"))] == [("one", "un"), ("two", "deux")]
    with pytest.raises(RegardError, match=r"no tab in its first line"):
        [*read_pairs(file("b.txt", "one un\n"), policy="skip")]


def test_quotes_are_letters_in_a_tsv(file):
    assert [*read_pairs(file("a.tsv", '"one\t"un"\n'))] == [('"one', '"un"')]
