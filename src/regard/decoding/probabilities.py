"""Logits as log-probabilities of what may come next, and the likeliest of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.native import MAX_LEADING, kernels
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.batches import PAD, START
from regard.decoding.ranking import best


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
