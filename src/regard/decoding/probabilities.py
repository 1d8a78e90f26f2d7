"""Logits as log-probabilities of what may come next, and the likeliest of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.native import MAX_LEADING, kernels
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.batches import PAD, START


def normalised(logits: Float[Tensor, "*b vocabulary"]) -> Float[Tensor, "*b vocabulary"]:
    """log softmax, in float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits, dim=-1, dtype=wide)


def permitted(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
    """The log-probability of every token that may come next; −inf for PAD and START, which never do.

    The others keep the probabilities the model gave them, so that their sum is the one `score` finds.
    """
    logprobs = normalised(logits)
    logprobs[:, PAD] = logprobs[:, START] = -torch.inf
    return logprobs


def leading(
    logits: Float[Tensor, "rows vocabulary"], count: int
) -> tuple[Float[Tensor, "rows {count}"], Int[Tensor, "rows {count}"]]:
    """The `count` likeliest tokens that may come next, best first, of equals the first: log-probabilities and tokens.

    Where a row has fewer, −inf of token 0 fills it up; where it has none, its first log-probability is not finite.
    """
    compiled = kernels() if logits.device.type == "cpu" and logits.dtype == torch.float32 else None
    if compiled is not None and count <= MAX_LEADING:
        return compiled.leading(logits, count, first=START + 1)
    return best(permitted(logits), count)


def kernel_fits(logits: Float[Tensor, "rows vocabulary"]) -> bool:
    """Whether a Triton kernel can choose among these."""
    return TRITON_INSTALLED and logits.is_cuda and logits.dtype != torch.float64


def fault(logits: Float[Tensor, " vocabulary"]) -> str:
    """Why nothing can be chosen from the logits of a row."""
    if bool(logits.isnan().any()):
        return "the model gave NaN; look at its weights and at the source of that row"
    if bool(logits.isposinf().any()):
        return "the model gave inf; decode in a wider dtype"
    return "the model leaves nothing to choose from: all logits but those of PAD and START are -inf"


def best(
    values: Float[Tensor, "b n"], count: int
) -> tuple[Float[Tensor, "b {count}"], Int[Tensor, "b {count}"]]:
    """The `count` largest of each row, best first, and where they are; of equals, those that come first.

    `torch.topk` leaves open which of equals it takes. Where a row has fewer, −inf at place 0 fills it up.
    """
    if values.shape[-1] >= _WIDE and count <= _WIDE // _BLOCK:
        some, places = _promising(values, count)
        found, index = _best(some, count)
        return found, places.gather(-1, index)
    return _best(values, count)


_WIDE, _BLOCK = 2048, 64


def _promising(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The blocks of each row that hold its `count` best, in their order, and where their numbers come from.

    A number of any other block has, in each of `count` blocks, a number that is larger, or equal and before it.
    Looking for the largest of a block is much cheaper than looking for several in a row.
    """
    blocks = values.shape[-1] // _BLOCK
    whole = blocks * _BLOCK
    tops = values[:, :whole].reshape(-1, blocks, _BLOCK).amax(-1)
    chosen = _best(tops, count)[1].sort(-1).values
    inside = torch.arange(_BLOCK, device=values.device)
    places = (chosen[..., None] * _BLOCK + inside).flatten(1)
    if whole < values.shape[-1]:  # what is left after the last whole block
        rest = torch.arange(whole, values.shape[-1], device=values.device).expand(len(values), -1)
        places = torch.cat([places, rest], dim=-1)
    return values.gather(-1, places), places


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    n = values.shape[-1]
    if n < count:
        values = F.pad(values, (0, count - n), value=-torch.inf)
    # Which of equals `topk` takes is not defined: only the value of the last is used. No step waits for the device.
    last = values.topk(count).values[:, -1:]
    larger, equal = values > last, values == last
    wanted = larger | (equal & (equal.cumsum(-1) <= count - larger.sum(-1, keepdim=True)))
    places = torch.arange(values.shape[-1], device=values.device).expand_as(values)
    index = places.where(wanted, values.shape[-1] - 1).topk(count, largest=False).values
    found, order = values.gather(-1, index).sort(dim=-1, descending=True, stable=True)
    index = index.gather(-1, order)
    return found, index.where(index < n, 0)
