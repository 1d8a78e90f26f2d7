"""A call as the evidence kernels take it: a band, ranges of queries and keys, document ids, ALiBi slopes.

`obstacle` names what cannot be put that way; evidence of such calls is computed over strips (`choose_backend`).
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import masks
from regard.attention.batch_axes import pad_axes
from regard.attention.biases import ALiBi, Bias, _Shifted
from regard.attention.call import Call
from regard.attention.kernels.triton_available import TRITON_INSTALLED, TRITON_INTERPRETED
from regard.attention.masks import Mask
from regard.attention.reach import Extent, Reach
from regard.attention.scores import Additive, Dot, ScaledDot
from regard.sight.selection import _ChosenBias, _ChosenMask, _pick

WIDEST = 256  # numbers in a query: a larger tile does not fit into shared memory
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Documents:
    """Ids that must be equal for a pair to look; `share` consecutive entries have the same ids."""

    query_ids: Int[Tensor, "n q"]
    key_ids: Int[Tensor, "n k"]
    share: int

    def spans(self, owner: Literal["queries", "keys"], tall: int) -> Int[Tensor, "n blocks 2"]:
        """For every block of `tall` queries or keys, a run of the others outside which none is of its documents.

        As short as can be when ids only grow, as those of packed texts do. Padding has none of the ids.
        """
        own, others = (self.query_ids, self.key_ids) if owner == "queries" else (self.key_ids, self.query_ids)
        huge = torch.iinfo(own.dtype).max
        padded = torch.nn.functional.pad(own, (0, -own.shape[-1] % tall), value=-1).reshape(
            len(own), -1, tall
        )
        least = padded.masked_fill(padded < 0, huge).amin(-1)
        most = padded.amax(-1)
        reached = others.cummax(-1).values
        ahead = others.masked_fill(others < 0, huge).flip(-1).cummin(-1).values.flip(-1).contiguous()
        first = torch.searchsorted(reached, least)
        last = torch.searchsorted(ahead, most, right=True)
        return torch.stack([first, torch.where(most < 0, 0, last)], -1).to(torch.int32).contiguous()


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelCall:
    """Everything that a kernel needs of a call. An entry is one head of one sequence."""

    query: Float[Tensor, "b h q d"]
    key: Float[Tensor, "b g k d"]
    scale: float  # of the product, so that 2^score is what softmax sums
    low: int | None  # limits of j − i
    high: int | None
    ranges: Int[Tensor, "entries 4"] | None = None  # first query, one past the last, and the same for keys
    documents: Documents | None = None
    slopes: Float[Tensor, " entries"] | None = None
    shift: int = 0  # position of the first query, for the slopes

    @property
    def entries(self) -> int:
        """Heads of all sequences together."""
        return self.query.shape[0] * self.query.shape[1]

    def of(self, rows: Int[Tensor, " r"]) -> "KernelCall":
        """The same for some queries; the kernel takes their positions as an argument."""
        packed, ranges = self.documents, self.ranges
        if packed is not None:
            packed = replace(packed, query_ids=packed.query_ids[:, rows].contiguous())
        if ranges is None:  # kernels would otherwise count the chosen queries
            whole = [0, self.query.shape[-2], 0, self.key.shape[-2]]
            ranges = torch.tensor([whole], dtype=torch.int32, device=rows.device).repeat(self.entries, 1)
        return replace(self, query=self.query[:, :, rows], ranges=ranges, documents=packed)

    def on(self, columns: Int[Tensor, " c"]) -> "KernelCall":
        """The same over some keys; `of` must have set the ranges."""
        packed = self.documents
        if packed is not None:
            packed = replace(packed, key_ids=packed.key_ids[:, columns].contiguous())
        return replace(self, key=self.key[:, :, columns], documents=packed)


def obstacle(call: Call) -> str | None:
    """Why no kernel can compute evidence of a call, or None."""
    extent, width = call.extent, call.query.shape[-1]
    if isinstance(call.score, Additive):
        return "the additive score is no product of query and key"
    if call.query.dtype not in _DTYPES:
        return f"the call is in {str(call.query.dtype).removeprefix('torch.')}"
    if width > WIDEST:
        return f"queries of width {width}, and a tile takes {WIDEST}"
    if 0 in (extent.queries, extent.keys, width, *call.query.shape[:-2]):
        return "the call is empty"
    if call.bias is not None and _slopes(call.bias) is None:
        return f"the bias {type(call.bias).__name__} has no formula that a kernel knows"
    leaves = _leaves(call.mask)
    if leaves is None or sum(isinstance(_bare(leaf), masks._Documents) for leaf in leaves) > 1:
        return f"the mask {call.mask!r} is more than a band, lengths and documents"
    return None


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What computes the evidence of a call, and why; made to be printed."""

    way: Literal["kernels", "strips"]
    why: str

    def __str__(self) -> str:
        return f"{self.way}: {self.why}"


def choose_backend(call: Call) -> Backend:
    """What computes the evidence of a call. Depends on the call and on what is installed, on nothing else."""
    if not within_reach(call.query):
        return Backend(way="strips", why=f"the call is on the {call.query.device.type}, kernels run on CUDA")
    if not TRITON_INSTALLED:
        return Backend(
            way="strips", why="Triton is not installed (the extra `triton`, or torch's CUDA build)"
        )
    in_the_way = obstacle(call)
    if in_the_way is not None:
        return Backend(way="strips", why=in_the_way)
    return Backend(way="kernels", why="scores are made a tile at a time and never leave the chip")


