"""Attention over a set: what the order of queries, of keys and of values does to the answers."""

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.weights import weigh
from regard.data.letter_vectors import spell
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.figures.sentence_words import sentence_words
from regard.sight.pictures.matrix import Matrix, matrix
from regard.sight.pictures.scene import PictureGrid

FEATURES = ("y₁", "y₂", "y₃")  # features of a value


def shuffle(
    *,
    seed: Annotated[int, "Draws the order and the values."] = 0,
    sentence: Annotated[
        str, "The words; those spelled alike look at each other."
    ] = "who watches the watchmen",
) -> FigureResult:
    """Keys and values shuffled together give the same answers; queries shuffled permute them.

    softmax(Q (PK)ᵀ) (PV) = softmax(QKᵀ) V and softmax((PQ) Kᵀ) V = P softmax(QKᵀ) V for every permutation P.
    """
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    words = sentence_words("--sentence", sentence)
    if len(set(words)) < 2:
        raise RegardError(f"--sentence {sentence!r}: give at least two different words")
    random = np.random.default_rng(seed)
    order = _moved(words, random)
    query = key = spell(words).double()
    value = torch.from_numpy(random.integers(-3, 4, size=(len(words), len(FEATURES))).astype(float))
    answers = attend(query, key, value)
    cases = {
        "in order": (query, key, value),
        "keys and values shuffled together": (query, key[order], value[order]),
        "queries shuffled": (query[order], key, value),
        "keys shuffled, values not": (query, key[order], value),
    }
    moved = [words[place] for place in order]
    rows: list[list[Matrix]] = []
    for name, (q, k, v) in cases.items():
        asking = moved if name == "queries shuffled" else words
        looked_at = moved if k is not key else words
        rows.append([
            matrix(weigh(q, k), rows=asking, columns=looked_at, title=f"Weights, {name}", top=1.0),
            matrix(attend(q, k, v), rows=asking, columns=FEATURES, title="Answers", top=3.0),
        ])  # fmt: skip
    outcome = {name: attend(*case) for name, case in cases.items()}
    sentence_moved = attend(query[order], key[order], value[order])
    apart = {
        "keys and values shuffled together": _apart(outcome["keys and values shuffled together"], answers),
        "queries shuffled": _apart(outcome["queries shuffled"], answers[order]),
        "the whole sentence shuffled": _apart(sentence_moved, answers[order]),
        "keys shuffled, values not": _apart(outcome["keys shuffled, values not"], answers),
    }
    same, permuted, whole, other = apart.values()
    return FigureResult(
        name="shuffle",
        picture=PictureGrid(
            rows=rows, title="What the order of words does", note="softmax(QKᵀ/√d) V; rows look at columns"
        ),
        numbers={
            "seed": seed,
            "words": words,
            "order": order,
            "values": value.tolist(),
            "weights": {name: weigh(q, k).tolist() for name, (q, k, _) in cases.items()},
            "answers": {name: each.tolist() for name, each in outcome.items()},
            "largest difference from the answers in order, permuted where queries are": apart,
        },
        see=(
            f"Keys and values shuffled together: columns of the weights move, the answers stay (within {same:.1g}).",
            f"Queries shuffled: the answers move with them ({permuted:.1g}); so do all three ({whole:.1g}): order is not seen.",
            f"Keys shuffled without their values: another question, whose answers differ by up to {other:.2f}.",
        ),
    )


def _moved(words: list[str], random: np.random.Generator) -> list[int]:
    """A permutation that leaves no place as it is, and changes the sentence."""
    while True:
        order = random.permutation(len(words))
        if (order != np.arange(len(words))).all() and [words[place] for place in order] != words:
            return [int(place) for place in order]


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())
