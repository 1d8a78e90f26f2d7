"""What a model said at each step of a text, and what else it could have said."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.decoding.probabilities import normalised
from regard.sight.explorer.exhibit import Step
from regard.sight.explorer.spelling import spelled

ALTERNATIVES = 8


def steps_of(
    tokenizer: Tokenizer, logits: Float[Tensor, "t vocabulary"], tokens: Sequence[int]
) -> tuple[Step, ...]:
    """One step a token, made by the query of its place."""
    likely = normalised(logits).exp()
    count = min(ALTERNATIVES, likely.shape[-1])
    best, which = likely.topk(count)
    words = spelled(tokenizer, tokens)
    found = []
    for place, token in enumerate(tokens):
        others = zip(_each(tokenizer, which[place]), best[place].tolist(), strict=True)
        found.append(
            Step(
                token=words[place],
                probability=float(likely[place, token]),
                position=place,
                alternatives=tuple(others),
            )
        )
    return tuple(found)


def log_probability(logits: Float[Tensor, "t vocabulary"], tokens: Sequence[int]) -> float:
    """log p of these tokens, one a row."""
    index = torch.tensor(tokens, device=logits.device)
    return float(normalised(logits[: len(tokens)]).gather(-1, index[:, None]).sum())


def _each(tokenizer: Tokenizer, tokens: Tensor) -> list[str]:
    return [spelled(tokenizer, [token])[0] for token in tokens.tolist()]
