"""Attention with a word a column, as some texts write it, beside the form with a word a row."""

from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.attend import attend
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.sight.pictures.matrix import Matrix, matrix
from regard.sight.pictures.scene import PictureGrid

WORDS = ("the", "cat", "sat", "down")
FEATURES, KEY_WIDTH = 3, 2
Array = NDArray[np.float64]


def columns(*, seed: Annotated[int, "Draws the words and the matrices W_q, W_k and V."] = 0) -> FigureResult:
    """Y = V X A with X of D × N, a word a column, and the columns of A normalised; equal to rows, transposed.

    A = softmax(KᵀQ / √d) over each column, where Q = W_q X and K = W_k X: A[j, i] says how much word i looks at word j.
    """
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    random = np.random.default_rng(seed)
    x = random.normal(size=(FEATURES, len(WORDS))).round(1)
    w_q, w_k = (random.normal(size=(KEY_WIDTH, FEATURES)).round(1) for _ in range(2))
    v = random.normal(size=(FEATURES, FEATURES)).round(1)
    scores = (w_k @ x).T @ (w_q @ x) / np.sqrt(KEY_WIDTH)
    weights = _normalised(scores, axis=0)
    answers = v @ x @ weights
    rows = torch.from_numpy(x.T)  # as the library has them: a word a row
    query, key, value = (rows @ torch.from_numpy(each).T for each in (w_q, w_k, v))
    by_rows, answers_by_rows = weigh(query, key).numpy(), attend(query, key, value).numpy()
    apart = max(_apart(weights, by_rows.T), _apart(answers, answers_by_rows.T))
    wrong = _normalised(scores, axis=1)
    moved = _apart(v @ x @ wrong, answers)

    def drawn(values: Array, title: str, *, down: bool = False, across: bool = False) -> Matrix:
        names = (WORDS if down else None, WORDS if across else None)
        return matrix(values, rows=names[0], columns=names[1], title=title)

    return FigureResult(
        name="columns",
        picture=PictureGrid(
            rows=[
                [
                    drawn(x, "X, a word a column", across=True),
                    drawn(weights, "A, columns sum to 1", down=True, across=True),
                    drawn(answers, "Y = V X A", across=True),
                ],
                [
                    drawn(x.T, "Xᵀ, a word a row", down=True),
                    drawn(by_rows, "Aᵀ, rows sum to 1", down=True, across=True),
                    drawn(answers_by_rows, "Yᵀ = Aᵀ Xᵀ Vᵀ", down=True),
                ],
                [
                    drawn(v, "V"),
                    drawn(wrong, "Rows normalised: not A", down=True, across=True),
                    drawn(v @ x @ wrong, "V X times it: not Y", across=True),
                ],
            ],
            title="Columns and rows",
            note="A[j, i]: how much word i looks at word j; one form is the other's transpose",
        ),
        numbers={
            "seed": seed,
            **{"X": x.tolist(), "W_q": w_q.tolist(), "W_k": w_k.tolist(), "V": v.tolist()},
            **{"KᵀQ / √d": scores.tolist(), "A": weights.tolist(), "Y": answers.tolist()},
            "by rows": {"A": by_rows.tolist(), "Y": answers_by_rows.tolist()},
            "normalised along rows": wrong.tolist(),
            "largest difference of columns and rows transposed": apart,
            "largest difference of Y where the wrong axis is normalised": round(moved, 6),
        },
        see=(
            "With a word a column, column i of A says what word i looks at, and column i of Y is its answer.",
            f"weigh and attend, with a word a row, give the transposes: the largest difference is {apart:.0e}.",
            f"KᵀQ normalised along rows says instead how a key divides itself among the queries: Y is off by up to {moved:.2f}.",
        ),
    )


def _normalised(scores: Array, *, axis: int) -> Array:
    powers: Array = np.exp(scores - scores.max(axis=axis, keepdims=True))
    found: Array = powers / powers.sum(axis=axis, keepdims=True)
    return found


def _apart(one: Array, other: Array) -> float:
    return float(np.abs(one - other).max())
