"""A target as a decoder reads it while it learns: one token late."""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import START, Sequences


def decoder_input(target: Sequences) -> Int[Tensor, "b t"]:
    """[START, *target[:-1]]: what stands before each token of the target."""
    begin = target.tokens.new_full((len(target), min(1, target.tokens.shape[1])), START)
    return torch.cat([begin, target.tokens[:, :-1]], dim=1)
