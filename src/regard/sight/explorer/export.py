"""The explorer as one HTML file: the page, and everything it may ask, compressed inside it.

The attention of a layer is stored as queries and keys in half precision or as maps of 256 levels, whichever is smaller:
queries and keys grow with the length, maps with its square, but maps of few tokens, or of heads that look at few,
compress well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Literal

import numpy as np
from einops import rearrange
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.call import Call
from regard.attention.reach import Reach
from regard.attention.scores import Additive
from regard.data.file_access import write_atomically
from regard.errors import RegardError
from regard.sight.evidence import rectangle, summarise
from regard.sight.explorer.example import Example, Picture
from regard.sight.explorer.page_html import embed
from regard.sight.explorer.payload import PayloadArray, gzipped, halves, mark_nan, pack, singles, small
from regard.sight.explorer.session import Session
from regard.sight.explorer.tiles import small_maps

_MAX_PAIRS = 1 << 28  # weights of a layer that may become maps, or pairs that are masked one by one


def export(examples: Sequence[Example], path: str | PathLike[str], *, title: str = "regard") -> None:
    """Write the explorer of some examples to an HTML file."""
    write_atomically(path, exported(examples, title=title))


def exported(examples: Sequence[Example], *, title: str = "regard") -> str:
    """The file as text."""
    session = Session(examples, title=title)
    manifest = session.manifest() | {"mode": "exported"}
    packs: dict[str, bytes] = {}
    for number, example in enumerate(examples):
        about, entries = manifest["exhibits"][number], range(len(example.entries))
        about["can"] = {"touch": False, "input": [], "importance": False}  # a file has no model
        for place, panel in enumerate(example.panels):
            forms = [embedded(panel.call(entry), cross=panel.cross) for entry in entries]
            packs |= {f"layer/{number}/{place}/{entry}": form.data for entry, form in enumerate(forms)}
            about["layers"][place]["form"] = [{"kind": form.kind, "why": form.why} for form in forms]
        for place, side in enumerate(example.sides):
            if isinstance(side, Picture):
                pixels = [gzipped(session.media(number, place, entry), level=6) for entry in entries]
                packs |= {f"media/{number}/{place}/{entry}": data for entry, data in enumerate(pixels)}
    return embed(manifest, packs)


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The pack of a layer, compressed; which form it has and why."""

    kind: Literal["qk", "maps"]
    why: str
    data: bytes


def embedded(call: Call, *, cross: bool) -> Embedded:
    """The smaller of the two forms."""
    pairs = call.query.shape[:-2].numel() * call.extent.queries * call.extent.keys
    unfit = _unfit(call)
    if unfit and pairs > _MAX_PAIRS:
        raise RegardError(
            f"{call.extent.queries:,} × {call.extent.keys:,} weights of {call.query.shape[:-2].numel()} heads {unfit}, which "
            "is too much for a file: watch fewer layers or heads, or serve it with seen.show()"
        )
    known, fields = _known(call, cross)
    forms: dict[Literal["qk", "maps"], bytes] = {}
    if unfit is None:
        forms["qk"] = gzipped(pack(known | _query_and_key(call), **fields), level=6)
    # Maps of a long text would take minutes to compress and lose anyway: eight bits a weight become one at best.
    if unfit is not None or pairs <= 8 * len(forms["qk"]):
        forms["maps"] = gzipped(pack(known | {"weights": _levels(call)}, **fields), level=6)
    kind = min(forms, key=lambda each: len(forms[each]))
    words = {"qk": "half-precision queries and keys", "maps": "maps of 256 levels"}
    others = [f", {words[each]} take {len(forms[each]):,}" for each in forms if each != kind]
    why = unfit or f"{words[kind]}: {len(forms[kind]):,} bytes" + "".join(others)
    return Embedded(kind=kind, why=why, data=forms[kind])


