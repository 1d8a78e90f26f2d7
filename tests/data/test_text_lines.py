import gzip
import io
import tracemalloc

import pytest

from regard import RegardError
from regard.data.text_lines import Flaw, LineProblem, Report, judged, read_lines


@pytest.fixture
def file(tmp_path):
    def write(content: bytes, name: str = "a.txt") -> str:
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r", ["a"]),
        (b"a\n\n\nb\n", ["a", "", "", "b"]),
        ("a\u2028b\u2029c\x0cd\x0be\x85f\x1cg\n".encode(), ["a\u2028b\u2029c\x0cd\x0be\x85f\x1cg"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\xef\xbb\xbf", [""]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n", ["\ufeffa"]),
        ("a\n\ufeffb\n".encode(), ["a", "\ufeffb"]),
        ("é😀\n".encode(), ["é😀"]),
    ],
)
def test_a_line_ends_at_a_newline_and_nowhere_else(file, content, lines):
    assert [*read_lines(file(content))] == lines
    assert [*read_lines(file(gzip.compress(content), "packed"))] == lines


def test_pieces_of_reading_do_not_show(file, monkeypatch):
    monkeypatch.setattr("regard.data.text_lines._PIECE", 3)
    content = "one\r\ntwo é😀\n\nfour\r".encode()
    assert [*read_lines(file(content))] == ["one", "two é😀", "", "four"]
    assert [*read_lines(file(gzip.compress(content)))] == ["one", "two é😀", "", "four"]


def test_a_gzip_file_of_several_members_is_one_text(file):
    assert [*read_lines(file(gzip.compress(b"a\nb") + gzip.compress(b"c\n")))] == ["a", "bc"]


BAD = b"good\nbad \xff here\nal\x00so bad\n" + b"x" * 30 + b"\nfine\n"


def test_what_is_skipped_is_reported_by_file_and_line(file):
    path, report = file(BAD), Report(keep=2)
    assert [*read_lines(path, policy="skip", report=report, limit=20)] == ["good", "fine"]
    assert report.counts == {"not UTF-8": 1, "NUL": 1, "too long": 1}
    assert report.total == 3
    assert str(report.first[0]) == f"{path}:2: not UTF-8 (byte 0xff at byte 5), line dropped"
    assert str(report.first[1]) == f"{path}:3: a NUL at character 3, line dropped"
    assert len(report.first) == 2
    assert str(report).splitlines()[-1] == "3 problems in all (not UTF-8: 1, NUL: 1, too long: 1)"


def test_an_error_stops_at_the_line(file):
    lines = read_lines(path := file(BAD))
    assert next(lines) == "good"
    with pytest.raises(RegardError) as caught:
        next(lines)
    assert str(caught.value).startswith(f"{path}:2: not UTF-8 (byte 0xff at byte 5), stopped there")
    assert "\n" not in str(caught.value)


def test_a_flaw_keeps_its_place_among_the_lines(file):
    found = [*judged(file(BAD), limit=20)]
    assert [isinstance(line, Flaw) for line in found] == [False, True, True, True, False]


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
@pytest.mark.parametrize("piece", [83, 1 << 20])  # bytes: the end of a line may come with the next piece
def test_the_limit_counts_characters(file, letter, piece, monkeypatch):
    monkeypatch.setattr("regard.data.text_lines._PIECE", piece)
    path = file(("\ufeff" + letter * 20 + "\r\n" + letter * 21 + "\n").encode())
    assert [*read_lines(path, limit=20, policy="skip")] == [letter * 20]


def test_no_surrogate_gets_in_through_bytes(file):
    assert [*read_lines(file(b"a\xed\xa0\x80b\nc\n"), policy="skip")] == ["c"]


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_line_of_a_million_characters_takes_little_memory(file, policy):
    path = file("é".encode() * 1_000_000 + b"\nshort\n")
    tracemalloc.start()
    try:
        if policy == "error":
            with pytest.raises(RegardError, match=r":1: longer than 10000 characters"):
                [*read_lines(path)]
        else:
            assert [*read_lines(path, policy="skip")] == ["short"]
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_a_line_without_end_is_given_up(file, policy, tmp_path):
    """Three hundred million letters, packed small: reading stops long before."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) as packed:
        for _ in range(75):
            packed.write(b"x" * (4 << 20))
    path = file(b"ok\n", "first")
    path = file(raw.getvalue(), "endless.gz")
    tracemalloc.start()
    try:
        with pytest.raises(RegardError, match=r"endless.gz:1: no end of this line after 6\d MiB"):
            [*read_lines(path, policy=policy)]
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_many_long_lines_are_not_one_without_end(file, monkeypatch):
    monkeypatch.setattr("regard.data.text_lines._ENDLESS", 1000)
    monkeypatch.setattr("regard.data.text_lines._PIECE", 7)
    report = Report()
    assert [
        *read_lines(
            file(b"x" * 500 + b"\nfine\n" + (b"x" * 500 + b"\n") * 9), policy="skip", report=report, limit=20
        )
    ] == ["fine"]
    assert report.counts == {"too long": 10}


def test_a_limit_may_be_larger_than_what_is_given_up(file, monkeypatch):
    monkeypatch.setattr("regard.data.text_lines._ENDLESS", 10)
    monkeypatch.setattr("regard.data.text_lines._PIECE", 7)
    assert [*read_lines(file(b"x" * 90), limit=100)] == ["x" * 90]
    with pytest.raises(RegardError, match="no end of this line"):
        [*read_lines(file(b"x" * 2000), limit=100, policy="skip")]


@pytest.mark.parametrize("policy", ["error", "skip"])
@pytest.mark.parametrize(
    ("content", "named"),
    [
        (bytes(1 << 20), "binary"),
        (bytes((97 * n * n + n // 7) % 256 for n in range(5000)), "binary"),
        ("a text of a few words, and on\n".encode("utf-16-le") * 9, "binary"),
        ("text\n".encode("utf-16"), "UTF-16"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"PK\x03\x04", "zip"),
    ],
)
def test_what_is_no_text_is_refused_whatever_the_policy(file, content, named, policy):
    with pytest.raises(RegardError, match=named) as caught:
        [*read_lines(file(content), policy=policy)]
    assert "\n" not in str(caught.value)
    assert "a.txt" in str(caught.value)


def test_a_missing_file_a_folder_and_a_broken_gzip_are_one_line(tmp_path, file):
    packed = gzip.compress(b"some text, and more of it\n" * 1000)
    corrupt = bytearray(packed)
    corrupt[len(packed) // 2] ^= 0xFF
    for path, named in [
        (str(tmp_path / "none"), "no such file"),
        (str(tmp_path), "folder"),
        (file(packed[:-20], "cut.gz"), "broken gzip"),
        (file(bytes(corrupt), "corrupt.gz"), "broken gzip"),
        (file(packed[:2], "head.gz"), "broken gzip"),
        (file(packed + b"rubbish", "tail.gz"), "broken gzip"),
        (str(tmp_path / "cut.gz" / "within"), "cannot be read"),
    ]:
        with pytest.raises(RegardError, match=named) as caught:
            [*read_lines(path, policy="skip")]
        assert path in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_read(file, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    path = file(b"a")
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(RegardError, match=r"cannot be read \(Permission denied\)"):
        [*read_lines(path)]


def test_a_problem_prints_as_one_line():
    assert str(LineProblem("f", 3, "wrong", "dropped")) == "f:3: wrong, dropped"


def test_a_policy_that_is_none_is_refused(file, as_a_user):
    with pytest.raises(RegardError, match="ignore"):
        [*read_lines(file(b""), policy="ignore")]
