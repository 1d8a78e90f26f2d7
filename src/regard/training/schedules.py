"""Schedules: the learning rate of every update. Updates are counted from 1."""

import math

from regard.runs.settings import Training


def inverse_square_root(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, √(w / t)): up in a line, then down with the root (Vaswani 2017, eq. 3).

    The paper's d_model^-½ · min(t^-½, t · w^-1½) has the same shape; here its peak, at t = w, is `rate`.
    """
    warmup = max(warmup, 1)
    return rate * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, rate: float, warmup: int, steps: int) -> float:
    """rate · ½(1 + cos π(t - w) / (T + 1 - w)): half a wave from the peak down (Loshchilov 2017, eq. 5).

    It reaches zero one update after the last, so that the last still learns something.
    """
    if step < warmup:
        return rate * step / warmup
    share = min((step - warmup) / max(steps + 1 - warmup, 1), 1.0)
    return rate * 0.5 * (1 + math.cos(math.pi * share))


def constant(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, 1): up in a line, then level."""
    return rate * min(step / max(warmup, 1), 1.0)


def rate_at(step: int, settings: Training) -> float:
    """The learning rate that a training asks for at an update."""
    rate, warmup = settings.learning_rate, settings.warmup
    if settings.schedule == "cosine":
        return cosine(step, rate=rate, warmup=warmup, steps=settings.steps)
    if settings.schedule == "constant":
        return constant(step, rate=rate, warmup=warmup)
    return inverse_square_root(step, rate=rate, warmup=warmup)
