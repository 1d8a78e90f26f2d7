"""Streaming: a sampled text handed out token by token, as it is written."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.decoding.decode import SteppedDecode, check_model, evaluating, per_row
from regard.decoding.sampling import drawing, row_keys
from regard.decoding.search import SingleSearch
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
    choose = drawing(temperature=temperature, top_k=top_k, top_p=top_p)
    per_row(limits, 1)
    keys = row_keys(seed, numbers)

    def begin() -> SteppedDecode:
        return SteppedDecode(
            model, prompt, partial(SingleSearch, choose=choose), limits=limits, row_keys=keys
        )

    return _tokens(model, begin)


def _tokens(model: AnyModel, begin: Callable[[], SteppedDecode]) -> Iterator[int]:
    with evaluating(model):
        decode = begin()
    if len(decode.texts) != 1:
        raise RegardError(f"a stream of {len(decode.texts)} prompts: give one, or use sample for many")
    while True:
        # Entered anew for every token: between two of them the caller has gradients and training mode as they were.
        with evaluating(model):
            going = decode.step()
        if going:
            yield int(decode.search.tokens)
            continue
        (text,) = decode.texts[0]
        if not text.finished:
            yield text.tokens[-1]
        return
