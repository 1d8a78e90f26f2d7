"""Separators, quotes and line breaks of tables, compared with the csv module of Python."""

import csv
import io

import pytest
from data.tables import comma_separated

from regard import RegardError
from regard.data.lines import Report
from regard.data.pairs import read_pairs

PAIRS = [("one, two", "un; deux"), ("a\nb\n\nc", 'say "x"'), ("three", "trois")]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_commas_semicolons_and_tabs_separate_a_csv(file, mark, header):
    written = io.StringIO()
    rows = ([("source", "target")] if header else []) + PAIRS
    csv.writer(written, delimiter=mark, lineterminator="\r\n").writerows(rows)
    report = Report()
    path = file("a.csv", written.getvalue())
    assert [*read_pairs(path, report=report)] == PAIRS
    assert ("separated by semicolons" in report.layouts[path]) == (mark == ";")


def test_a_quoted_field_may_go_over_several_lines_and_lines_are_still_counted(file):
    path, report = file("a.csv", comma_separated([PAIRS[1], ["only one"], PAIRS[2]])), Report()
    assert [*read_pairs(path, policy="skip", report=report)] == PAIRS[1:]
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
