"""Several attentions side by side, each in a projection of its own."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend_beam, attend_static, attend_within
from regard.attention.biases import Bias
from regard.attention.call import Call, zeroed
from regard.attention.kv_cache import BeamCache, KeyValue
from regard.attention.masks import Mask, checked_mask
from regard.attention.reach import Extent, Reach
from regard.attention.scores import ScaledDot, Score
from regard.attention.static_cache import StaticReach
from regard.data.given import instance, number, probability, vectors, whole
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """The sizes of multi-head attention that are not the paper's. None: heads of width / heads, all inputs alike."""

    kv_heads: int | None = None  # fewer heads of key and value: grouped (Ainslie 2023), or one: multi-query
    key_width: int | None = None  # d_k, of a head's query and key
    value_width: int | None = None  # d_v, of a head's value
    key_input: int | None = None  # width of what keys are made from
    value_input: int | None = None  # width of what values are made from
    output: int | None = None  # width of what comes out


@runtime_checkable
class Rotation(Protocol):
    """A map of queries and keys that depends on their position, such as rotary positions."""

    def __call__(self, x: Tensor, *, offset: int | Tensor = 0) -> Tensor:
        """Turn [..., n, d], whose first position is `offset`; a tensor of one number names that of a single one."""


class MultiHeadAttention(nn.Module):
    """Σ_h W_o[h] · softmax(scale · score(Q_h, K_h)) V_h (Vaswani 2017, section 3.2.2).

    `attention(x)` is self-attention, `attention(x, memory)` cross-attention, `attention(query, key, value)` the
    general case. Inputs are [batch, positions, width], or [positions, width] without a batch.
    """

    def __init__(
        self,
        width: int,  # d_model
        heads: int,
        *,
        sizes: HeadSizes | None = None,
        score: Score | None = None,
        scale: float = 1.0,  # of the scores, besides their own: 1 / √d is the scaled dot product's already
        bias: Bias | None = None,
        rotary: Rotation | None = None,
        dropout: float = 0.0,
        affine: bool = True,
    ) -> None:
        super().__init__()
        sizes = instance("sizes", HeadSizes() if sizes is None else sizes, HeadSizes, "give HeadSizes(…)")
        told = {name: size for name, size in vars(sizes).items() if size is not None}
        for name, size in {"width": width, "heads": heads, **told}.items():
            whole(name, size, least=1)
        if score is not None:
            instance("score", score, Score, "give a score, such as ScaledDot() or Additive(…)")
        if bias is not None:
            instance("bias", bias, Bias, "give a bias, such as TensorBias(tensor) or ALiBi(heads)")
        self.width = width
        self.heads = heads
        self.kv_heads = sizes.kv_heads or heads
        if heads < 1 or heads % self.kv_heads:
            raise RegardError(
                f"heads={heads}, kv_heads={self.kv_heads}: every key head serves equally many heads"
            )
        if sizes.key_width is None and width % heads:
            raise RegardError(
                f"width={width} does not divide into heads={heads}: choose another, or give key_width"
            )
        key_width = sizes.key_width or width // heads
        value_width = sizes.value_width or key_width
        key_input = self.key_input = sizes.key_input or width
        self.value_input = sizes.value_input or key_input
        self.input = InProjection(
            (width, key_input, self.value_input),
            (heads * key_width, self.kv_heads * key_width, self.kv_heads * value_width),
            affine=affine,
        )
        self.output = glorot(nn.Linear(heads * value_width, sizes.output or width, bias=affine))
        self.score = ScaledDot() if score is None else score
        self.scale = float(number("scale", scale))
        self.bias = bias
        self.rotary = rotary
        self.dropout = probability("dropout", dropout)

    def forward(
        self,
        query: Float[Tensor, "*b q dq"],
        key: Float[Tensor, "*b k dk"] | None = None,
        value: Float[Tensor, "*b k dv"] | None = None,
        *,
        mask: Mask | None = None,
    ) -> Float[Tensor, "*b q do"]:
        """What each query takes from its memory. Without a key, the memory is the query's own sequence."""
        query = vectors("query", query, self.width, axes=2, of=self)
        if key is not None:
            key, value = self._memory(key, value)
        if query.ndim == 2:
            parts = (None if part is None else part[None] for part in (key, value))
            return self(query[None], *parts, mask=mask)[0]
        if key is None:
            if value is not None:
                raise RegardError("a value without a key: say attention(query, key, value)")
            reach = reach_of(mask, query, query)
            return self.within(zero_unused(query, reach), reach, mask=mask)
        reach = reach_of(mask, query, key)
        looking, seen = (None, None) if reach is None or reach.clean else (reach.looking(), reach.seen())
        memory = self.remember(_zeroed(key, seen), None if value is None else _zeroed(value, seen))
        projected = self.input.queries(_zeroed(query, looking))
        return self._mix(projected, memory, mask, reach)

    def within(
        self, x: Float[Tensor, "*b n d"], reach: Reach | None, *, mask: Mask | None
    ) -> Float[Tensor, "*b n d2"]:
        """Self-attention of an x without unused positions (`zero_unused`), whose mask has this reach."""
        query, key, value = self.input.together(x)
        return self._mix(query, self._kept(key, value, offset=0), mask, reach)

    def remember(
        self, key: Float[Tensor, "*b k dk"], value: Float[Tensor, "*b k dv"] | None = None
    ) -> KeyValue:
        """Keys and values of a memory, for several calls of `recall`."""
        key, value = self._memory(key, value)
        if value is None:
            return self._kept(*self.input.memory(key), offset=0)
        return self._kept(self.input.keys(key), self.input.values(value), offset=0)

    def recall(
        self,
        query: Float[Tensor, "*b q d"],
        memory: KeyValue,
        *,
        mask: Mask | None = None,
        reach: Reach | None = None,
    ) -> Float[Tensor, "*b q do"]:
        """What each query takes from a remembered memory.

        `reach` is that of the mask, worked out once for many calls: giving it also promises that the memory is finite where
        the mask hides it.
        """
        query = vectors("query", query, self.width, axes=2, of=self)
        instance("memory", memory, KeyValue, "give what `remember` returned")
        return self._mix(self.input.queries(query), memory, mask, reach, sanitised=reach is not None)

    def recall_heads(
        self, query: Float[Tensor, "*b q dq"], memory: KeyValue, *, mask: Mask | None, reach: Reach
    ) -> Float[Tensor, "*b q hv"]:
        """`recall` between its two linear maps: of projected queries, the heads' outputs side by side."""
        return self._taken(query, memory, mask, reach, offset=0, sanitised=True)

    def step(
        self, x: Float[Tensor, "*b q d"], past: KeyValue | None = None, *, mask: Mask | None = None
    ) -> tuple[Float[Tensor, "*b q do"], KeyValue]:
        """Self-attention of new positions over the past and themselves, and the past with them added.

        The mask is over all keys: new positions that may not look ahead say `causal(offset=past.length)`.
        """
        x = vectors("x", x, self.width, axes=2, of=self)
        if past is not None:
            instance("past", past, KeyValue, "give what the last step returned")
        offset = 0 if past is None else past.length
        query, key, value = self.input.together(x)
        now = self._kept(key, value, offset=offset)
        past = now if past is None else past.extended(now)
        return self._mix(query, past, mask, offset=offset), past

    def step_beam(
        self, x: Float[Tensor, "rows 1 d"], past: BeamCache
    ) -> tuple[Float[Tensor, "rows 1 do"], BeamCache]:
        """The same for one position of rows that share a cache."""
        taken, past = self.step_beam_heads(*self.input.together(x), past)
        return self.output(taken), past

    def step_beam_heads(
        self,
        query: Float[Tensor, "rows 1 dq"],
        key: Float[Tensor, "rows 1 dk"],
        value: Float[Tensor, "rows 1 dv"],
        past: BeamCache,
    ) -> tuple[Float[Tensor, "rows 1 hv"], BeamCache]:
        """`step_beam` between its two linear maps: of projected inputs, the heads' outputs side by side."""
        offset = past.length
        past = past.extended(self._kept(key, value, offset=offset))
        asked = self._turned(self._split(query, self.heads), offset)
        dropout = self.dropout if self.training else 0.0
        mixed = attend_beam(asked, past, self.score, scale=self.scale, dropout=dropout)
        return mixed.transpose(-2, -3).flatten(-2), past

    def call(
        self,
        query: Float[Tensor, "*b q dq"],
        key: Float[Tensor, "*b k dk"] | None = None,
        *,
        mask: Mask | None = None,
    ) -> Call:
        """The attention call that the heads make for these inputs, to be weighed, explained or looked at."""
        query = vectors("query", query, self.width, axes=2, of=self)
        if key is not None:
            key, _ = self._memory(key, None)
        keys = self._split(self.input.keys(query if key is None else key), self.kv_heads)
        return self._call(self.input.queries(query), self._turned(keys, 0), mask, offset=0)

    def _memory(self, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What is looked at, if it can be."""
        key = vectors("key", key, self.key_input, axes=2, of=self)
        if value is None:
            return key, None
        value = vectors("value", value, self.value_input, axes=2, of=self)
        if value.shape[:-1] != key.shape[:-1]:
            raise RegardError(
                f"key {tuple(key.shape)} and value {tuple(value.shape)}: each key has one value, so all axes but the last "
                "must be equal"
            )
        return key, value

    def _call(self, query: Tensor, key: Tensor, mask: Mask | None, offset: int) -> Call:
        bias = None if self.bias is None else self.bias.shifted(offset)
        asked = self._turned(self._split(query, self.heads), offset)
        return Call(asked, key, mask, bias, self.score, self.scale)

    def _mix(
        self,
        query: Tensor,
        memory: KeyValue,
        mask: Mask | None,
        reach: Reach | None = None,
        offset: int = 0,
        sanitised: bool = False,
    ) -> Tensor:
        return self.output(self._taken(query, memory, mask, reach, offset, sanitised))

    def _taken(
        self,
        query: Tensor,
        memory: KeyValue,
        mask: Mask | None,
        reach: Reach | None,
        offset: int,
        sanitised: bool,
    ) -> Tensor:
        call = self._call(query, memory.key, mask, offset)
        # Where those that look are those that are seen, no unused position is left once the input has none.
        sanitised = sanitised or (
            reach is not None and (reach.clean or (reach.mirrored and self.bias is None))
        )
        dropout = self.dropout if self.training else 0.0
        if isinstance(reach, StaticReach):
            return attend_static(call, memory.value, reach).transpose(-2, -3).flatten(-2)
        mixed = attend_within(call, memory.value, call.reach(reach), dropout=dropout, sanitised=sanitised)
        return mixed.transpose(-2, -3).flatten(-2)

    def _kept(self, key: Tensor, value: Tensor, offset: int | Tensor) -> KeyValue:
        key, value = self._split(key, self.kv_heads), self._split(value, self.kv_heads)
        return KeyValue(self._turned(key, offset), value)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).transpose(
            -2, -3
        )  # to [..., h, n, d]; einops is slow for a step

    def _turned(self, x: Tensor, offset: int | Tensor) -> Tensor:
        return x if self.rotary is None else self.rotary(x, offset=offset)


def reach_of(mask: Mask | None, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]) -> Reach | None:
    """What the heads of attention between two inputs can reach under a mask; None for everything."""
    if mask is None:
        return None
    checked_mask(mask)
    extent = Extent(queries=query.shape[-2], keys=key.shape[-2], device=query.device)
    return mask.reach_over(extent, query.ndim - 1)


def zero_unused(x: Float[Tensor, "*b n d"], reach: Reach | None) -> Float[Tensor, "*b n d"]:
    """x with zeros in the positions that neither look nor are seen, which is what padding is.

    Attention itself ignores them, but what is in them would reach the gradient of the weights around it.
    """
    if reach is None or reach.clean:
        return x
    if reach.mirrored:
        return _zeroed(x, reach.queries)
    looking, seen = reach.looking(), reach.seen()
    return x if looking is None or seen is None else _zeroed(x, looking | seen)


def _zeroed(x: Tensor, used: Tensor | None) -> Tensor:
    """Zeros where no head uses the position; `used` is [*b, heads, n] or, the same for all, [n]."""
    if used is not None and used.ndim > 1:
        used = used.squeeze(-2) if used.shape[-2] == 1 else used.any(-2)
    return zeroed(x, used)


Three = tuple[int, int, int]


class InProjection(nn.Module):
    """Q = W_q x, K = W_k y, V = W_v z: one matrix over another when x, y and z have one width, else three."""

    def __init__(self, inputs: Three, outputs: Three, *, affine: bool = True) -> None:
        super().__init__()
        self.outputs = outputs
        self.packed = len(set(inputs)) == 1
        if self.packed:
            self.all = nn.Linear(inputs[0], sum(outputs), bias=affine)
        else:
            self.query, self.key, self.value = (
                nn.Linear(wide, out, bias=affine) for wide, out in zip(inputs, outputs, strict=True)
            )
        with torch.no_grad():
            for weight, bias in self._parts():  # each map on its own, packed or not
                nn.init.xavier_uniform_(weight)
                if bias is not None:
                    nn.init.zeros_(bias)

    def together(self, x: Float[Tensor, "*batch n d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one input, in one product when the maps are one matrix."""
        if self.packed:
            query, key, value = torch.split(self.all(x), list(self.outputs), dim=-1)
            return query, key, value
        return self.queries(x), self.keys(x), self.values(x)

    def queries(self, x: Float[Tensor, "*batch q d"]) -> Tensor:
        """W_q x."""
        return self.linear(x, *self.asking)

    @property
    def asking(self) -> tuple[Tensor, Tensor | None]:
        """W_q, and its bias."""
        return self._parts()[0]

    def keys(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_k x."""
        return self.linear(x, *self._parts()[1])

    def values(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_v x."""
        return self.linear(x, *self._parts()[2])

    def memory(self, x: Float[Tensor, "*batch k d"]) -> tuple[Tensor, Tensor]:
        """Keys and values of one input, in one product when the maps are one matrix."""
        if not self.packed:
            return self.keys(x), self.values(x)
        asking = self.outputs[0]
        bias = None if self.all.bias is None else self.all.bias[asking:]
        key, value = torch.split(
            self.linear(x, self.all.weight[asking:], bias), list(self.outputs[1:]), dim=-1
        )
        return key, value

    def linear(self, x: Float[Tensor, "*batch n d"], weight: Tensor, bias: Tensor | None) -> Tensor:
        """Wx + b, of a part of the matrix."""
        return F.linear(x, weight, bias)

    def _parts(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weight and bias of query, key and value; views where they are packed."""
        if not self.packed:
            return [(each.weight, each.bias) for each in (self.query, self.key, self.value)]
        weights = torch.split(self.all.weight, list(self.outputs))
        biases = (None,) * 3 if self.all.bias is None else torch.split(self.all.bias, list(self.outputs))
        return list(zip(weights, biases, strict=True))


def glorot(layer: nn.Linear) -> nn.Linear:
    """Start a layer as the projections start: Glorot's uniform weights, no bias."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
