"""Blocks: what Transformers are stacks of. Their parts are made outside and handed in."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kv_cache import BeamCache, KeyValue
from regard.attention.masks import Mask
from regard.attention.multihead import MultiHeadAttention, reach_of, zero_unused
from regard.attention.projection import glorot
from regard.attention.reach import Reach
from regard.data.given import instance, vectors, whole
from regard.errors import RegardError
from regard.layers.residual import Dropout, Residual


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
