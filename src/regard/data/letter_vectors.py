"""Words as vectors, by their spelling alone: nothing is trained, and words spelled alike are near one another."""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RegardError


def pieces(word: str, *, sizes: Sequence[int] = (2, 3)) -> Counter[str]:
    """The pieces of two and three letters in a word, its ends marked: ‹the› has ‹t th he e› ‹th the he›."""
    marked = f"‹{word}›"
    return Counter(marked[i : i + size] for size in sizes for i in range(len(marked) - size + 1))


def spell(
    words: Sequence[str], *, sizes: Sequence[int] = (2, 3), loudness: float = 3.5
) -> Float[Tensor, "n width"]:
    """One vector a word: how often each piece occurring in any of them occurs in it.

    So a dot product counts the pieces that two words share. All are scaled by one number, such that under the
    scaled dot product a word scores `loudness` with itself on average, and a softmax over a sentence is neither
    flat nor a single 1, however many pieces there are.
    """
    if isinstance(words, str) or not words:
        raise RegardError(f"spell({words!r}): give a list of at least one word")
    if not loudness > 0:
        raise RegardError(f"loudness={loudness}: give a positive number")
    bags = [pieces(word, sizes=sizes) for word in words]
    alphabet = sorted(set().union(*bags))
    if not alphabet:
        raise RegardError(f"no word has a piece of {' or '.join(map(str, sizes))} letters, its ends included")
    counts = torch.tensor([[float(bag[piece]) for piece in alphabet] for bag in bags])
    mean = counts.square().sum(-1).mean().item()
    return counts * math.sqrt(loudness * math.sqrt(len(alphabet)) / mean)
