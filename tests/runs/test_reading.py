"""Plain values become settings, and every mistake is named where it stands."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from regard import RegardError
from regard.runs.reading import build, describe, place, plain
from regard.runs.recipe import resolve


@dataclass(frozen=True, kw_only=True)
class Wheel:
    KIND: ClassVar[str] = "wheel"
    spokes: int = 3


@dataclass(frozen=True, kw_only=True)
class Sail:
    KIND: ClassVar[str] = "sail"
    area: float


@dataclass(frozen=True, kw_only=True)
class Cart:
    name: str
    moved: Wheel | Sail = field(default_factory=Wheel)
    colour: Literal["red", "green"] = "red"
    size: tuple[int, float] = (1, 2.0)
    load: str | int | None = None
    tags: tuple[str, ...] = ()
    open: bool = False


def test_settings_come_back_as_they_were_written() -> None:
    cart = Cart(name="a", moved=Sail(area=2.5), size=(3, 4.0), load=7, tags=("x", "y"), open=True)
    assert build(Cart, plain(cart)) == cart
    assert plain(cart)["moved"] == {"kind": "sail", "area": 2.5}


def test_what_is_left_out_is_the_default() -> None:
    assert build(Cart, {"name": "a"}) == Cart(name="a")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "name is missing: give text"),
        ({"name": 3}, "name: 3 is not text"),
        ({"name": "a", "colr": "red"}, "colr: no such setting; did you mean colour (one of red, green)?"),
        (
            {"name": "a", "zzz": 1},
            "zzz: no such setting; there are name, moved, colour, size, load, tags, open",
        ),
        ({"name": "a", "colour": "gren"}, "colour: 'gren' is none of red, green; did you mean green?"),
        (
            {"name": "a", "moved": {"kind": "whel"}},
            "moved.kind: 'whel' is none of wheel, sail; did you mean wheel?",
        ),
        ({"name": "a", "moved": {"spokes": 3}}, "moved.kind is missing: one of wheel, sail"),
        ({"name": "a", "moved": {"kind": "wheel", "spokes": 2.5}}, "moved.spokes: 2.5 is not a whole number"),
        (
            {"name": "a", "moved": {"kind": "wheel", "spokes": True}},
            "moved.spokes: True is not a whole number",
        ),
        ({"name": "a", "moved": {"kind": "sail"}}, "moved.area is missing: give a number"),
        ({"name": "a", "moved": {"kind": "sail", "area": "big"}}, "moved.area: 'big' is not a number"),
        ({"name": "a", "size": [1]}, "size: [1] is not a list of 2: a whole number, a number"),
        ({"name": "a", "size": [1, "x"]}, "size[1]: 'x' is not a number"),
        ({"name": "a", "load": 2.5}, "load: 2.5 is not text or a whole number"),
        ({"name": "a", "tags": "x"}, "tags: 'x' is not a list, each text"),
        ({"name": "a", "open": "yes"}, "open: 'yes' is not true or false"),
        (7, "the recipe: 7, but settings are wanted: name, moved, colour, size, load, tags, open"),
    ],
)
def test_a_mistake_is_named(values: object, said: str) -> None:
    with pytest.raises(RegardError) as error:
        build(Cart, values)
    assert str(error.value) == said


def test_a_number_that_yaml_reads_as_text_is_a_number() -> None:
    assert build(Sail, {"area": "1e-3"}).area == 0.001
    assert build(Sail, {"area": 2}).area == 2.0


def test_one_value_is_placed_among_others_and_nothing_else_changes() -> None:
    values = {"a": {"b": 1, "c": 2}, "d": 3}
    assert place(values, "a.b", 9) == {"a": {"b": 9, "c": 2}, "d": 3}
    assert place(values, "e.f", 9) == {**values, "e": {"f": 9}}
    assert values == {"a": {"b": 1, "c": 2}, "d": 3}
    with pytest.raises(RegardError, match="nothing below a single value"):
        place(values, "d.x", 1)


def test_types_are_described_in_words() -> None:
    assert describe(int | None) == "a whole number"
    assert describe(Wheel) == "settings (kind, spokes)"


@pytest.mark.parametrize(
    "values",
    [
        {"model": {"kind": ["a"]}, "data": {"kind": "numbers"}},
        {"model": {"kind": {"a": 1}}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": float("nan")}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": "1e999"}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": 10**400}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "positions": ["x" * 10_000]}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "x" * 10_000: 1}, "data": {"kind": "numbers"}},
        {"model": {"kind": "transformer", "preset": ["tiny"]}, "data": {"kind": "numbers"}},
        {"model": "x" * 10_000, "data": {"kind": "numbers"}},
    ],
    ids=range(9),
)
def test_values_that_nobody_means_are_refused_in_a_line_that_can_be_read(values) -> None:
    with pytest.raises(RegardError) as refused:
        resolve(values)
    assert len(str(refused.value)) < 3000
