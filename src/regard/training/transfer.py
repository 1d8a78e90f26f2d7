"""Transfer: begin with parts of what an earlier run has learned."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training.weights import same_shape, weights_of


@torch.no_grad()
def transfer(
    model: nn.Module, tensors: Mapping[str, Tensor], *, parts: Sequence[str] = (), freeze: bool = False
) -> list[str]:
    """Copy the parts of earlier weights whose names begin so, such as "encoder"; the names of what was copied.

    A part is copied whole or not at all: half of an encoder is of no use to anyone. Without parts, everything is
    copied whose name is in both. What is frozen gets no gradient and does not decay.
    """
    own = weights_of(model)
    copied = [] if parts else [name for name in own if name in tensors]
    if not parts and not copied:
        raise RegardError(
            f"nothing in common: here {', '.join(_tops(own))}, there {', '.join(_tops(tensors))}"
        )
    for part in parts:
        mine, theirs = _within(part, own), _within(part, tensors)
        if not theirs:
            raise RegardError(f"the earlier weights have no {part!r}: they have {', '.join(_tops(tensors))}")
        if not mine:
            raise RegardError(f"this model has no {part!r}: it has {', '.join(_tops(own))}")
        if odd := sorted(set(mine) ^ set(theirs)):
            where = "this model" if odd[0] in mine else "the earlier weights"
            raise RegardError(f"{odd[0]} is only in {where}: the two differ in their {part!r}")
        copied += mine
    for name in copied:
        same_shape(name, own[name], tensors[name])
    for name in copied:
        own[name].copy_(tensors[name])
    if freeze:
        for name, weight in model.named_parameters():
            if name in copied:
                weight.requires_grad_(False)
    return copied


def _within(part: str, tensors: Mapping[str, Tensor]) -> list[str]:
    return [name for name in tensors if name == part or name.startswith(part + ".")]


def _tops(tensors: Mapping[str, Tensor]) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in tensors))
