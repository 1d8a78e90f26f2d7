"""KV cache of a stack of causal blocks: the state that a decoder-only model hands from step to step."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kv_cache import KeyValue
from regard.attention.masks import Mask, causal, lengths
from regard.data.batches import Sequences
from regard.data.given import instance, whole
from regard.errors import RegardError
from regard.layers.blocks import EncoderBlock
from regard.models.layout import Spent


@dataclass(frozen=True, eq=False)
class KeyValueCache:
    """Keys and values of every block, and where each text begins: what `start` returns and `step` takes.

    Texts are padded on the left: shorter ones begin after `padding` masked columns.
    """

    first: Int[Tensor, " rows"]
    pasts: tuple[KeyValue | None, ...]  # one a block
    length: int  # columns written, padding included
    padding: Int[Tensor, " rows"] | None  # None: no row has any
    spent: Spent = field(default_factory=Spent)

    @classmethod
    def of(cls, source: Sequences, *, depth: int) -> tuple[Int[Tensor, "rows n"], "KeyValueCache"]:
        """The prompts without their last tokens, padded on the left, and an empty cache for them and `depth` blocks."""
        instance("source", source, Sequences, "give Sequences.of([[START, 5], [START]])")
        whole("depth", depth, least=0)
        shortest, longest = (int(n) for n in torch.stack([source.lengths.min(), source.lengths.max()]))
        if shortest < 1:
            raise RegardError("a prompt without a token: give at least one, such as START")
        padding = longest - source.lengths
        columns = torch.arange(longest, device=padding.device) - padding[:, None]
        tokens = source.tokens.gather(1, columns.clamp_min(0))
        empty = cls(tokens[:, -1], (None,) * depth, 0, None if shortest == longest else padding)
        return tokens[:, :-1], empty

    def through(
        self, blocks: Iterable[EncoderBlock], x: Float[Tensor, "rows n d"]
    ) -> tuple[Float[Tensor, "rows n d"], "KeyValueCache"]:
        """New columns through the blocks, and the cache with them added. This one may not be used again."""
        if not x.shape[1]:
            return x, self
        self.spent.spend()
        mask, pasts = self._mask(x.shape[1]), []
        mask = None if mask is None else mask.shared()
        for block, past in zip(blocks, self.pasts, strict=True):
            x, past = block.step(x, past, mask=mask)
            pasts.append(past)
        return x, replace(self, pasts=tuple(pasts), length=self.length + x.shape[1], spent=Spent())

    def pick(self, rows: Int[Tensor, " r"]) -> "KeyValueCache":
        """These rows, in this order."""
        self.spent.check()
        pasts = tuple(None if past is None else past.pick(rows) for past in self.pasts)
        padding = None if self.padding is None else self.padding[rows]
        return KeyValueCache(self.first[rows], pasts, self.length, padding)

    @property
    def rows(self) -> int:
        """How many texts are being written."""
        return self.first.shape[0]

    def offset(self) -> int | Int[Tensor, " rows"]:
        """The position of the next token in its own text."""
        return self.length if self.padding is None else self.length - self.padding

    def _mask(self, new: int) -> Mask | None:
        """Who looks at whom when `new` columns are added; None for everything."""
        total = self.length + new
        order = None if new == 1 else causal(offset=self.length)
        if self.padding is None:
            return order
        if new == total:
            real = lengths(total - self.padding, padded="left")
        else:
            real = lengths(keys=total - self.padding, padded="left")
        return real if order is None else order & real
