"""What a request asks, every part checked: numbers are bounded before anything is computed from them."""

import json
import re
from typing import Any

from starlette.requests import Request

from regard.errors import RegardError
from regard.sight.explorer.exhibit import Change
from regard.sight.explorer.tiles import Place

_LARGEST = 1 << 20  # bytes of a question
_CHANGES = 256  # at once
_CHOSEN = 1 << 16  # heads, queries or keys of a change
_FACTOR = 10_000.0  # a head that speaks louder leaves no number of the others


def where(request: Request) -> tuple[int, int, int]:
    """Which map."""
    return number(request, "exhibit"), number(request, "layer"), number(request, "entry")


def place(request: Request) -> Place:
    """Which tile of it."""
    return Place(**{name: number(request, name) for name in ("down", "across", "row", "column")})


def number(request: Request, name: str) -> int:
    """A number from 0."""
    return _number(request.query_params.get(name, ""), name)


def heads(request: Request) -> list[int]:
    """The heads in the query string, sorted and without duplicates; an empty list means all heads."""
    given = request.query_params.get("heads", "")
    return sorted({_number(each, "heads") for each in given.split(",") if each})


def exact(request: Request) -> bool:
    """Whether an approximate answer will not do."""
    return bool(number(request, "exact"))


async def body(request: Request) -> Any:
    """The JSON of a POST."""
    found = b""
    async for some in request.stream():
        found += some
        if len(found) > _LARGEST:
            raise RegardError(f"a question of more than {_LARGEST:,} bytes")
    try:
        return json.loads(found)
    except (ValueError, RecursionError):  # nested deeper than Python reads
        raise RegardError("the question is not JSON") from None


def touching(given: Any) -> tuple[int, dict[str, str], list[Change]]:
    """What POST /api/touch asks: it goes to the model."""
    match given:
        case {"exhibit": int(exhibit), "input": dict(inputs), "changes": list(changes)}:
            texts = all(isinstance(each, str) for pair in inputs.items() for each in pair)
            if texts and not isinstance(exhibit, bool):  # which is an int in Python, and in JSON is none
                if len(changes) > _CHANGES:
                    raise RegardError(f"{len(changes):,} changes at once: give at most {_CHANGES}")
                return (
                    exhibit,
                    {name: _text(name, text) for name, text in inputs.items()},
                    [_change(each) for each in changes],
                )
    raise RegardError("a touch names its exhibit, input and changes")


def _number(given: str, name: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,30}", given):
        raise RegardError(f"{name}={given[:40]!r}: give a whole number")
    if not 0 <= int(given) < 1 << 31:
        raise RegardError(f"{name}={given}: give a number from 0")
    return int(given)


def _text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RegardError(
            f"{name}: character {error.start} is half of a surrogate pair, which no text has: leave it out"
        ) from None
    return text


def _change(given: Any) -> Change:
    match given:
        case {"kind": "drop" | "scale" | "uniform" | "forbid" as kind, "layer": str(layer)}:
            factor = given.get("factor", 1.0)
            if type(factor) not in (int, float) or not abs(factor) <= _FACTOR:  # NaN is not
                raise RegardError(
                    f"factor {str(factor)[:40]}: give a number from −{_FACTOR:,.0f} to {_FACTOR:,.0f}"
                )
            chosen = {name: _chosen(name, given.get(name)) for name in ("heads", "queries", "keys")}
            return Change(kind=kind, layer=layer, factor=float(factor), **chosen)
    raise RegardError(f"{str(given)[:80]} is no change: drop, scale, uniform or forbid in a layer")


def _chosen(name: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > _CHOSEN:
        raise RegardError(f"{name}: give a list of at most {_CHOSEN:,} numbers from 0, or null for all")
    if not all(type(each) is int and 0 <= each < 1 << 31 for each in given):
        raise RegardError(f"{name}: give a list of numbers from 0, or null for all")
    return tuple(given)
