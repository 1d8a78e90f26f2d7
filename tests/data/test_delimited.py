"""Tables: their separators, headers and columns."""

import csv
import io

import pytest
from data.tables import comma_separated

from regard import RegardError
from regard.data.delimited import Wanted, is_header
from regard.data.records import read_labelled, read_pairs, read_text
from regard.data.text_lines import Report

ROWS = [["1", "hello", "bonjour"], ["2", "thanks", "merci"], ["3", "yes", "oui"]]
PAIRS = Wanted(usual=("source", "target"))


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
    assert is_header(first, [["a b", "c d", "e f"]] * 3, PAIRS) == header


def test_a_list_of_languages_has_no_header():
    rows = [["english", "en"], ["french", "fr"], ["german", "de"]]
    assert not is_header(rows[0], rows[1:], PAIRS)
    assert is_header(["language", "name"], [["french", "français"], ["german", "de"]], PAIRS)


def test_a_column_of_numbers_but_for_its_first_row_has_a_header(file):
    table = [["nr.", "phrase a", "phrase b"], *ROWS]
    assert is_header(table[0], table[1:], PAIRS)
    assert not is_header(ROWS[0], ROWS[1:], PAIRS)
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
