"""What is written along the axes of a map: tokens, pictures and sounds; and what else was likely at each token."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import SPECIAL, Batch, Sequences, Sounds
from regard.data.digit_counts import FIRST
from regard.data.tokenizer import Tokenizer
from regard.decoding.search import normalised
from regard.errors import RegardError
from regard.runs.inputs import DigitReader, Reader, TextReader
from regard.sight.explorer.example import Picture, Side, Step, Text
from regard.sight.media_pictures import ground_of
from regard.sight.pictures.drawable import photo

ALTERNATIVES = 8


def spelled(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, ...]:
    """The text of each token, with the space that begins a word, so that side by side they read as the text.

    A part of a character is given as its bytes, a special token by its name.
    """
    found: list[str] = []
    for token in tokens:
        if token < len(SPECIAL):
            found.append(SPECIAL[token])
            continue
        text = tokenizer.decode([token])
        if tokenizer.kind == "word":
            text = f" {text}" if found else text
        elif "\ufffd" in text:
            text = tokenizer.pieces([token])[0]
        found.append(text)
    return tuple(found)


def steps_of(
    tokenizer: Tokenizer, logits: Float[Tensor, "t vocabulary"], tokens: Sequence[int]
) -> tuple[Step, ...]:
    """One step per token, made by the query at its position."""
    likely = normalised(logits).exp()
    best, which = likely.topk(min(ALTERNATIVES, likely.shape[-1]))
    found = []
    for place, (word, token) in enumerate(zip(spelled(tokenizer, tokens), tokens, strict=True)):
        others = [spelled(tokenizer, [other])[0] for other in which[place].tolist()]
        alternatives = tuple(zip(others, best[place].tolist(), strict=True))
        probability = float(likely[place, token])
        found.append(Step(token=word, probability=probability, position=place, alternatives=alternatives))
    return tuple(found)


def log_probability(logits: Float[Tensor, "t vocabulary"], tokens: Sequence[int]) -> float:
    """log p of these tokens, one a row."""
    index = torch.tensor(tokens, device=logits.device)
    return float(normalised(logits[: len(tokens)]).gather(-1, index[:, None]).sum())


def side_of(model: Any, encoder: Any, reader: Reader, batch: Batch, *, name: str = "text") -> Side:
    """The first input of a batch along an axis: the tokens of a text, or the pixels of what an encoder cuts up."""
    if isinstance(batch, Sequences):
        if isinstance(reader, DigitReader):
            digits = (batch.tokens[0] - FIRST).tolist()
            return Text(name="digits", tokens=(tuple(f" {digit}" for digit in digits),))
        if not isinstance(reader, TextReader):
            raise RegardError(f"tokens from a reader of a {reader.what}: a text is wanted")
        return Text(name=name, tokens=(spelled(reader.tokenizer, batch.tokens[0].tolist()),))
    ground, rate = ground_of(encoder, batch), getattr(model.config, "rate", None)
    seconds = int(batch.lengths[0]) / rate if isinstance(batch, Sounds) and rate is not None else None
    return Picture(
        name="picture" if seconds is None else "sound",
        pixels=(np.ascontiguousarray(photo(ground.photo)),),
        grid=ground.grid,
        special=() if getattr(encoder, "class_token", None) is None else ("<class>",),
        seconds=seconds,
    )


def name_of(given: Any) -> str:
    """The name of a file, or the word "input" for a tensor."""
    return os.path.basename(os.fspath(given)) if isinstance(given, str | os.PathLike) else "input"
