"""Files from outside are read within bounds, and JSON and YAML strictly."""

import gzip
import json
import os

import pytest
import yaml

from regard import RegardError
from regard.data import bounded
from regard.data.bounded import (
    DEEPEST,
    MAX_YAML,
    Unpacked,
    check_growth,
    opened,
    parse_json,
    parse_settings,
    parse_yaml,
    read_bytes,
    read_text,
)


def test_a_file_comes_back_whole(tmp_path) -> None:
    (tmp_path / "a").write_bytes("\ufeffé\n".encode())
    assert read_bytes(tmp_path / "a", most=6) == "\ufeffé\n".encode()
    assert read_text(tmp_path / "a", most=6) == "é\n"


def test_a_larger_file_is_refused_before_it_is_read(tmp_path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RegardError, match=r"hole: 1024 GiB, more than 1 MiB$"):
        read_bytes(tmp_path / "hole")


def test_a_file_that_grows_after_it_was_opened_is_read_no_further(tmp_path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    monkeypatch.setattr(bounded, "_check", lambda *_: None)
    with pytest.raises(RegardError, match="more than 10 bytes"):
        read_bytes(tmp_path / "a", most=10)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.mkdir(), "this is a folder"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: None, "no such file"),
    ],
    ids=["fifo", "device", "folder", "loop", "nothing"],
)
def test_what_is_no_regular_file_is_never_waited_for(make, what, tmp_path) -> None:
    make(tmp_path / "it")
    with pytest.raises(RegardError, match=what):
        opened(tmp_path / "it")


def test_odd_names_are_refused_in_one_line(tmp_path) -> None:
    for name in ("a\0b", "\ud800", "x" * 5000):
        with pytest.raises(RegardError, match="cannot be read"):
            opened(os.path.join(tmp_path, name))


