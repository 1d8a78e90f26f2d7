"""Masks over a sentence and its translation, and what a mask that is multiplied in does instead."""

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.masks import Mask, causal, lengths
from regard.attention.masks import window as near
from regard.attention.scores import ScaledDot
from regard.attention.weights import weigh
from regard.data.letter_vectors import spell
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.figures.sentence_words import sentence_words
from regard.sight.pictures.heatmap import heatmap, sheet
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import Panels

PADDED = ["<pad>", "<pad>"]
WAYS = ("−∞ added", "scores × mask", "weights × mask", "… normalised")
MEASURES = ("weight on hidden", "least row sum", "answers moved")
_LOUDNESS = 2.0  # of the word vectors: softer than by default, so that hidden weights are seen


def masks(
    *,
    sentence: Annotated[str, "The words that look at each other; those spelled alike do."] = (
        "the nation celebrates its independence"
    ),
    translation: Annotated[str, "The words that look at the sentence under the cross mask."] = (
        "la nation célèbre son indépendance"
    ),
    window: Annotated[int, "A word looks at those nearer than this."] = 2,
) -> FigureResult:
    """Padding, causal, window and cross masks over one sentence, and a causal mask multiplied into scores and weights.

    A mask is −∞ where a query may not look, before softmax, so that its weight is 0 and the row still sums to 1.
    """
    words = sentence_words("--sentence", sentence, most=9)
    translated = sentence_words("--translation", translation, most=9)
    if window < 1:
        raise RegardError(f"--window {window}: at least 1")
    count, padded, asking = len(words), words + PADDED, translated + PADDED[:1]
    vectors = spell(padded + asking, loudness=_LOUDNESS).double()
    x, memory, query = vectors[:count], vectors[: len(padded)], vectors[len(padded) :]
    real = lengths(keys=count, queries=len(translated))
    cases: dict[str, tuple[str, Mask, Tensor, Tensor, list[str], list[str]]] = {
        "padding": (str(lengths(count)), lengths(count), memory, memory, padded, padded),
        "causal": (str(causal()), causal(), x, x, words, words),
        "window": (str(near(window)), near(window), x, x, words, words),
        "cross": (str(real), real, query, memory, asking, padded),
    }
    ways, moved = _ways(x), _ways(torch.cat([x[:-1], 2 * x[-1:]]))
    hidden = ~causal().dense(count, count)
    measures = {
        name: [float(weights[hidden].max()), float(weights.sum(-1).min()), _moved(answers, moved[name][1])]
        for name, (weights, answers) in ways.items()
    }
    maps = [
        heatmap(
            weigh(q, k, mask),
            of,
            to,
            allowed=mask.dense(len(of), len(to)),
            title=name.capitalize(),
            note=said,
            top=1.0,
        )
        for name, (said, mask, q, k, of, to) in cases.items()
    ]
    titles = ("Scores × mask", "Weights × mask", "Normalised again")
    notes = ("softmax(M ⊙ S)", "M ⊙ softmax(S)", "its rows divided by their sums")
    wrong = [
        heatmap(ways[name][0], words, words, title=title, note=note, top=1.0)
        for name, title, note in zip(WAYS[1:], titles, notes, strict=True)
    ]
    table = matrix(
        list(measures.values()),
        rows=WAYS,
        columns=MEASURES,
        title="A causal mask, added or multiplied in",
        note="largest weight on a hidden word; smallest sum of a row; how far answers move when the last word, hidden from them, is doubled",
        digits=3,
        top=1.0,
    )
    apart = _apart(ways[WAYS[0]][1], attend(x, x, x, causal()))
    on_hidden, _, by_scores = measures[WAYS[1]]
    _, least, by_weights = measures[WAYS[2]]
    return FigureResult(
        name="masks",
        picture=Panels(
            parts=[sheet([maps, wrong]), table],
            title="Masks: who may look at whom",
            note="rows look at columns; hatched: may not. Below, a causal mask M of 0 and 1 multiplied in instead",
        ),
        numbers={
            "words": words,
            "translation": translated,
            "allowed": {name: mask.dense(len(of), len(to)).int().tolist() for name, (_, mask, _, _, of, to) in cases.items()},
            "weights": {name: _rounded(weigh(q, k, mask)) for name, (_, mask, q, k, _, _) in cases.items()},
            "a causal mask": {name: _rounded(weights) for name, (weights, _) in ways.items()},
            "measures": {name: dict(zip(MEASURES, map(_short, each), strict=True)) for name, each in measures.items()},
            "largest difference of the first from attend": apart,
        },
        see=(
            "Hatched cells have weight exactly 0, and every row sums to 1, or to 0 for padding that may look at nothing.",
            f"Multiplied into scores, 0 is a score like others: hidden words get up to {on_hidden:.2f} and move answers by {by_scores:.1%}.",
            f"Multiplied into weights, rows sum to as little as {least:.2f}, and hidden words move answers by {by_weights:.1%}.",
        ),
    )  # fmt: skip


def _ways(x: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Weights and answers of a sentence under a causal mask: as they should be, and where 0 and 1 are multiplied in."""
    allowed = causal().dense(len(x), len(x))
    scores = ScaledDot()(x, x)
    late = scores.softmax(-1) * allowed
    found = (
        scores.masked_fill(~allowed, -torch.inf).softmax(-1),
        (scores * allowed).softmax(-1),
        late,
        late / late.sum(-1, keepdim=True),
    )
    return {name: (weights, weights @ x) for name, weights in zip(WAYS, found, strict=True)}


def _moved(answers: Tensor, others: Tensor) -> float:
    """The largest change of an answer, as a part of its length; the last word is left out, for it may look at itself."""
    changed = (others - answers)[:-1].norm(dim=-1) / answers[:-1].norm(dim=-1)
    return float(changed.max())


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _short(value: float) -> float:
    return round(value, 6)


def _rounded(weights: Tensor) -> list[list[float]]:
    return [[_short(weight) for weight in row] for row in weights.tolist()]
