"""What was seen of a model at a glance: every call, every head, pooled into an atlas."""

from html import escape

from torch import Tensor

from regard.errors import RegardError
from regard.sight.layer import Layer
from regard.sight.pictures.atlas import MAX_MAPS, Atlas, atlas
from regard.sight.seen import Seen


def overview(seen: Seen | Layer, *, cells: int = 24, entry: int = 0, title: str = "") -> Atlas:
    """An atlas of the calls in the order they happened, each pooled into at most `cells` × `cells`.

    `entry` is the one of the batch that is shown. Beneath each map is the entropy of its head, the mean over the
    queries. What is more than a page holds is left out, and the note says so.
    """
    every = [seen] if isinstance(seen, Layer) else list(seen.layers)
    if not every:
        raise RegardError("no attention call was seen, so there is nothing to show")
    shown = every[: MAX_MAPS[0]]
    maps = [_entry(layer, layer.map(cells, cells), entry, 2) for layer in shown]
    spread = [_entry(layer, layer.entropy(), entry, 1).float().mean(-1) for layer in shown]
    heads = max(map(len, maps))
    left_out = [f"{len(shown)} of {len(every)} calls"] if len(every) > len(shown) else []
    left_out += [f"{MAX_MAPS[1]} of {heads} heads"] if heads > MAX_MAPS[1] else []
    return atlas(
        [each[: MAX_MAPS[1]] for each in maps],
        layers=short([layer.name for layer in shown]),
        numbers=[each[: MAX_MAPS[1]].clamp_min(0) for each in spread],
        measure="mean entropy in nats",
        title=title,
        note=", ".join(["rows: calls, columns: heads", *left_out]),
    )


def html(seen: Seen | Layer) -> str:
    """The overview as HTML for a notebook; where there is none, the names of what was seen."""
    try:
        return overview(seen)._repr_html_()
    except RegardError as error:
        return f"<pre>{escape(repr(seen))}\n{escape(str(error))}</pre>"


def short(names: list[str]) -> list[str]:
    """Module paths without what all of them begin and end with."""
    paths = [name.split(".") for name in names]
    if len(set(names)) == 1:
        return [paths[0][-1]] * len(names)
    while all(len(path) > 1 for path in paths) and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    while all(len(path) > 1 for path in paths) and len({path[-1] for path in paths}) == 1:
        paths = [path[:-1] for path in paths]
    return [".".join(path) for path in paths]


def _entry(layer: Layer, answer: Tensor, entry: int, tail: int) -> Tensor:
    """The answer for one of the batch, [heads, …]: a call without a batch, or without heads, has one of each."""
    while answer.ndim > tail + 1:
        if not -len(answer) <= entry < len(answer):
            raise RegardError(f"entry={entry}, but {layer.name} attended for a batch of {len(answer)}")
        answer, entry = answer[entry], 0
    return answer if answer.ndim == tail + 1 else answer[None]
