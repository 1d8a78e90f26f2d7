"""Blocks: what Transformers are stacks of, and what goes around attention in them.

Residual connections with a norm in one of three places, dropout, feed-forward maps. Parts are made outside a block and
handed in.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kv_cache import BeamCache, KeyValue
from regard.attention.masks import Mask
from regard.attention.multihead import MultiHeadAttention, glorot, reach_of, zero_unused
from regard.attention.reach import Reach
from regard.data.given import instance, vectors, whole
from regard.errors import RegardError

Layer = Callable[[Tensor], Tensor]
Placement = Callable[[Tensor, Layer, Layer, Layer], Tensor]  # of x, f, norm, and what thins out the addition


def _whole(x: Tensor) -> Tensor:
    return x


def before(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """x + f(norm(x)): the sum is never normalised, so deep stacks train without warm-up (Xiong 2020)."""
    return x + thin(layer(norm(x)))


def after(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """norm(x + f(x)), as the Transformer was published (Vaswani 2017, section 3.1)."""
    return norm(x + thin(layer(x)))


def inside(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """x + norm(f(x)): what is added has a bounded size (Liu 2022, res-post-norm)."""
    return x + thin(norm(layer(x)))


class StochasticDepth(nn.Module):
    """In training, 0 for a share `skip` of the samples and f / (1 − skip) for the others (Huang 2016, section 3).

    Huang keeps what is added as it is and shrinks it when testing; the two differ by a factor alone.
    """

    def __init__(self, skip: float) -> None:
        super().__init__()
        if not 0.0 <= skip < 1.0:
            raise RegardError(
                f"skip={skip}: the share of samples that go around a layer is from 0 to below 1"
            )
        self.skip = skip

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """A sample is a row of the first axis."""
        if not self.training or self.skip == 0.0:
            return x
        kept = x.new_empty(x.shape[0], *[1] * (x.ndim - 1)).bernoulli_(1 - self.skip)
        return x * (kept / (1 - self.skip))


class Residual(nn.Module):
    """A norm and a way around a layer. `norm` makes one from a width: nn.LayerNorm or nn.RMSNorm."""

    def __init__(
        self,
        width: int,
        *,
        placement: Placement = before,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
        skip: float = 0.0,  # the share of samples for which the layer is left out in training
    ) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        self.placement = placement
        self.norm = norm(width)
        self.dropout = Dropout(dropout)
        self.depth = StochasticDepth(skip)

    def forward(self, x: Float[Tensor, "*b d"], layer: Layer) -> Float[Tensor, "*b d"]:
        """x, and what `layer` makes of it."""
        x = vectors("x", x, self.width, of=self)
        return self.placement(x, lambda y: self.dropout(layer(y)), self.norm, self.depth)


_STEPS = 1 << 16


class Dropout(nn.Dropout):
    """In training, 0 for a share `p` of the numbers and x / (1 − p) for the others (Srivastava 2014).

    torch draws a float for each number on a CPU, which takes longer than the products around it. Here sixteen random
    bits decide, so `p` is taken to the nearest 1/65536, and what is left is divided by exactly what is left.
    """

    def forward(self, input: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """x, thinned out."""
        if not self.training or self.p == 0.0:
            return input
        if input.device.type != "cpu":
            return F.dropout(input, self.p, self.training, self.inplace)
        dropped = min(round(self.p * _STEPS), _STEPS)
        if dropped == _STEPS:
            return input * 0.0
        count = input.numel()
        bits = torch.empty((count + 3) // 4, dtype=torch.int64, device="cpu").random_(-(1 << 63), None)
        kept = (bits.view(torch.int16)[:count] >= dropped - _STEPS // 2).view(input.shape)
        return input * kept.to(input.dtype).mul_(_STEPS / (_STEPS - dropped))


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward map, each inside a residual.

    EncoderBlock(MultiHeadAttention(512, 8), FeedForward(512, 2048), partial(Residual, 512))

    With a causal mask this is the block of a language model.
    """

    def __init__(
        self, attention: MultiHeadAttention, feedforward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.feedforward, self.around_feedforward = feedforward, residual()

    def forward(self, x: Float[Tensor, "*b n d"], *, mask: Mask | None = None) -> Float[Tensor, "*b n d"]:
        """Every position, having looked where the mask allows."""
        x = vectors("x", x, self.attention.width, axes=2, of=self)
        reach = reach_of(mask, x, x)
        x = self.around_attention(zero_unused(x, reach), lambda y: self.attention.within(y, reach, mask=mask))
        return self.around_feedforward(x, self.feedforward)

    def step(
        self, x: Float[Tensor, "b n d"], past: KeyValue | None = None, *, mask: Mask | None = None
    ) -> tuple[Float[Tensor, "b n d"], KeyValue]:
        """New positions after the past, and the past with them added."""
        x = vectors("x", x, self.attention.width, axes=3, of=self)
        seen: list[KeyValue] = []

        def look(x: Tensor) -> Tensor:
            mixed, now = self.attention.step(x, past, mask=mask)
            seen.append(now)
            return mixed

        x = self.around_attention(x, look)
        return self.around_feedforward(x, self.feedforward), seen[-1]


@dataclass(frozen=True)
class DecoderState:
    """What a decoder block keeps while decoding: its own past, and the memory it looks at."""

    memory: KeyValue
    past: KeyValue | BeamCache | None = None

    def pick(self, rows: Int[Tensor, " r"]) -> "DecoderState":
        """These rows of the batch, in this order."""
        return DecoderState(self.memory.pick(rows), None if self.past is None else self.past.pick(rows))


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention over a memory, then a feed-forward map, each inside a residual."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross: MultiHeadAttention,
        feedforward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.cross, self.around_cross = cross, residual()
        self.feedforward, self.around_feedforward = feedforward, residual()

    def forward(
        self,
        x: Float[Tensor, "*b n d"],
        memory: Float[Tensor, "*b m e"],
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
    ) -> Float[Tensor, "*b n d"]:
        """Every position, having looked at its own sequence and at the memory."""
        x = vectors("x", x, self.attention.width, axes=2, of=self)
        reach = reach_of(mask, x, x)
        x = self.around_attention(zero_unused(x, reach), lambda y: self.attention.within(y, reach, mask=mask))
        x = self.around_cross(x, lambda y: self.cross(y, memory, mask=memory_mask))
        return self.around_feedforward(x, self.feedforward)

    def start(self, memory: Float[Tensor, "b m e"]) -> DecoderState:
        """Look at the memory once; decoding then only asks."""
        return DecoderState(self.cross.remember(memory))

    def step(
        self,
        x: Float[Tensor, "b n d"],
        state: DecoderState,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        memory_reach: Reach | None = None,
    ) -> tuple[Float[Tensor, "b n d"], DecoderState]:
        """New positions after those of the state, and the state with them added.

        Rows may share a memory: with fewer memories than rows, equally many neighbours ask each. `memory_reach` is
        that of the mask, if it is known and the memory holds no rubbish (see `recall`).
        """
        x = vectors("x", x, self.attention.width, axes=3, of=self)
        instance("state", state, DecoderState, "give what `start` or the last step returned")
        seen: list[KeyValue | BeamCache] = []

        def look(x: Tensor) -> Tensor:
            now: KeyValue | BeamCache
            if isinstance(state.past, BeamCache):
                mixed, now = self.attention.step_beam(x, state.past)
            else:
                mixed, now = self.attention.step(x, state.past, mask=mask)
            seen.append(now)
            return mixed

        x = self.around_attention(x, look)
        x = self.around_cross(x, lambda y: self._recall(y, state.memory, memory_mask, memory_reach))
        return self.around_feedforward(x, self.feedforward), replace(state, past=seen[-1])

    def _recall(self, x: Tensor, memory: KeyValue, mask: Mask | None, reach: Reach | None) -> Tensor:
        rows, memories = x.shape[0], memory.key.shape[0]
        if memories == 0 or rows % memories:
            raise RegardError(f"{rows} rows and {memories} memories: equally many rows ask each")
        queries = x.reshape(memories, -1, x.shape[-1])
        return self.cross.recall(queries, memory, mask=mask, reach=reach).reshape(*x.shape[:-1], -1)


class FeedForward(nn.Module):
    """W₂ f(W₁x + b₁) + b₂, with f = ReLU (Vaswani 2017, eq. 2), or F.gelu, or any other."""

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        whole("hidden", hidden, least=1)
        self.inner = glorot(nn.Linear(width, hidden))
        self.outer = glorot(nn.Linear(hidden, width))
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The same map at every position."""
        x = vectors("x", x, self.width, of=self)
        return self.outer(self.dropout(self.activation(self.inner(x))))


class SwiGLU(nn.Module):
    """W₃ (swish(W₁x) ⊙ W₂x), without biases (Shazeer 2020, eq. 6)."""

    def __init__(self, width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        whole("hidden", hidden, least=1)
        self.gate = glorot(nn.Linear(width, hidden, bias=False))
        self.inner = glorot(nn.Linear(width, hidden, bias=False))
        self.outer = glorot(nn.Linear(hidden, width, bias=False))
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The same map at every position."""
        x = vectors("x", x, self.width, of=self)
        return self.outer(self.dropout(F.silu(self.gate(x)) * self.inner(x)))
