"""Sampling: the next token drawn at random, as likely as the model finds it. At once, or token by token (`stream`)."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.given import integers, number, whole
from regard.decoding.decode import Limits, RowKeys, SteppedDecode, check_model, decode, evaluating, per_row
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Choice, SingleSearch, best, permitted
from regard.errors import RegardError
from regard.models.protocols import AnyModel


def sample(
    model: AnyModel,
    source: Any,
    *,
    limits: Limits,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    numbers: Int[Tensor, " b"] | None = None,
) -> list[Hypothesis]:
    """A text for every row of the source, drawn from p^(1/temperature) over the tokens that are let through.

    Those are the `top_k` likeliest, and of them the likeliest whose probabilities together reach `top_p`. The text
    of a row follows from the seed and the row's number, whatever else is in the batch; `numbers` names the rows
    otherwise than 0, 1, 2, … A temperature of 0 is greedy, and one below 1e-300 is as one of 1e-300: of tokens that are
    equally likely to the last bit, any. `log_probability` is that of the model itself, before any of this.
    """
    choose = drawing(temperature=temperature, top_k=top_k, top_p=top_p)
    make = partial(SingleSearch, choose=choose)
    name = ("sample", temperature, top_k, top_p)
    found = decode(model, source, make, limits=limits, name=name, row_keys=row_keys(seed, numbers))
    return [text for (text,) in found]


def stream(
    model: AnyModel,
    prompt: Any,
    *,
    limits: int,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    numbers: Int[Tensor, " 1"] | None = None,
) -> Iterator[int]:
    """The tokens that `sample` gives for a prompt of one row, each as soon as it is known; END is not among them."""
    check_model(model)
    per_row(limits, 1)
    make = partial(SingleSearch, choose=drawing(temperature=temperature, top_k=top_k, top_p=top_p))
    keys = row_keys(seed, numbers)
    return _tokens(model, lambda: SteppedDecode(model, prompt, make, limits=limits, row_keys=keys))


def _tokens(model: AnyModel, begin: Callable[[], SteppedDecode]) -> Iterator[int]:
    with evaluating(model):
        stepped = begin()
    if len(stepped.texts) != 1:
        raise RegardError(f"a stream of {len(stepped.texts)} prompts: give one, or use sample for many")
    while True:
        # Entered anew for every token: between two of them the caller has gradients and training mode as they were.
        with evaluating(model):
            going = stepped.step()
        if going:
            yield int(stepped.search.tokens)
            continue
        (text,) = stepped.texts[0]
        if not text.finished:
            yield text.tokens[-1]
        return


def row_keys(seed: int, numbers: Int[Tensor, " b"] | None = None) -> RowKeys:
    """The random keys of rows: a function of the seed and the number of each, by default 0, 1, 2, …"""
    whole("seed", seed)
    known = None if numbers is None else integers("numbers", numbers, 1)

    def of_rows(rows: int) -> Int[Tensor, " rows"]:
        if known is not None and len(known) != rows:
            raise RegardError(f"{len(known)} numbers for {rows} rows: give one a row")
        return _keyed(seed, torch.arange(rows, device="cpu") if known is None else known.long().cpu())

    return of_rows


def drawing(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> Choice | None:
    """The choice of tokens that `sample` makes; None for the likeliest."""
    _check(temperature, top_k, top_p)
    if temperature == 0:
        return None
    # Nearer to 0, or farther from it, nothing changes but that 1 / temperature is inf or 0, which a GPU multiplies by.
    divisor = min(max(temperature, _COLDEST), 1 / _COLDEST)

    def choose(
        logits: Float[Tensor, "r vocabulary"], row_keys: Int[Tensor, " r"], at: Int[Tensor, " 1"]
    ) -> tuple[Int[Tensor, " r"], Float[Tensor, " r"]]:
        logprobs = permitted(logits)
        probabilities = let_through(logprobs, temperature=divisor, top_k=top_k, top_p=top_p)
        cumulative = probabilities.cumsum(-1)
        aim = _drawn(row_keys, at)[:, None] * cumulative[:, -1:]
        # The first token whose cumulative probability is beyond the aim, so never one of probability 0. In the
        # order of the vocabulary, because an order by probability could turn over with the rounding of a batch.
        chosen = torch.searchsorted(cumulative, aim, right=True)
        # Sums of a GPU, made in parallel, need not rise where a probability is 0: what may not be drawn is not.
        chosen = chosen.clamp_max(cumulative.shape[-1] - 1)
        chosen = chosen.where(probabilities.gather(1, chosen) > 0, probabilities.argmax(-1, keepdim=True))
        return chosen[:, 0], logprobs.gather(1, chosen)[:, 0]

    return choose


_COLDEST = 1e-300


def let_through(
    logprobs: Float[Tensor, "r vocabulary"], *, temperature: float, top_k: int | None, top_p: float
) -> Float[Tensor, "r vocabulary"]:
    """The probabilities to draw from, 0 for what is filtered out (top-p: Holtzman 2020)."""
    relative = (logprobs - logprobs.amax(-1, keepdim=True)).double() / temperature
    if top_k is not None and top_k < relative.shape[-1]:
        values, index = best(relative, top_k)
        relative = torch.full_like(relative, -torch.inf).scatter(-1, index, values)
    probabilities = relative.softmax(-1)
    if top_p < 1:
        falling, index = probabilities.sort(dim=-1, descending=True, stable=True)
        before = falling.cumsum(-1) - falling
        probabilities = torch.zeros_like(falling).scatter(-1, index, falling.where(before < top_p, 0.0))
        probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    return probabilities


def uniform(seed: int, rows: Int[Tensor, " r"], step: int) -> Float[Tensor, " r"]:
    """A number in [0, 1) for every row, a pure function of (seed, row, step).

    Each of the three is stirred in by the finaliser of SplitMix64 (Steele 2014), on integers that wrap.
    """
    return _drawn(_keyed(seed, rows.long()), step)


def _keyed(seed: int, rows: Int[Tensor, " r"]) -> Int[Tensor, " r"]:
    """Seed and row, stirred."""
    return _stirred(torch.full_like(rows, _signed(seed)) + _signed(_GOLDEN)) + rows


def _drawn(row_keys: Int[Tensor, " r"], step: int | Int[Tensor, " 1"]) -> Float[Tensor, " r"]:
    """With the step."""
    mixed = _stirred(row_keys + _signed(_GOLDEN)) + step
    # 52 bits, so that even the largest number times a rounded total stays below the total.
    return _shifted(_stirred(mixed + _signed(_GOLDEN)), 12).double() * 2.0**-52


_GOLDEN = 0x9E3779B97F4A7C15


def _stirred(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shifted(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """To the right, without its sign following."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """The last 64 bits of a number as torch's signed integers hold them."""
    return (number + 2**63) % 2**64 - 2**63


def _check(temperature: float, top_k: int | None, top_p: float) -> None:
    if not 0 <= number("temperature", temperature) < math.inf:
        raise RegardError(
            f"a temperature of {temperature}: give 0 (the likeliest token) or a positive number"
        )
    if top_k is not None and whole("top_k", top_k) < 1:
        raise RegardError(f"top_k={top_k}: let at least 1 token through, or give None for all")
    if not 0 < number("top_p", top_p) <= 1:
        raise RegardError(f"top_p={top_p}: give a probability above 0 and at most 1, which lets all through")
