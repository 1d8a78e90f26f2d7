"""Transfer: begin with parts of what an earlier run has learned."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training.state import same_shape, weights_of

# Parts that do the same under different names, in the order in which they are looked for. What reads the source of a
# translator reads the text of a classifier; where all tables of a translator are tied, that of the target is the one.
_SAME = (("source_embedding", "embedding", "target_embedding"), ("encoder_norm", "norm"))
# Settings that change what a block computes, but not the shapes of its weights.
_SILENT = ("heads", "kv_heads", "feedforward", "norm", "positions")


@dataclass(frozen=True, kw_only=True)
class Transferred:
    """What was taken from earlier weights, and what was not."""

    copied: Mapping[str, str]  # a name in the model, and that in the earlier weights
    parts: Sequence[tuple[str, str]]  # the same, by part
    fresh: Sequence[str]  # parts of the model that begin with new weights
    unused: Sequence[str]  # parts of the earlier weights that nothing took
    frozen: bool

    def lines(self, run: str) -> list[str]:
        """What to tell a person."""
        taken = ", ".join(mine if mine == theirs else f"{theirs} as {mine}" for mine, theirs in self.parts)
        frozen = ", and kept as they are" if self.frozen else ""
        said = [f"init: {len(self.copied)} tensors copied from {run}: {taken}{frozen}"]
        if self.fresh:
            said.append(f"init: begins with new weights: {', '.join(self.fresh)}")
        if self.unused:
            said.append(f"init: not taken from {run}: {', '.join(self.unused)}")
        return said


@torch.no_grad()
def transfer(
    model: nn.Module, tensors: Mapping[str, Tensor], *, parts: Sequence[str] = (), freeze: bool = False
) -> Transferred:
    """Copy the parts of earlier weights whose names begin so, such as "encoder".

    A part is copied whole or not at all: half of an encoder is of no use to anyone. Without parts, everything is
    copied whose name is in both. A part that one of the two models calls otherwise is found by what it does: the
    `source_embedding` of a translator is the `embedding` of a classifier. What is frozen gets no gradient and does not decay.
    """
    own = weights_of(model)
    copied = {} if parts else {name: name for name in own if name in tensors}
    if not parts and not copied:
        raise RegardError(
            f"nothing in common: here {', '.join(_tops(own))}, there {', '.join(_tops(tensors))}"
        )
    taken = [] if parts else [(top, top) for top in _tops(copied)]
    for part in parts:
        mine, theirs = _called(part, own), _called(part, tensors)
        if theirs is None:
            raise RegardError(f"the earlier weights have no {part!r}: they have {', '.join(_tops(tensors))}")
        if mine is None:
            raise RegardError(f"this model has no {part!r}: it has {', '.join(_tops(own))}")
        here, there = _within(mine, own), _within(theirs, tensors)
        if odd := sorted(here.keys() ^ there.keys()):
            where = "this model" if odd[0] in here else "the earlier weights"
            name = (here | there)[odd[0]]
            raise RegardError(f"{name} is only in {where}: the two differ in their {part!r}")
        copied |= {here[rest]: there[rest] for rest in here}
        taken.append((mine, theirs))
    for name, other in copied.items():
        same_shape(name, own[name], tensors[other])
    for name, other in copied.items():
        own[name].copy_(tensors[other])
    if freeze:
        for name, weight in model.named_parameters():
            if name in copied:
                weight.requires_grad_(False)
    return Transferred(
        copied=copied,
        parts=taken,
        fresh=_tops(own.keys() - copied.keys(), order=own),
        unused=_tops(tensors.keys() - copied.values(), order=tensors),
        frozen=freeze,
    )


def differing(mine: Mapping[str, object], theirs: Mapping[str, object]) -> list[str]:
    """Settings under which copied blocks compute something else than they learned, though their weights fit."""
    return [
        f"init: {name} is {mine[name]!r} here and was {theirs[name]!r} there: what was copied will not do as it did"
        for name in _SILENT
        if name in mine and name in theirs and mine[name] != theirs[name]
    ]


def _called(part: str, tensors: Mapping[str, Tensor]) -> str | None:
    """What a part is called here: so, or otherwise where there is another that does the same."""
    if _within(part, tensors):
        return part
    others = next((names for names in _SAME if part in names), ())
    return next((name for name in others if _within(name, tensors)), None)


def _within(part: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """What comes after the name of the part, and the whole name."""
    return {name.removeprefix(part): name for name in tensors if name == part or name.startswith(part + ".")}


def _tops(names: Iterable[str], *, order: Iterable[str] | None = None) -> list[str]:
    kept = {*names}
    return list(dict.fromkeys(name.partition(".")[0] for name in order or names if name in kept))
