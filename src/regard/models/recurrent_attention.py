"""How a recurrent decoder asks its source: attention with one head, plain or projected, under any of the scores."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend_within
from regard.attention.call import Call
from regard.attention.kv_cache import KeyValue
from regard.attention.masks import Mask
from regard.attention.multihead import InProjection
from regard.attention.scores import Score


class Alignment(nn.Module):
    """softmax(score(s, h)) h over encoder states h for decoder states s; projected: of W_q s, W_k h and W_v h.

    s has `width` numbers and h `memory_width`; projected, all three are as wide as s.
    """

    def __init__(self, width: int, score: Score, *, memory_width: int, projected: bool = False) -> None:
        super().__init__()
        self.score = score
        inputs = (width, memory_width, memory_width)
        self.projection = InProjection(inputs, (width,) * 3, affine=False) if projected else None

    def remember(self, states: Float[Tensor, "b m d"]) -> KeyValue:
        """The source as it is asked again and again: keys mapped by the score already. Padding must hold zeros."""
        key, value = states, states
        if self.projection is not None:
            key, value = self.projection.keys(states), self.projection.values(states)
        key = self.score.map_key(key)
        return KeyValue(key[:, None], value[:, None].to(key.dtype))

    def forward(
        self, states: Float[Tensor, "rows q d"], memory: KeyValue, mask: Mask
    ) -> Float[Tensor, "rows q dv"]:
        """What each decoder state takes from its source. With fewer sources than rows, neighbours share one."""
        query = states if self.projection is None else self.projection.queries(states)
        # In mixed precision a recurrence gives one dtype for a whole sequence, and another for a step.
        query = query.reshape(memory.key.shape[0], 1, -1, query.shape[-1]).to(memory.key.dtype)
        call = Call(query, memory.key, mask, score=self.score.mapped())
        # Zeros stay zeros in every map from states to keys and values, so there is nothing left to tidy.
        mixed = attend_within(call, memory.value, call.reach(), sanitised=True)
        return mixed.reshape(*states.shape[:-1], -1)
