"""The watched calls of any model as an example: with the tokens or the picture that belong to their axes."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.sight.explorer.example import Entry, Example, Panel, Picture, Plain, Side, Text
from regard.sight.layer import Layer
from regard.sight.pictures.drawable import Photo, photo

if TYPE_CHECKING:
    from regard.sight.seen import Seen

Tokens = Sequence[str] | Sequence[Sequence[str]]  # of one text, or one list for each row of the batch


def example_of(
    seen: "Seen",
    tokens: Tokens | None = None,
    *,
    memory: Tokens | None = None,
    image: Photo | None = None,
    grid: tuple[int, int] | None = None,
    name: str = "",
) -> Example:
    """All calls, those of a decoder's steps put together. Tokens label every axis of their length: the
    `memory` along the keys of cross-attention and both axes of the encoder, `tokens` along the others; an image, cut
    into `grid` patches, along axes of as many positions, tokens of the model's own before them.
    """
    layers = _layers(seen)
    if not layers:
        raise RegardError(
            "no attention call was seen, so there is nothing to explore: run the model inside `with watch(...)`"
        )
    rows = max(math.prod(layer.shape[:-3]) for _, layer in layers)
    sides: list[Side] = []
    if tokens is not None:
        sides.append(_text("tokens" if memory is None else "target", tokens, rows))
    if memory is not None:
        sides.append(_text("memory" if tokens is None else "source", memory, rows))
    if image is not None:
        sides.append(_picture(image, grid, rows, layers))
    elif grid is not None:
        raise RegardError(f"grid={grid} without an image: give the image that is cut into it")
    named = len(sides)
    sides.append(Plain())
    panels = tuple(_panel(name, layer, sides, rows, crossing=memory is not None) for name, layer in layers)
    used = {side for panel in panels for side in (panel.query_side, panel.key_side)}
    for number in range(named):
        if number not in used:
            raise RegardError(
                f"{sides[number].length(0)} {sides[number].name} positions, but no axis has as many: attention of "
                + ", ".join(sorted({f"{q} × {k}" for _, layer in layers for q, k in [layer.shape[-2:]]}))
            )
    return Example(
        name=name or _name(tokens) or (type(seen.model).__name__ if seen.model is not None else "attention"),
        about="" if seen.model is None else type(seen.model).__name__,
        kind="attention",
        sides=tuple(sides),
        panels=panels,
        entries=tuple(Entry(name=f"row {row}") for row in range(rows)),
    )


def _layers(seen: "Seen") -> list[tuple[str, Layer]]:
    found: list[tuple[str, Layer]] = []
    for name in seen.names:
        calls = seen.calls(name)
        if len(calls) == 1:
            found.append((name, calls[0]))
            continue
        try:
            found.append((name, seen.stitched(name)))
        except RegardError:  # not the steps of one text: each call is shown by itself
            found += [(f"{name} · call {number + 1}", call) for number, call in enumerate(calls)]
    for _, layer in found:
        layer.intact()  # says what is wrong before a browser opens
    return found


def _panel(name: str, layer: Layer, sides: Sequence[Side], rows: int, *, crossing: bool) -> Panel:
    queries, keys = layer.shape[-2:]
    query_side = _fitting(sides, queries)
    # If both texts have the same length, only the name of the module says which keys these are.
    ahead = crossing and ("cross" in name or queries != keys)
    key_side = _fitting(sides, keys, last=ahead)

    def length(side: int, row: int, padded: int) -> int:
        own = sides[side].length(row)
        return padded if own is None else own

    sizes = [(length(query_side, row, queries), length(key_side, row, keys)) for row in range(rows)]
    return Panel(
        layer=layer,
        name=name,
        query_side=query_side,
        key_side=key_side,
        sizes=tuple(sizes),
        cross=query_side != key_side or queries > keys,
    )


def _fitting(sides: Sequence[Side], size: int, *, last: bool = False) -> int:
    def longest(side: Side) -> int | None:
        return max(map(len, side.tokens)) if isinstance(side, Text) else side.length(0)

    fitting = [number for number, side in enumerate(sides[:-1]) if longest(side) == size]
    return fitting[-1 if last else 0] if fitting else len(sides) - 1


def _text(name: str, given: Tokens, rows: int) -> Text:
    several = [] if isinstance(given, str) else list(given)
    if not several:
        raise RegardError(f"{name}={given!r}: give a list of tokens, one string a position")
    one = isinstance(several[0], str)
    lists = [several] * rows if one else [list(each) for each in several]
    if len(lists) != rows:
        raise RegardError(
            f"tokens of {len(lists)} texts, but a batch of {rows} rows was seen: one list a row"
        )
    return Text(name=name, tokens=tuple(tuple(map(str, each)) for each in lists))


def _picture(
    image: Photo, grid: tuple[int, int] | None, rows: int, layers: Sequence[tuple[str, Layer]]
) -> Picture:
    keys = max(layer.shape[-1] for _, layer in layers)
    grid = (int(keys**0.5),) * 2 if grid is None else grid
    special = keys - grid[0] * grid[1]
    if min(grid) < 1 or special < 0:
        raise RegardError(f"grid={grid}, but there are {keys} positions: give rows × columns of patches")
    return Picture(
        name="image",
        pixels=(photo(image),) * rows,
        grid=grid,
        special=tuple(f"token {number}" for number in range(special)),
    )


def _name(tokens: Tokens | None) -> str:
    if not tokens:
        return ""
    first = tokens if isinstance(tokens[0], str) else tokens[0]
    text = "".join(str(token) for token in first[:24])
    return text if len(text) <= 60 else text[:59] + "…"
