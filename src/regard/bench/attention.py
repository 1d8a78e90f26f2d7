"""Attention itself: `attend` against torch's kernel, the equation written out, and x-transformers, on one input."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend
from regard.attention.call import Call
from regard.attention.masks import Mask, causal, lengths
from regard.attention.scores import Additive, Bilinear, Cosine, Dot, LowRank, ScaledDot, Score
from regard.attention.weights import weigh
from regard.bench.contest import Contender, Row, contest
from regard.bench.peers import peer
from regard.bench.record import Setting

BATCH, HEADS, WIDTH, HIDDEN = 2, 8, 64, 128
FITS = 3 * 2**30  # the written-out form is left out where it would hold more than this
CHECKED = 16  # queries, the last ones, whose answers are compared
Mixed = Callable[[], Tensor]


def attention(setting: Setting) -> Iterator[Row]:
    """Every score at every length, forward and with gradients; quickly: the scaled dot product alone, and masked."""
    sizes = ((512, 2048), (512, 2048, 8192)) if setting.gpu else ((128, 512), (128, 512, 2048))
    every = scores()
    chosen = {"scaled dot": every["scaled dot"]} if setting.quick else every
    dtype = torch.bfloat16 if setting.gpu else torch.float32
    for length in sizes[0 if setting.quick else 1]:
        for name, score in chosen.items():
            made = contenders(score.to(setting.device, dtype), length, setting.device, dtype)
            yield from _rows(f"{name}, {length:,}", *made, setting)
        made = masked_contenders(length, setting.device, dtype)
        yield from _rows(f"padded causal, {length:,}", *made, setting)


def scores() -> dict[str, Score]:
    """The six, with one set of weights a head; additive has one head, as in the translators that use it."""
    return {
        "dot": Dot(),
        "scaled dot": ScaledDot(),
        "cosine": Cosine(0.1, learned=True),
        "bilinear": Bilinear(WIDTH, WIDTH, heads=HEADS),
        "low-rank 16": LowRank(WIDTH, WIDTH, rank=16, heads=HEADS),
        "additive 128": Additive(WIDTH, WIDTH, hidden=HIDDEN),
    }


def contenders(
    score: Score, length: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[dict[str, Mixed], list[Tensor], Tensor]:
    """What runs against what, the inputs that gradients are taken of, and the last answers in float64.

    torch's kernel and x-transformers know the dot product alone; beside other scores they are there for their speed.
    """
    shape = (1, 1, length, WIDTH) if isinstance(score, Additive) else (BATCH, HEADS, length, WIDTH)
    query, key, value = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
    call = Call(query, key, score=score)
    runs: dict[str, Mixed] = {
        "regard": lambda: attend(call, value),
        "torch": lambda: F.scaled_dot_product_attention(query, key, value),
    }
    held = shape[0] * shape[1] * length**2 * 4 * (3 * HIDDEN if isinstance(score, Additive) else 4)
    if held <= FITS:
        runs["written out"] = lambda: weigh(call) @ value
    if by_hand := typed_by_hand(score, query, key, value):
        runs["by hand"] = by_hand
    if isinstance(score, ScaledDot) and (other := _x_transformers(causal=False, device=device)):
        runs["x-transformers"] = lambda: other(query, key, value)[0]
    inputs = [query, key, value, *(weight for weight in score.parameters() if weight.requires_grad)]
    return runs, inputs, _truth(score, query, key, value)


def typed_by_hand(score: Score, query: Tensor, key: Tensor, value: Tensor) -> Mixed | None:
    """The same score as one would type it around torch's attention: what its own arithmetic costs at the least."""
    sdpa = F.scaled_dot_product_attention
    match score:
        case Cosine():
            return lambda: sdpa(
                F.normalize(query, dim=-1) / score.log_temperature.exp(),
                F.normalize(key, dim=-1),
                value,
                scale=1.0,
            )
        case Bilinear():
            return lambda: sdpa(query @ score.weight, key, value, scale=1.0)
        case LowRank():
            return lambda: sdpa(query @ score.query_weight.mT @ score.key_weight, key, value, scale=1.0)
    return None


def masked_contenders(
    length: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[dict[str, Mixed], list[Tensor], Tensor]:
    """A padded causal batch. torch has its causal flag alone, which lets padding look; or a matrix, made before.

    Only regard keeps what is in the padding from mattering, whatever it is (contract 3).
    """
    query, key, value = (
        torch.randn(BATCH, HEADS, length, WIDTH, device=device, dtype=dtype, requires_grad=True)
        for _ in range(3)
    )
    sizes = torch.tensor([length, length * 2 // 3], device=device)
    mask = causal() & lengths(sizes)
    runs: dict[str, Mixed] = {
        "regard": lambda: attend(query, key, value, mask),
        "torch": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=True),
    }
    real = (torch.arange(length, device=device) < sizes[:, None])[:, None, None]
    matrix = real & torch.ones(length, length, dtype=torch.bool, device=device).tril()
    runs["torch, masked"] = lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=matrix)
    if other := _x_transformers(causal=True, device=device):
        runs["x-transformers"] = lambda: other(query, key, value, mask=real)[0]
    last = causal(offset=max(0, length - CHECKED))
    return runs, [query, key, value], _truth(ScaledDot(), query, key, value, last)


def _x_transformers(*, causal: bool, device: str) -> nn.Module | None:
    module = peer("x_transformers.attend")
    return None if module is None else module.Attend(flash=True, causal=causal).to(device)


def _truth(score: Score, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None = None) -> Tensor:
    """What the last queries of the first sample get, in float64."""
    parts = [part[:1].detach().double() for part in (query[..., -CHECKED:, :], key, value)]
    with torch.no_grad():
        return weigh(parts[0], parts[1], mask, score=copy.deepcopy(score).double()) @ parts[2]


def _rows(
    task: str, runs: dict[str, Mixed], inputs: list[Tensor], truth: Tensor, setting: Setting
) -> Iterator[Row]:
    """Both modes of every contender."""
    other_scores = ("torch",) if "by hand" in runs or task.startswith(("dot", "additive")) else ()
    checks = {
        name: "another score" if name in other_scores else off(run, truth) for name, run in runs.items()
    }
    for mode in ("forward", "backward"):
        timed = {
            name: Contender(run=partial(run_once, run, inputs, mode == "backward"), check=checks[name])
            for name, run in runs.items()
        }
        yield from contest("attention", f"{task}, {mode}", timed, setting)


def run_once(run: Mixed, inputs: list[Tensor], backward: bool) -> None:
    """Forward alone, or with the gradients of all inputs."""
    if backward:
        torch.autograd.grad(run().sum(), inputs, allow_unused=True)
    else:
        with torch.no_grad():
            run()


def off(run: Mixed, truth: Tensor) -> str:
    """How far the last answers of the first sample are from the truth, at the most."""
    with torch.no_grad():
        return f"{float((run()[:1, ..., -CHECKED:, :].double() - truth).abs().max()):.0e} off"
