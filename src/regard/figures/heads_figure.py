"""Heads with widths of their own: concatenated and projected, and as a sum of one term a head."""

from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention.multihead import HeadSizes, MultiHeadAttention
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.sight.pictures.matrix import Matrix, matrix
from regard.sight.pictures.scene import PictureGrid

WORDS = ("the", "cat", "sat", "down")
WIDTH = 5  # features of a word, and of an answer
COUNTS = (1, 2, 3, 4, 8)  # of heads for which parameters are counted and the sum is compared
Array = NDArray[np.float64]


def heads(
    *,
    seed: Annotated[int, "Draws the words and the matrices, to one digit after the point."] = 0,
    heads: Annotated[int, "Heads that are drawn."] = 2,
    key_width: Annotated[int, "Features of a head's query and key: Keras's key_dim."] = 2,
    value_width: Annotated[int, "Features of a head's value: Keras's value_dim."] = 3,
) -> FigureResult:
    """Heads concatenated and projected are a sum of one term a head: concat_h(A_h X W_v[h]) W_o = Σ_h A_h X W_v[h] W_o[h].

    With a word a column, as some texts have it, Σ_h V_h X A_h, where V_h = (W_v[h] W_o[h])ᵀ (Vaswani 2017, section 3.2.2).
    """
    bounds = {"--seed": (seed, 0, 2**31), "--heads": (heads, 1, 4), "--key-width": (key_width, 1, 8), "--value-width": (value_width, 1, 4)}  # fmt: skip
    for option, (given, low, high) in bounds.items():
        if not low <= given <= high:
            raise RegardError(f"{option} {given}: give {low} to {high}")
    apart, counted = {}, {}
    for count in COUNTS:
        apart[str(count)], counted[str(count)] = _compared(_Parts(seed, count, key_width, value_width))
    parts = _Parts(seed, heads, key_width, value_width)
    answers = [weights @ parts.x @ w_v for weights, w_v in zip(parts.weights(), parts.w_v, strict=True)]
    joined, terms = np.concatenate(answers, axis=1), parts.terms()
    here = _compared(parts)[0]

    def drawn(values: Array, title: str, *, words: bool = True, across: bool = False) -> Matrix:
        return matrix(values, rows=WORDS if words else None, columns=WORDS if across else None, title=title)

    rows = [[drawn(parts.x, "X, four words")]]
    for number, (weights, answer, term) in enumerate(
        zip(parts.weights(), answers, terms, strict=True), start=1
    ):
        rows.append([
            drawn(weights, f"A_{number} = softmax(Q_{number} K_{number}ᵀ / √{key_width})", across=True),
            drawn(answer, f"A_{number} X W_v[{number}]"),
            drawn(term, f"(V_{number} X A_{number})ᵀ"),
        ])  # fmt: skip
    rows.append([
        drawn(joined, "Concatenated"),
        drawn(parts.w_o.reshape(-1, WIDTH), "W_o", words=False),
        drawn(joined @ parts.w_o.reshape(-1, WIDTH), "Concatenated × W_o = the sum"),
    ])  # fmt: skip
    most = max(here, *apart.values())
    each = (2 * key_width + 2 * value_width) * WIDTH
    return FigureResult(
        name="heads",
        picture=PictureGrid(
            rows=rows,
            title=f"{heads} {'head' if heads == 1 else 'heads'}: concatenated and projected, or summed",
            note=f"key_width {key_width}, value_width {value_width}, words of {WIDTH} features; V_h = (W_v[h] W_o[h])ᵀ",
        ),
        numbers={
            "seed": seed, "heads": heads, "key width": key_width, "value width": value_width, "width": WIDTH,
            "X": parts.x.tolist(), "W_q": parts.w_q.tolist(), "W_k": parts.w_k.tolist(),
            "W_v": parts.w_v.tolist(), "W_o": parts.w_o.tolist(),
            "weights": [weights.tolist() for weights in parts.weights()],
            "concatenated": joined.tolist(),
            "terms": [term.tolist() for term in terms],
            "answer": np.sum(terms, axis=0).tolist(),
            "parameters by heads": counted,
            "largest difference of the three ways by heads": apart,
        },
        see=(
            f"Each head has weights of its own; its {value_width} features are side by side in the concatenation, {heads * value_width} in all.",
            f"Concatenated × W_o, the sum of V_h X A_h and MultiHeadAttention agree to {most:.0e}, for {', '.join(map(str, COUNTS))} heads.",
            f"Widths per head are free of the width of words: each head adds {each} parameters; {heads} have {heads * each} without biases.",
        ),
    )  # fmt: skip


class _Parts:
    """Words [n, d] and the matrices of each head: W_q and W_k [heads, d, key_width], W_v and W_o likewise."""

    def __init__(self, seed: int, heads: int, key_width: int, value_width: int) -> None:
        random = np.random.default_rng(seed)

        def draw(*shape: int) -> Array:
            return random.normal(size=shape).round(1)

        self.x = draw(len(WORDS), WIDTH)
        self.w_q, self.w_k = draw(heads, WIDTH, key_width), draw(heads, WIDTH, key_width)
        self.w_v, self.w_o = draw(heads, WIDTH, value_width), draw(heads, value_width, WIDTH)

    def weights(self) -> list[Array]:
        """A_h, rows sum to 1."""
        found = []
        for w_q, w_k in zip(self.w_q, self.w_k, strict=True):
            scores = (self.x @ w_q) @ (self.x @ w_k).T / np.sqrt(w_k.shape[1])
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            found.append(powers / powers.sum(axis=1, keepdims=True))
        return found

    def terms(self) -> list[Array]:
        """(V_h X A_h)ᵀ, computed with a word a column: X is d × n, and the columns of A_h sum to 1."""
        columns = self.x.T
        return [
            ((w_v @ w_o).T @ columns @ weights.T).T
            for weights, w_v, w_o in zip(self.weights(), self.w_v, self.w_o, strict=True)
        ]

    def module(self) -> MultiHeadAttention:
        """The same matrices in the library's module."""
        count, _, key_width = self.w_q.shape
        sizes = HeadSizes(key_width=key_width, value_width=self.w_v.shape[2])
        attention = MultiHeadAttention(WIDTH, count, sizes=sizes, affine=False).double()
        maps = [part.transpose(0, 2, 1).reshape(-1, WIDTH) for part in (self.w_q, self.w_k, self.w_v)]
        attention.load_state_dict({
            "input.all.weight": torch.from_numpy(np.concatenate(maps)),
            "output.weight": torch.from_numpy(self.w_o.reshape(-1, WIDTH).T.copy()),
        })  # fmt: skip
        return attention


def _compared(parts: _Parts) -> tuple[float, int]:
    """How far concatenation, sum and module are apart at most, and the parameters of the module."""
    answers = [weights @ parts.x @ w_v for weights, w_v in zip(parts.weights(), parts.w_v, strict=True)]
    projected = np.concatenate(answers, axis=1) @ parts.w_o.reshape(-1, WIDTH)
    attention = parts.module()
    with torch.no_grad():
        ours = attention(torch.from_numpy(parts.x)).numpy()
    apart = max(np.abs(sum(parts.terms()) - projected).max(), np.abs(ours - projected).max())
    return float(apart), sum(weight.numel() for weight in attention.parameters())
