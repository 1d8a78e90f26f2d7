"""Streaming: a sampled text handed out token by token, as it is written."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.batches import END
from regard.decoding.evaluating import check_model, evaluating
from regard.decoding.limits import per_row
from regard.decoding.sampling import drawing
from regard.decoding.unrolling import Choice
from regard.errors import RegardError
from regard.models.protocols import AnyModel


def stream(
    model: AnyModel,
    prompt: Any,
    *,
    limits: int,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    numbers: Int[Tensor, " 1"] | None = None,
) -> Iterator[int]:
    """The tokens that `sample` gives for a prompt of one row, each as soon as it is known; END is not among them."""
    check_model(model)
    choose = drawing(seed=seed, temperature=temperature, top_k=top_k, top_p=top_p, numbers=numbers)
    most = int(per_row(limits, 1, device=torch.device("cpu")))
    return _tokens(model, prompt, choose, most)


def _tokens(model: AnyModel, prompt: Any, choose: Choice, most: int) -> Iterator[int]:
    with evaluating(model):
        state = model.start(prompt)
        tokens = state.first
    if len(tokens) != 1:
        raise RegardError(f"a stream of {len(tokens)} prompts: give one, or use sample for many")
    text = torch.zeros_like(tokens)
    for step in count():
        # Entered anew for every token: whoever reads the stream has gradients and training mode in between.
        with evaluating(model):
            logits, state = model.step(tokens, state)
            tokens, _ = choose(logits, text, step)
        token = int(tokens)
        if token == END:
            return
        yield token
        if step + 1 >= most:
            return