def _unfit(call: Call) -> str | None:
    """Why a page could not compute the weights from queries and keys; None when it can."""
    if isinstance(call.score, Additive):
        return "maps of 256 levels, since the score is additive"
    if call.bias is not None:
        return "maps of 256 levels, since the scores have a bias"
    return None


def _query_and_key(call: Call) -> dict[str, PayloadArray]:
    """Both in the space where they meet, every scale in the query."""
    width, heads = call.query.shape[-1], call.query.shape[:-2].numel()
    query = call.score.map_query(call.query.detach().float()) * (call.scale * call.score.factor(width))
    key = call.score.map_key(call.key.detach().float())
    query, key = query.reshape(heads, *query.shape[-2:]), key.reshape(-1, *key.shape[-2:])
    return {"q": halves(query, planes=True), "k": halves(_unrepeated(key), planes=True)}


def _unrepeated(key: Float[Tensor, "h k d"]) -> Float[Tensor, "g k d"]:
    """Keys that several heads share, once."""
    for group in range(len(key), 1, -1):
        if len(key) % group == 0:
            grouped = rearrange(key, "(g group) k d -> g group k d", group=group)
            if bool((grouped == grouped[:, :1]).all()):
                return grouped[:, 0]
    return key


def _levels(call: Call) -> PayloadArray:
    """√w in 256 levels: small weights, which are most of them, keep their differences."""
    weights = rectangle(call, call.extent.rows, call.extent.columns)
    # That a weight is NaN is known from the log-sum-exp.
    weights = weights.reshape(-1, *weights.shape[-2:]).nan_to_num(0.0).clamp(0, 1)
    return small((weights.sqrt() * 255).round())


def _known(call: Call, cross: bool) -> tuple[dict[str, PayloadArray], dict[str, object]]:
    """What either form has: summaries, measures, and the mask."""
    heads = call.query.shape[:-2].numel()
    summary, measured = summarise(call), small_maps(call, 16, cross=cross)
    arrays = {
        "lse": singles(mark_nan(summary.logsumexp.reshape(heads, -1))),
        "entropies": halves(mark_nan(summary.entropy.reshape(heads, -1))),
        "received": singles(mark_nan(summary.received.reshape(heads, -1))),
    }
    arrays |= {name: singles(values) for name, values in measured.measures.items()}
    fields: dict[str, object] = {"measures": list(measured.measures), "band": [None, None]}
    band = (None, None) if call.mask is None else call.mask.band(call.extent)
    reach = call.reach()
    if reach is not None:
        reach = reach.spelt()
        limits = zip((reach.low, reach.high), band, strict=True)
        fields["band"] = [other if own is None else own for own, other in limits]
        arrays |= _masks(call, reach)
    return arrays, fields


def _masks(call: Call, reach: Reach) -> dict[str, PayloadArray]:
    found: dict[str, PayloadArray] = {}
    heads, extent = call.query.shape[:-2].numel(), call.extent
    for name, flags, size in (("queries", reach.queries, extent.queries), ("keys", reach.keys, extent.keys)):
        if flags is not None:
            found[name] = small(_by_head(flags[..., None], heads, (size, 1))[..., 0])
    if reach.rest is not None:
        open_ = _by_head(reach.rest, heads, (extent.queries, extent.keys))
        if open_.size > _MAX_PAIRS:
            raise RegardError(
                f"a mask of {open_.shape} pairs without a description is too much for a file: serve it instead"
            )
        found["hidden"] = PayloadArray(array=np.packbits(~open_, axis=-1))
    return found


def _by_head(flags: Tensor, heads: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    """[1 or heads, …], from what may have size 1 along any axis."""
    spread = flags.expand(*flags.shape[:-2], *size)
    flat = spread.reshape(-1, *size)
    if len(flat) not in (1, heads):
        flat = flat.repeat_interleave(heads // len(flat), 0)
    if len(flat) > 1 and bool((flat == flat[:1]).all()):
        flat = flat[:1]
    return np.asarray(flat.cpu().numpy(), dtype=np.bool_)
