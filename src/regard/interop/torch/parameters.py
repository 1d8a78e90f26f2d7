"""What torch computes multi-head attention with, and which inputs go with it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The weights of one multi-head attention. `packed` says that they were one [3 · width, width] tensor."""

    width: int  # embed_dim
    heads: int
    packed: bool
    query: Tensor  # [width, width]
    key: Tensor  # [width, kdim]
    value: Tensor  # [width, vdim]
    bias: Tensor | None  # those of query, key and value in a row
    key_row: Tensor | None  # bias_k: one more key, the same for every sequence
    value_row: Tensor | None  # bias_v: its value
    zero_row: bool  # add_zero_attn: one more key and value, of zeros
    out: Tensor
    out_bias: Tensor | None

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise AssertionError(f"embed_dim={self.width} is not divisible by num_heads={self.heads}")
        if (self.key_row is None) != (self.value_row is None):
            given, missing = ("bias_k", "bias_v") if self.value_row is None else ("bias_v", "bias_k")
            raise AssertionError(
                f"{given} is set but {missing} is None: they are the key and value of one more row"
            )

    @property
    def extra(self) -> int:
        """How many keys there are beside those of the caller."""
        return int(self.key_row is not None) + int(self.zero_row)

    def check(self, query: Tensor, key: Tensor, value: Tensor, batch_axis: int) -> None:
        """Raise, as torch does, if these inputs cannot be projected with these weights."""
        if query.shape[-1] != self.width:
            raise AssertionError(
                f"the query has width {query.shape[-1]}, the parameters are for {self.width}"
            )
        shapes = f"key {tuple(key.shape)} and value {tuple(value.shape)}"
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"{shapes}: each key has one value, so their first two axes must be equal")
        if self.packed and key.shape != value.shape:
            raise AssertionError(f"{shapes}: with packed weights they have one width")
        if query.shape[batch_axis] != key.shape[batch_axis]:
            raise RuntimeError(
                f"query {tuple(query.shape)} and key {tuple(key.shape)}: their batches are not equal"
            )
        if self.packed:
            return
        for name, weight, rows in (("q", self.query, query), ("k", self.key, key), ("v", self.value, value)):
            wanted = (self.width, rows.shape[-1])
            if weight.shape != wanted:
                raise AssertionError(
                    f"{name}_proj_weight has shape {tuple(weight.shape)}, but should be {wanted}"
                )


@dataclass(frozen=True, kw_only=True)
class Static:
    """Keys and values that are given ready, [batch · heads, keys, head width], in place of projected ones."""

    key: Tensor | None = None
    value: Tensor | None = None

    def check(self, parameters: Parameters, batch: int) -> None:
        """Raise, as torch does, if they do not have the shape that projected ones would."""
        calls, width = batch * parameters.heads, parameters.width // parameters.heads
        for word, rows in {"key": self.key, "value": self.value}.items():
            if rows is None:
                continue
            if parameters.key_row is not None:
                raise AssertionError(
                    f"bias cannot be added to static {word}: give bias_k and bias_v, or static ones"
                )
            if rows.shape[0] != calls or rows.shape[2] != width:
                raise AssertionError(
                    f"static_{word[0]} has shape {tuple(rows.shape)}, but should be ({calls}, keys, {width}): "
                    "batch · heads, keys, head width"
                )
