"""A model made ready to answer on the CPU: its linear maps in another precision, everything else as it is."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kernels.native import use_native
from regard.attention.projection import InProjection
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock
from regard.layers.feedforward import FeedForward
from regard.layers.lowered import KINDS, Int8Linear, Lowered, packable


@runtime_checkable
class TiesOutput(Protocol):
    """A model that may use a table of embeddings as its last linear map too."""

    output: nn.Module | None  # used instead, once there is one

    def tied_output(self) -> Tensor | None:
        """That table; None where the last map has weights of its own."""


class LoweredProjection(nn.Module):
    """The maps to queries, keys and values: one for all three, or that of a memory apart from that of who asks it."""

    def __init__(self, maps: InProjection, kind: type[Lowered], *, apart: bool) -> None:
        super().__init__()
        self.outputs, self.apart = maps.outputs, apart
        asking = self.outputs[0]
        weight, bias = maps.all.weight, maps.all.bias
        if apart:
            self.ask = kind(weight[:asking], None if bias is None else bias[:asking])
            self.answer = kind(weight[asking:], None if bias is None else bias[asking:])
        else:
            self.all = kind(weight, bias)

    def together(self, x: Float[Tensor, "*batch n d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one input."""
        if self.apart:
            return self.ask(x), *self.memory(x)
        query, key, value = self.all(x).split(self.outputs, dim=-1)
        return query, key, value

    def queries(self, x: Float[Tensor, "*batch q d"]) -> Tensor:
        """W_q x."""
        return self.ask(x) if self.apart else self.together(x)[0]

    def memory(self, x: Float[Tensor, "*batch k d"]) -> tuple[Tensor, Tensor]:
        """Keys and values of one input."""
        if not self.apart:
            return self.together(x)[1:]
        key, value = self.answer(x).split(self.outputs[1:], dim=-1)
        return key, value

    def keys(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_k x."""
        return self.memory(x)[0]

    def values(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_v x."""
        return self.memory(x)[1]


def lower(model: nn.Module, precision: str, *, compile: bool = False) -> nn.Module:
    """Put a model into this precision, in place. It can then answer, and no longer be trained.

    On the CPU that is done to its linear maps, and what is none stays float32: embeddings, norms, attention itself,
    convolutions, recurrent cells. On a GPU it is done to all of the model. With `compile`, what lies between the
    products on the CPU is done by kernels in C, which the compiler of the machine makes first.
    """
    weights = list(model.parameters())
    found = next((weight.dtype for weight in weights if weight.dtype != torch.float32), None)
    if found is not None:
        raise RegardError(f"precision={precision!r} is for float32 models, and this one is {found}")
    if weights and weights[0].device.type != "cpu":
        return _whole(model, precision)
    if precision not in KINDS:
        raise RegardError(f"precision={precision!r} on the CPU: give {', '.join(map(repr, KINDS))}")
    if not packable():
        raise RegardError(f"precision={precision!r} needs a torch built with oneDNN, and this one is not")
    if compile:
        use_native()
    kind = KINDS[precision]
    crosses = {part.cross.input for part in model.modules() if isinstance(part, DecoderBlock)}
    for part in list(model.modules()):
        if isinstance(part, InProjection):
            continue
        for name, child in list(part.named_children()):
            if isinstance(child, InProjection) and child.packed:
                setattr(part, name, LoweredProjection(child, kind, apart=child in crosses))
            elif type(child) is nn.Linear:
                setattr(part, name, kind(child.weight, child.bias))
        if isinstance(part, FeedForward) and part.activation is F.relu and isinstance(part.outer, Int8Linear):
            part.activation, part.outer.rectifies = nn.Identity(), True
    if isinstance(model, TiesOutput) and (table := model.tied_output()) is not None:
        model.output = kind(table, None)
    return model.requires_grad_(False)


WHOLE = {"float32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def _whole(model: nn.Module, precision: str) -> nn.Module:
    if precision not in WHOLE:
        raise RegardError(f"precision={precision!r} on a GPU: give {', '.join(map(repr, WHOLE))}")
    return model.to(WHOLE[precision]).requires_grad_(False)
