"""A gallery: one sentence looking at itself under each score and under each mask."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.call import Call
from regard.attention.masks import Mask, causal, documents, lengths, prefix, window
from regard.attention.scores import Additive, Bilinear, Cosine, Dot, LowRank, ScaledDot, Score
from regard.attention.weights import weigh
from regard.data.letter_vectors import spell
from regard.sight.pictures.heatmap import Heatmap, heatmap


@dataclass(frozen=True, kw_only=True, eq=False)
class GalleryMap:
    """One way to look: its name, its equation, what it means, the call and the picture of its weights."""

    name: str
    equation: str
    meaning: str
    call: Call
    picture: Heatmap


def score_maps(words: Sequence[str]) -> list[GalleryMap]:
    """The six scores over words as they are spelled, without a mask."""
    vectors = spell(words)
    return [
        _map_of(words, vectors, name, about, score=score) for name, about, score in _scores(vectors.shape[-1])
    ]


def mask_maps(words: Sequence[str]) -> list[GalleryMap]:
    """The masks over words as they are spelled, under the scaled dot product."""
    vectors = spell(words)
    return [
        _map_of(words, vectors, "no mask" if mask is None else name, (rule, meaning), mask=mask)
        for name, rule, meaning, mask in masks_over(len(words))
    ]


def masks_over(count: int) -> list[tuple[str, str, str, Mask | None]]:
    """A mask of each kind for so many positions: how it is written, its rule and what it means."""
    near, real, split = max(2, round(0.3 * count)), max(1, count - count // 4), max(1, 2 * count // 5)
    ids = torch.tensor([int(position >= split) for position in range(count)])
    first = min(3, count)
    return [
        ("None", "all i, j", "every word may look at every word", None),
        ("causal()", "j ≤ i", "look at yourself and back, as a decoder must", causal()),
        (f"window({near})", f"|i − j| < {near}", "look at your neighbourhood", window(near)),
        (
            f"lengths({real})",
            f"i, j < {real}",
            f"words from {real} on are padding and get zeros",
            lengths(real),
        ),
        ("documents(ids)", "idᵢ = idⱼ", "two texts packed into one; each sees itself", documents(ids)),
        (f"prefix({first})", f"j < {first}", "all look at the beginning, and only there", prefix(first)),
        (
            f"causal() | prefix({first})",
            f"j ≤ i or j < {first}",
            "a prefix language model: the beginning is seen by all",
            causal() | prefix(first),
        ),
        (f"causal() & window({near})", f"0 ≤ i − j < {near}", "look a little back", causal() & window(near)),
    ]


def _map_of(
    words: Sequence[str],
    vectors: Tensor,
    name: str,
    about: tuple[str, str],
    *,
    score: Score | None = None,
    mask: Mask | None = None,
) -> GalleryMap:
    equation, meaning = about
    call = Call.of(vectors, vectors, mask, score=score)
    allowed = None if mask is None else mask.dense(len(words), len(words))
    picture = heatmap(weigh(call), words, words, allowed=allowed, title=name, note=equation)
    return GalleryMap(name=name, equation=equation, meaning=meaning, call=call, picture=picture)


def _scores(width: int) -> list[tuple[str, tuple[str, str], Score]]:
    """The six scores, those with weights set by hand: nothing is trained, and yet all can be read."""
    noise = torch.Generator().manual_seed(11)  # one whose maps are easy to read
    bilinear, low_rank = Bilinear(width, width), LowRank(width, width, rank=8)
    additive = Additive(width, width, hidden=width)
    eye, small = torch.eye(width), width**-0.25  # small² = 1 / √d, as in the scaled dot product
    random = torch.randn(width, width, generator=noise) / math.sqrt(width)
    projection = torch.randn(8, width, generator=noise) / math.sqrt(8)
    with torch.no_grad():
        bilinear.weight.copy_((eye + 0.6 * random) * small**2)
        low_rank.query_weight.copy_(projection * small)
        low_rank.key_weight.copy_(projection * small)
        additive.query_weight.copy_(eye)
        additive.key_weight.copy_(eye)
        additive.vector.fill_(-0.6)
    return [
        ("Dot", ("qᵀk", "counts shared pieces; the largest takes nearly all"), Dot()),
        ("ScaledDot", ("qᵀk / √d", "the same, softened so that width does not matter"), ScaledDot()),
        ("Cosine", ("qᵀk / (‖q‖ ‖k‖ τ)", "directions only: long words are not louder (τ=¼)"), Cosine(0.25)),
        ("Bilinear", ("qᵀWk", "W says what to compare; here 1 plus noise, so no longer mutual"), bilinear),
        ("LowRank", ("(Uq)ᵀ(Vk)", "compared in 8 numbers; here a random projection, so roughly"), low_rank),
        ("Additive", ("vᵀ tanh(Wk + Vq)", "a small network; its tanh counts shared pieces once"), additive),
    ]
