"""The first example of most lectures: attention over four words, with every intermediate value."""

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import Drawing, PictureGrid

WORDS = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])


def four_words(
    *, seed: Annotated[int, "Draws the three matrices W_q, W_k and W_v, of the numbers 0, 1 and 2."] = 42
) -> FigureResult:
    """softmax(QKᵀ/√d) V over four words of three features, step by step (Vaswani 2017, eq. 1)."""
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    random = np.random.default_rng(seed)
    w_q, w_k, w_v = (random.integers(3, size=(3, 3)).astype(float) for _ in range(3))
    query, key, value = WORDS @ w_q, WORDS @ w_k, WORDS @ w_v
    scores = query @ key.T
    scaled = scores / np.sqrt(key.shape[1])
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    answers = weights @ value
    q, k, v = (torch.from_numpy(part) for part in (query, key, value))
    apart = max(_apart(weigh(q, k), weights), _apart(attend(q, k, v), answers))
    steps = {
        "X": WORDS, "W_q": w_q, "W_k": w_k, "W_v": w_v, "Q = X W_q": query, "K = X W_k": key, "V = X W_v": value,
        "Q Kᵀ": scores, "Q Kᵀ / √3": scaled, "A = softmax": weights, "A V": answers,
    }  # fmt: skip
    names = [f"word {number}" for number in range(1, 5)]

    def drawn(name: str) -> Drawing:
        digits = 0 if np.all(steps[name] % 1 == 0) else 3
        words = names if len(steps[name]) == 4 else None
        over = names if steps[name].shape == (4, 4) else None
        return matrix(steps[name], rows=words, columns=over, title=name, digits=digits)

    order = list(steps)
    picture = PictureGrid(
        rows=[[drawn(name) for name in order[start:end]] for start, end in ((0, 4), (4, 7), (7, 9), (9, 11))],
        title="Attention over four words",
        note="softmax(QKᵀ/√d) V, in NumPy; weigh and attend give the same numbers",
    )
    row = int(weights.max(axis=1).argmax())
    most = int(weights[row].argmax())
    return FigureResult(
        name="four-words",
        picture=picture,
        numbers={
            "seed": seed,
            **{name: part.tolist() for name, part in steps.items()},
            "largest difference from weigh and attend": apart,
        },
        see=(
            f"Every row of A sums to 1; word {row + 1} looks most at word {most + 1}, with weight {weights[row, most]:.3f}.",
            "Each answer is a mean of the rows of V, weighted by its row of A.",
            f"regard.weigh and regard.attend differ from NumPy by at most {apart:.1e}.",
        ),
    )


def _apart(ours: Tensor, theirs: np.ndarray) -> float:
    return float(np.abs(ours.numpy() - theirs).max())
