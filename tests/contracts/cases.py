"""The grid the contracts are held against: every score × mask × bias × dtype, on shapes with no two sizes alike."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard import (
    Additive,
    ALiBi,
    Bilinear,
    Call,
    Cosine,
    Dot,
    LowRank,
    Mask,
    RelativeBuckets,
    ScaledDot,
    Score,
    TensorBias,
    causal,
    documents,
    keep,
    lengths,
    prefix,
    window,
)
from regard.attention.biases import Bias

BATCH, HEADS, KV_HEADS, LENGTH, MEMORY, WIDTH, VALUE_WIDTH = 3, 4, 2, 11, 13, 8, 5


def square_masks() -> dict[str, Callable[[], Mask | None]]:
    """Masks for queries and keys at the same LENGTH positions. The third row of the batch is hard: often empty."""
    n = torch.tensor([LENGTH, 7, 0])
    ids = torch.tensor([[0] * 4 + [1] * 7, [0] * 3 + [1] * 2 + [2] * 4 + [-1] * 2, [-1] * LENGTH])
    chance = torch.Generator().manual_seed(3)
    sparse = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=chance, device="cpu") > 0.7
    sparse[:, :, 4] = False
    sparse[..., 6] = False
    return {
        "none": lambda: None,
        "causal": causal,
        "strictly-before": lambda: causal(offset=-1),
        "lengths": lambda: lengths(n),
        "left-padded": lambda: lengths(n, padded="left"),
        "keys": lambda: lengths(keys=n),
        "causal-lengths": lambda: causal() & lengths(n),
        "causal-left": lambda: causal() & lengths(n, padded="left"),
        "window": lambda: window(3),
        "causal-window-lengths": lambda: causal() & window(4) & lengths(n),
        "documents": lambda: documents(ids) & causal(),
        "prefix": lambda: (causal() | prefix(n)) & lengths(keys=torch.tensor([11, 9, 5])),
        "keep": lambda: keep(sparse),
        "not": lambda: ~(window(3) | keep(sparse[:, 0])),
    }


def rectangular_masks() -> dict[str, Callable[[], Mask | None]]:
    """Masks for LENGTH queries over MEMORY keys."""
    keys, queries = torch.tensor([MEMORY, 5, 0]), torch.tensor([8, LENGTH, 3])
    return {
        "none": lambda: None,
        "keys": lambda: lengths(keys=keys),
        "keys-queries": lambda: lengths(keys=keys, queries=queries),
        "decode": lambda: causal(offset=MEMORY - LENGTH),
        "decode-window": lambda: causal(offset=2) & window(3, offset=2) & lengths(keys=keys, padded="left"),
        "packed": lambda: documents(torch.arange(MEMORY) // 4, queries=torch.arange(LENGTH) // 3 - 1),
        "keep": lambda: keep(torch.eye(LENGTH, MEMORY, dtype=torch.bool)),
    }


def scores() -> dict[str, Callable[[int], Score]]:
    """Scores for HEADS query heads over a number of key heads."""
    return {
        "dot": lambda g: Dot(),
        "scaled": lambda g: ScaledDot(),
        "cosine": lambda g: Cosine(0.3, learned=True),
        "bilinear": lambda g: Bilinear(WIDTH, WIDTH, heads=HEADS),
        "low-rank": lambda g: LowRank(WIDTH, WIDTH, rank=3, heads=HEADS, kv_heads=g),
        "additive": lambda g: Additive(WIDTH, WIDTH, hidden=6, heads=HEADS, kv_heads=g),
    }


def biases() -> dict[str, Callable[[int, int], Bias | None]]:
    """Biases for a number of queries and keys."""
    return {
        "none": lambda q, k: None,
        "alibi": lambda q, k: ALiBi(HEADS),
        "tensor": lambda q, k: TensorBias(torch.randn(1, HEADS, q, k)),
        "forbidding": lambda q, k: TensorBias(
            torch.randn(q, k).masked_fill(torch.rand(q, k) > 0.6, -torch.inf)
        ),
        "buckets": lambda q, k: RelativeBuckets(HEADS, buckets=8, far=9),
    }


DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True)
class Case:
    """One cell of the grid."""

    mask: str
    score: str
    bias: str
    dtype: str
    grouped: bool
    square: bool

    def __str__(self) -> str:
        shape = "square" if self.square else "cross"
        return "-".join(
            [self.score, self.mask, self.bias, self.dtype, "grouped" if self.grouped else "full", shape]
        )

    def build(self, seed: int = 11) -> tuple[Call, Tensor]:
        """The call and its values, the same every time."""
        torch.manual_seed(seed)
        masks = square_masks() if self.square else rectangular_masks()
        keys, heads = (LENGTH if self.square else MEMORY), (KV_HEADS if self.grouped else HEADS)
        dtype = DTYPES[self.dtype]
        score = scores()[self.score](heads).to(dtype)
        bias = biases()[self.bias](LENGTH, keys)
        if isinstance(bias, torch.nn.Module):
            bias = bias.to(dtype)
        query = torch.randn(BATCH, HEADS, LENGTH, WIDTH, dtype=dtype)
        key = torch.randn(BATCH, heads, keys, WIDTH, dtype=dtype)
        value = torch.randn(BATCH, heads, keys, VALUE_WIDTH, dtype=dtype)
        return Call(query, key, masks[self.mask](), bias, score), value


def every_case() -> list[Case]:
    """The full grid."""
    cases = []
    for square, masks in ((True, square_masks()), (False, rectangular_masks())):
        axes = itertools.product(masks, scores(), biases(), DTYPES, (False, True))
        cases += [Case(*values, square=square) for values in axes]
    return cases


def pairwise(cases: list[Case]) -> list[Case]:
    """A few cases in which every two values of two axes meet at least once (greedy, in a fixed order)."""
    order = torch.randperm(len(cases), generator=torch.Generator().manual_seed(5), device="cpu").tolist()
    met: set[tuple[object, ...]] = set()
    chosen = []
    for wanted in (6, 4, 2, 1):  # first the cases that show many new pairs, last those that show one
        for index in order:
            pairs = set(itertools.combinations(vars(cases[index]).items(), 2)) - met
            if len(pairs) >= wanted:
                met |= pairs
                chosen.append(cases[index])
    return chosen
