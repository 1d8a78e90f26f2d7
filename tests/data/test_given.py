"""JSON and YAML are read strictly, and limited fields within their limits."""

import json
from dataclasses import dataclass

import pytest
import yaml

from regard import RegardError
from regard.data.given import DEEPEST, MAX_YAML, Limited, limited, parse_json, parse_settings, parse_yaml


@dataclass(frozen=True)
class Plan(Limited):
    steps: int = limited(5, 1, 1000)
    share: float = limited(0.5, 0, 1)
    betas: tuple[float, float] = limited((0.9, 0.98), 0, below=1)
    name: str = "any"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"steps": 0}, "steps=0: at least 1"),
        ({"steps": 1001}, "steps=1001: at most 1,000"),
        ({"share": 1.5}, "share=1.5: a share, from 0 to 1"),
        ({"share": float("nan")}, "share=nan: a share, from 0 to 1"),
        ({"betas": (0.9, 1.0)}, "betas=[0.9, 1.0]: each from 0 to below 1"),
    ],
)
def test_a_field_outside_its_limits_is_named(values, said) -> None:
    with pytest.raises(RegardError) as refused:
        Plan(**values)
    assert str(refused.value) == said


def test_fields_at_their_limits_are_taken() -> None:
    assert Plan(steps=1000, share=0, betas=(0, 0.999)).steps == 1000
    assert Plan(steps=1, share=1).share == 1


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
