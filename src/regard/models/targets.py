"""A target as a decoder reads it while it learns: one token late."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.packing import Packing
from regard.data.batches import START, Sequences, Texts


def decoder_input(target: Sequences) -> Int[Tensor, "b t"]:
    """[START, *target[:-1]]: what precedes each token of the target."""
    begin = target.tokens.new_full((len(target), min(1, target.tokens.shape[1])), START)
    return torch.cat([begin, target.tokens[:, :-1]], dim=1)


def packed_decoder_input(tokens: Int[Tensor, " n"], packing: Packing) -> Int[Tensor, " n"]:
    """The same for every one of some packed targets."""
    return torch.where(packing.places == 0, START, tokens.roll(1))


def shifted(texts: Texts) -> tuple[Texts, Texts]:
    """Texts without their last tokens, and without their first: what is read, and what is to be said."""
    if isinstance(texts, Sequences):
        count = (texts.lengths - 1).clamp_min(0)
        return Sequences(texts.tokens[:, :-1], count), Sequences(texts.tokens[:, 1:], count)
    # Position p of what is left is in sequence s, behind s tokens that were taken away.
    lengths = (texts.lengths - 1).clamp_min(0)
    size = texts.tokens.shape[0]
    if not texts.filled:
        size = size - len(texts) if texts.shortest else int(lengths.sum())
    ends, row = lengths.cumsum(0), torch.arange(size, device=lengths.device)
    owner = torch.searchsorted(ends, row, right=True)
    lost = torch.nn.functional.pad(texts.lengths.cumsum(0) - texts.lengths - (ends - lengths), (0, 1))[owner]
    here = (row + lost).clamp_max(max(texts.tokens.shape[0] - 2, 0))
    longest, shortest = max(texts.longest - 1, 0), max(texts.shortest - 1, 0)
    kept = replace(texts, lengths=lengths, longest=longest, shortest=shortest, spans=None)
    return replace(kept, tokens=texts.tokens[here]), replace(kept, tokens=texts.tokens[here + 1])
