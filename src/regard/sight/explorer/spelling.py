"""Tokens as they are written: with the space that begins a word, so that side by side they read as the text."""

from collections.abc import Sequence

from regard.data.batches import SPECIAL
from regard.data.tokenizer import Tokenizer


def spelled(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, ...]:
    """Each token's own text; a part of a character as its bytes, a special token by its name."""
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
