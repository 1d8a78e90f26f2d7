"""What may follow: logits as log-probabilities that a decoder can rely on."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.native import MOST, native
from regard.data.batches import PAD, START
from regard.decoding.ranking import best
from regard.errors import RegardError


def normalised(logits: Float[Tensor, "*b vocabulary"]) -> Float[Tensor, "*b vocabulary"]:
    """log softmax, in float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits, dim=-1, dtype=wide)


def leading(
    logits: Float[Tensor, "r vocabulary"], count: int, *, step: int, texts: Int[Tensor, " r"]
) -> tuple[Float[Tensor, "r {count}"], Int[Tensor, "r {count}"]]:
    """The `count` likeliest tokens that may come next, best first: log-probabilities, and which they are.

    Of equals, those that come first. The rest as in `following`.
    """
    compiled = native() if logits.device.type == "cpu" and logits.dtype == torch.float32 else None
    if compiled is not None and count <= MOST:
        found, tokens = compiled.leading(logits, count, first=START + 1)
        if not bool((~found[:, 0].isfinite() & (texts >= 0)).any()):
            return found, tokens
    return best(following(logits, step=step, texts=texts), count)


def following(
    logits: Float[Tensor, "r vocabulary"], *, step: int, texts: Int[Tensor, " r"]
) -> Float[Tensor, "r vocabulary"]:
    """The log-probability of every token that may come next; −inf for PAD and START, which never do.

    The others keep the probabilities the model gave them, so that their sum is the one `score` finds. A text
    number below 0 marks a row that nobody reads, whose logits may be anything. A logit of −inf is the model's way
    of forbidding a token; a row where nothing is left to choose from is refused.
    """
    logprobs = normalised(logits)
    logprobs[:, PAD] = logprobs[:, START] = -torch.inf
    unusable = ~logprobs.amax(-1).isfinite() & (texts >= 0)
    if bool(unusable.any()):
        row = int(unusable.nonzero()[0, 0])
        raise RegardError(f"step {step}, row {int(texts[row])}: {_fault(logits[row])}")
    return logprobs


def _fault(logits: Tensor) -> str:
    if bool(logits.isnan().any()):
        return "the model gave NaN; look at its weights and at the source of that row"
    if bool(logits.isposinf().any()):
        return "the model gave inf; decode in a wider dtype"
    return "the model leaves nothing to choose from: all logits but those of PAD and START are -inf"
