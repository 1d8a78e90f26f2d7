"""Axes: where a value lies between two ends, and which round values are named along the way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

Kind = Literal["plain", "log", "percent"]

_WIDE = 0.06  # of a constant: what its axis spans on each side of it
_SAME = 1e-12  # of the largest value: what is no further apart is rounding
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    kind: Kind = "plain"

    def at(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one."""
        low, high = self.low, self.high
        if self.kind == "log":
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        # Halves, since the ends may be as far apart as floats go.
        return (value / 2 - low / 2) / (high / 2 - low / 2)

    def names(self) -> tuple[str, ...]:
        """Each tick, all written in one way."""
        if self.kind == "log":
            return tuple(map(_on_log, self.ticks))
        if self.kind == "percent":
            return tuple(f"{name} %" for name in _alike([100 * tick for tick in self.ticks]))
        return tuple(_alike(self.ticks))


def axis(values: Sequence[float], *, kind: Kind = "plain", count: int = 5, tight: bool = False) -> Axis:
    """An axis over finite values with about `count` ticks. A `tight` one ends at the values, others at ticks."""
    low, high = min(values), max(values)
    if kind == "log":
        found = _log_axis(low, high, count)
        return _tightened(found, low, high) if tight and high > low else found
    size = max(abs(low), abs(high))
    constant = high / 2 - low / 2 <= max(_SAME * size, 1e-290)
    if constant and tight:
        return Axis(
            low=low - max(1.0, _WIDE * size), high=low + max(1.0, _WIDE * size), ticks=(low,), kind=kind
        )
    if constant:
        room = _WIDE * size if size > 1e-280 else 0.5
        low, high = max(low - room, -1.7e308), min(high + room, 1.7e308)
        if kind == "percent" and 0 <= min(values) <= max(values) <= 1:
            low, high = max(0.0, low), min(1.0, high)
    ticks = ticks_over(low, high, count=count, outward=not tight)
    return Axis(low=min(low, *ticks[:1]), high=max(high, *ticks[-1:]), ticks=tuple(ticks), kind=kind)


def ticks_over(low: float, high: float, *, count: int, outward: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 × 10ⁿ between low and high, about `count`; `outward` also those just beyond."""
    rough = (high / 2 - low / 2) / max(1, count - 1) * 2
    power = math.floor(math.log10(rough))
    steps = [float(f"{factor}e{power}") for factor in (1, 2, 5, 10)]
    step = min(steps, key=lambda each: abs(math.log(each / rough)))
    first, last = low / step, high / step
    slack = -1e-9 if outward else 1e-9
    down, up = (math.floor, math.ceil) if outward else (math.ceil, math.floor)
    numbers = range(down(first - slack), up(last + slack) + 1)
    ticks = [float(f"{number * step:.12g}") for number in numbers]  # 0.30000000000000004 is 0.3
    return [tick for tick in ticks if math.isfinite(tick)]


def _tightened(found: Axis, low: float, high: float) -> Axis:
    """A logarithmic axis from the first value to the last, with the ticks between them."""
    between = tuple(tick for tick in found.ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9))
    return replace(found, low=low, high=high, ticks=between or (low, high))


def _log_axis(low: float, high: float, count: int) -> Axis:
    """Powers of ten, thinned out where there are many; over two of them or less also 2 and 5 times each."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    if last - first <= 2:
        marks = [float(f"{factor}e{power}") for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
        start = max(mark for mark in marks if mark <= low * (1 + 1e-9))
        end = min(
            mark for mark in [*marks, float(f"1e{last + 1}")] if mark >= high * (1 - 1e-9) and mark > start
        )
        return Axis(
            low=min(start, low),
            high=max(end, high),
            ticks=(*(mark for mark in marks if start <= mark < end), end),
            kind="log",
        )
    first, last = max(first, -307), min(last, 308)
    step = next(
        each for each in (1, 2, 3, 5, 10, 20, 50, 100, 200, 1000) if each * max(1, count) >= last - first
    )
    ticks = [float(f"1e{power}") for power in range(-(-first // step) * step, last + 1, step)]
    return Axis(
        low=min(low, float(f"1e{first}")), high=max(high, float(f"1e{last}")), ticks=tuple(ticks), kind="log"
    )


def _alike(values: Sequence[float]) -> list[str]:
    """Numbers of one axis with equally many decimals, and one power of ten where they are huge or tiny."""
    largest = max(map(abs, values), default=0.0)
    step = min((abs(b - a) for a, b in pairwise(values)), default=0.0)
    power = math.floor(math.log10(largest)) if largest else 0
    if -4 < power < 6:
        digits = _decimals(step) if step else max(0, 5 - power)
        names = [f"{value:,.{digits}f}" if value else "0" for value in values]
        return [(name if step else _trimmed(name)).replace("-", "−") for name in names]
    digits = _decimals(step / 10.0**power) if step else 3
    parts = [
        f"{float(f'{value:e}'.split('e')[0]) * 10.0 ** (_power(value) - power):.{digits}f}"
        for value in values
    ]
    raised = f"×10{str(power).translate(_RAISED)}"
    return [
        "0" if value == 0 else (part if step else _trimmed(part)).replace("-", "−") + raised
        for value, part in zip(values, parts, strict=True)
    ]


def _power(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def _decimals(step: float) -> int:
    """How many decimals keep multiples of a step apart."""
    return min(8, max(0, -math.floor(math.log10(step) + 1e-9)))


def _trimmed(name: str) -> str:
    return name.rstrip("0").rstrip(".") if "." in name else name


def _on_log(value: float) -> str:
    """A tick of a logarithmic axis: plain near 1, a power of ten far away."""
    power = math.floor(math.log10(value) + 1e-9)
    if -4 < power < 5:
        return f"{value:,.{max(0, -power)}f}"
    factor = round(value / 10.0**power)
    return ("" if factor == 1 else f"{factor}×") + f"10{str(power).translate(_RAISED)}"