def within_reach(query: Tensor) -> bool:
    """Whether kernels can run on the device of this tensor."""
    return query.is_cuda or TRITON_INTERPRETED


@torch.no_grad()
def kernel_call(call: Call) -> KernelCall:
    """A call that has no obstacle, as the kernels take it."""
    query, key = call.query.detach(), call.key.detach()
    if not isinstance(call.score, Dot | ScaledDot):  # mapped in float32, as everywhere in evidence
        query, key = call.score.map_query(query.float()), call.score.map_key(key.float())
    batch, extent = call.query.shape[:-2], call.extent
    scale = call.scale * call.score.factor(call.query.shape[-1]) * math.log2(math.e)
    if scale < 0:
        query, scale = -query, -scale
    leaves = _leaves(call.mask) or []
    packed = [leaf for leaf in leaves if isinstance(_bare(leaf), masks._Documents)]
    reach = Reach(extent=extent)
    for leaf in leaves:
        if leaf not in packed:
            reach = reach & leaf.reach(extent)
    low, high = reach.bounded
    found = None if call.bias is None else _slopes(call.bias)
    slopes = None
    if found is not None:
        slopes = (found[0].to(query.device).float() * math.log2(math.e)).expand(batch).reshape(-1)
    return KernelCall(
        query=_four_axes(query),
        key=_four_axes(key),
        scale=scale,
        low=None if low is None else max(low, -extent.queries),  # so that limits fit into 32 bits
        high=None if high is None else min(max(high, -extent.queries), extent.keys),
        ranges=None
        if reach.queries is None and reach.keys is None
        else _ranges(reach.over(len(batch)), batch),
        documents=_documents(packed[0], batch, extent) if packed else None,
        slopes=None if slopes is None else slopes.contiguous(),
        shift=0 if found is None else found[1],
    )


def _leaves(mask: Mask | None) -> list[Mask] | None:
    """The masks of a conjunction, if kernels support all of them; otherwise None."""
    match mask:
        case None:
            return []
        case masks._And():
            a, b = _leaves(mask.a), _leaves(mask.b)
            return None if a is None or b is None else a + b
        case _ChosenMask():
            inner = _leaves(mask.mask)
            return None if inner is None else [replace(mask, mask=leaf) for leaf in inner]
        case masks._Causal() | masks._Window() | masks._Lengths() | masks._Documents():
            return [mask]
    return None


def _bare(leaf: Mask) -> Mask:
    return _bare(leaf.mask) if isinstance(leaf, _ChosenMask) else leaf


def _ranges(reach: Reach, batch: torch.Size) -> Tensor:
    """The first and last query and key that lengths leave, for each entry."""
    limits = []
    for part, count in ((reach.queries, reach.extent.queries), (reach.keys, reach.extent.keys)):
        where = torch.arange(count, device=reach.extent.device, dtype=torch.int32)
        part = torch.ones_like(where, dtype=torch.bool) if part is None else part
        limits += [torch.where(part, where, count).amin(-1), torch.where(part, where + 1, 0).amax(-1)]
    return torch.stack([limit.expand(batch).reshape(-1) for limit in limits], -1).contiguous()


def _documents(leaf: Mask, batch: torch.Size, extent: Extent) -> Documents:
    chosen, bare = [], leaf
    while isinstance(bare, _ChosenMask):
        chosen.append(bare.chosen)
        bare = bare.mask
    if not isinstance(bare, masks._Documents):
        raise TypeError(f"{leaf!r} holds no documents")
    masks.check_size(bare, bare.queries.shape[-1], bare.keys.shape[-1], extent)
    both = []
    for ids, count in ((bare.queries, extent.queries), (bare.keys, extent.keys)):
        ids = pad_axes(ids.to(extent.device), len(batch), tail=1)
        for each in reversed(chosen):
            ids = _pick(ids, each)
        both.append(ids.expand(*ids.shape[:-1], count))
    heads = batch[-1] if batch else 1
    same = not batch or all(ids.shape[-2] == 1 for ids in both)
    rows = (*batch[:-1], 1 if same else heads) if batch else ()
    kind = torch.int64 if any(ids.dtype == torch.int64 for ids in both) else torch.int32
    query_ids, key_ids = (
        ids.to(kind).expand(*rows, ids.shape[-1]).reshape(-1, ids.shape[-1]).contiguous() for ids in both
    )
    return Documents(query_ids=query_ids, key_ids=key_ids, share=heads if same else 1)


def _slopes(bias: Bias) -> tuple[Tensor, int] | None:
    """Slopes and shift of a bias −slope · |i + shift − j|; None for any other bias."""
    match bias:
        case ALiBi():
            return bias.slopes(), 0
        case _Shifted():
            inner = _slopes(bias.bias)
            return None if inner is None else (inner[0], inner[1] + bias.offset)
        case _ChosenBias():
            inner = _slopes(bias.bias)
            if inner is None:
                return None
            slopes = inner[0].reshape(*([1] * (len(bias.chosen) - inner[0].ndim)), *inner[0].shape)
            return _pick(slopes, bias.chosen), inner[1]
    return None


def _four_axes(tensor: Tensor) -> Tensor:
    """[..., h, n, d] → [b, h, n, d], the last axis contiguous."""
    if tensor.ndim != 4:
        tensor = tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
