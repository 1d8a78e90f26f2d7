"""The mask of packed sequences."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.masks import Mask, check_size
from regard.attention.packing import Packing, Packs
from regard.attention.reach import Extent, Reach
from regard.data.given import shown


def packed(keys: Packing | Int[Tensor, " s"], *, queries: Packing | Int[Tensor, " s"] | None = None) -> Mask:
    """Sequences of these lengths, one after another in one row, each seeing only itself.

    As `documents`, but for sequences that are stored in order, so that a kernel can
    take each by itself. Cross-attention gives the lengths of both: the n-th sequence of the queries asks the n-th of
    the keys. `causal() & packed(n)` looks back inside each.
    """
    asked = keys if isinstance(keys, Packing) else Packing.of(keys)
    asking = asked if queries is None else queries if isinstance(queries, Packing) else Packing.of(queries)
    packs = Packs(asking, asked)
    return _Packed(packs.readied() if asked.lengths.device.type == "cuda" else packs)


@dataclass(frozen=True, eq=False, repr=False)
class _Packed(Mask):
    packs: Packs

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        check_size(self, self.packs.queries.size, self.packs.keys.size, extent)
        asking, asked = self.packs.queries.owners[rows], self.packs.keys.owners[columns]
        return (asking[:, None] == asked) & (asked < self.packs.keys.rows)

    def reach(self, extent: Extent) -> Reach:
        check_size(self, self.packs.queries.size, self.packs.keys.size, extent)
        packs = self.packs
        return Reach(
            extent=extent,
            asking=packs.looking,
            asked=packs.seen,
            paired=packs.same,
            leading=True,
            packs=packs,
            clean=packs.queries.clean and packs.keys.clean,
        )

    def _device(self) -> torch.device:
        return self.packs.keys.lengths.device

    def __repr__(self) -> str:
        packs = self.packs
        queries = "" if packs.same else f", queries={shown(packs.queries.lengths)}"
        return f"packed({shown(packs.keys.lengths)}{queries})"