def test_a_link_may_not_lead_out_of_the_folder(tmp_path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").write_text("s")
    (run / "own").write_text("o")
    (run / "out").symlink_to(tmp_path / "secret")
    (run / "inside").symlink_to("own")
    (tmp_path / "again").symlink_to(run)
    assert read_text(run / "inside", within=run) == "o"
    assert read_text(tmp_path / "again" / "own", within=tmp_path / "again") == "o"
    for path in (run / "out", run / ".." / "secret"):
        with pytest.raises(RegardError, match="a link that leads out of"):
            read_text(path, within=run)


def test_text_that_is_none_is_named(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(RegardError, match=r"a: not UTF-8 text \(at byte 3\)"):
        read_text(tmp_path / "a")


def test_unpacking_stops_where_it_grows_too_much(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bounded, "PLENTY", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    with opened(tmp_path / "bomb.gz") as file:
        unpacked = Unpacked(tmp_path / "bomb.gz", file)
        with pytest.raises(RegardError, match=r"KiB that unpack to .* or more: at most 64 KiB, or 100 times"):
            list(iter(lambda: unpacked.read(1 << 12), b""))
    assert unpacked.count < 1 << 22, "a quarter of what is in it is never unpacked"


def test_plain_files_and_modest_ones_are_read_to_the_end(tmp_path) -> None:
    data = os.urandom(70_001)
    for name, packed in (("a", data), ("a.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(packed)
        with opened(tmp_path / name) as file:
            unpacked = Unpacked(name, file)
            assert b"".join(iter(lambda reader=unpacked: reader.read(999), b"")) == data
            assert unpacked.count == 70_001


def test_a_little_may_unpack_to_plenty() -> None:
    check_growth("x", 1, bounded.PLENTY)
    check_growth("x", 1 << 20, 100 << 20)
    with pytest.raises(RegardError, match="1 MiB that unpack to"):
        check_growth("x", 1 << 20, (100 << 20) + 1)


@pytest.mark.parametrize(
    "text", ["{}", '{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00"]}', "[[[]]]", '"a"', "7"]
)
def test_json_is_read_as_everybody_reads_it(text) -> None:
    assert parse_json(text, "x.json") == json.loads(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is there twice"),
        ("[1e999]", "1e999 is not a finite number"),
        ("[NaN]", "NaN is not a finite number"),
        ("[-Infinity]", "-Infinity is not a finite number"),
        ("[9223372036854775808]", "too large a number"),
        ("[%s]" % ("9" * 5000), "too large a number"),
        ("[" * 100_000, "inside each other"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "more than 64 mappings or lists inside each other"),
        ('{"a":' * 200 + "1" + "}" * 200, "more than 64 mappings or lists inside each other"),
        ("[" + "[]," * 1_000_000 + "[]]", "more than 1,000,000 values"),
        ('["\\ud800"]', "lone surrogate"),
        ("{", "is not JSON"),
        ("", "is not JSON"),
    ],
    ids=lambda value: value[:20] if len(value) > 60 else value,
)
def test_json_that_cannot_be_trusted_is_refused(text, what) -> None:
    with pytest.raises(RegardError, match=r"^x\.json is not JSON: ") as refused:
        parse_json(text, "x.json")
    assert what in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_log_of_numbers_may_hold_what_is_no_number() -> None:
    found = parse_json("[NaN, Infinity, 1e999]", "log", finite=False)
    assert found[0] != found[0]
    assert found[1:] == [float("inf")] * 2


def test_the_deepest_json_that_is_allowed_is_read() -> None:
    assert parse_json("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "x") is not None


def test_settings_are_a_mapping() -> None:
    assert parse_settings('{"a": 1}', "x") == {"a": 1}
    with pytest.raises(RegardError, match="does not hold settings, but list"):
        parse_settings("[]", "x")


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [1.5, yes, ~, 'x', 0x1f, 1_000]",
        "- {a: {b: c}}",
        "text",
        "",
        "a: |\n  two\n  lines\n",
        "1: 2",
    ],
)
def test_yaml_is_read_as_everybody_reads_it(text) -> None:
    assert parse_yaml(text, "x.yaml") == yaml.safe_load(text)


def test_a_date_is_text() -> None:
    assert parse_yaml("about: 2026-11-16", "x.yaml") == {"about": "2026-11-16"}
    assert parse_yaml("about: 2026-99-99", "x.yaml") == {"about": "2026-99-99"}


BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [*{a}, *{a}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("data: 1\nmodel: 2\ndata: 3\n", "x.yaml:3: not YAML: 'data' is there twice"),
        ("model: {width: 1, width: 2}", "'width' is there twice"),
        (BOMB, "an alias"),
        (MERGES, "an alias"),
        ("<<: {a: 1}", "a merge key"),
        ("a: 1.0e+999", "not a finite number"),
        ("a: .nan", "not a finite number"),
        ("a: " + "9" * 5000, "no int that can be read"),
        ("a: 0x" + "f" * 20_000, "too large a number"),
        ("a: 9223372036854775808", "too large a number"),
        ("a: !!int many", "no int that can be read"),
        ("a: !!float many", "no float that can be read"),
        ("a: !!bool many", "no bool that can be read"),
        ("a: !!binary aGVsbG8=", "is not read here"),
        ("a: !!set {b, c}", "is not read here"),
        ("a: !!python/name:os.system", "is not read here"),
        ("a: !mine b", "is not read here"),
        ("[" * 10_000, "inside each other"),
        ("? " * 10_000, "inside each other"),
        ("- " * 10_000, "inside each other"),
        ("[a, b]: c", "a key that is no text"),
        ("? {a: b}\n: c", "a key that is no text"),
        ('a: "\\ud800"', "lone surrogate"),
        ("a: [1", "x.yaml:1: not YAML"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("a: *nobody", "an alias"),
        ("a: \x00", "not YAML"),
        ("x" * (MAX_YAML + 1), "characters, more than 65,536"),
    ],
    ids=lambda value: value[:20] if len(value) > 60 else value,
)
def test_yaml_that_cannot_be_trusted_is_refused(text, what) -> None:
    with pytest.raises(RegardError, match=r"^x\.yaml(:\d+)?: not YAML: ") as refused:
        parse_yaml(text, "x.yaml")
    assert what in str(refused.value)
    assert "\n" not in str(refused.value)
