"""Axes: where a value is between two ends, and which round values are named along the way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

Kind = Literal["plain", "log", "percent"]

_WIDE = 0.06  # of a constant: what its axis spans on each side of it
_SAME = 1e-12  # of the largest value: differences up to this are rounding
_STEPS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 1000)  # powers of ten from a tick to the next
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    kind: Kind = "plain"

    def at(self, value: float) -> float:
        """Where a value is, 0 at the low end and 1 at the high one."""
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
        between = tuple(tick for tick in found.ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9))
        tight = tight and high > low
        return replace(found, low=low, high=high, ticks=between or (low, high)) if tight else found
    size = max(abs(low), abs(high))
    constant = high / 2 - low / 2 <= max(_SAME * size, 1e-290)
    if constant and tight:
        room = max(1.0, _WIDE * size)
        return Axis(low - room, low + room, (low,), kind)
    if constant:
        room = _WIDE * size if size > 1e-280 else 0.5
        low, high = max(low - room, -1.7e308), min(high + room, 1.7e308)
        if kind == "percent" and 0 <= min(values) <= max(values) <= 1:
            low, high = max(0.0, low), min(1.0, high)
    ticks = ticks_over(low, high, count=count, outward=not tight)
    return Axis(min(low, *ticks[:1]), max(high, *ticks[-1:]), tuple(ticks), kind)


def ticks_over(low: float, high: float, *, count: int, outward: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 × 10ⁿ between low and high, about `count`; `outward` also those just beyond."""
    rough = (high / 2 - low / 2) / max(1, count - 1) * 2
    power = math.floor(math.log10(rough))
    steps = [float(f"{factor}e{power}") for factor in (1, 2, 5, 10)]
    step = min(steps, key=lambda each: abs(math.log(each / rough)))
    slack = -1e-9 if outward else 1e-9
    down, up = (math.floor, math.ceil) if outward else (math.ceil, math.floor)
    numbers = range(down(low / step - slack), up(high / step + slack) + 1)
    ticks = [float(f"{number * step:.12g}") for number in numbers]  # 0.30000000000000004 is 0.3
    return [tick for tick in ticks if math.isfinite(tick)]


def _log_axis(low: float, high: float, count: int) -> Axis:
    """Powers of ten, thinned out where there are many; over two of them or less also 2 and 5 times each."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    if last - first <= 2:
        marks = [float(f"{factor}e{power}") for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
        marks.append(float(f"1e{last + 1}"))
        start = max(mark for mark in marks if mark <= low * (1 + 1e-9))
        end = min(mark for mark in marks if mark >= high * (1 - 1e-9) and mark > start)
        ticks = tuple(mark for mark in marks if start <= mark <= end)
        return Axis(min(start, low), max(end, high), ticks, "log")
    first, last = max(first, -307), min(last, 308)
    step = next(each for each in _STEPS if each * max(1, count) >= last - first)
    ticks = tuple(float(f"1e{power}") for power in range(-(-first // step) * step, last + 1, step))
    return Axis(min(low, float(f"1e{first}")), max(high, float(f"1e{last}")), ticks, "log")


def _alike(values: Sequence[float]) -> list[str]:
    """Numbers of one axis with equally many decimals, and one power of ten where they are huge or tiny."""
    largest = max(map(abs, values), default=0.0)
    step = min((abs(b - a) for a, b in pairwise(values)), default=0.0)
    power = math.floor(math.log10(largest)) if largest else 0
    raised = ""
    if not -4 < power < 6:
        # Mantissas, since 10 to the power may be no float.
        split = [f"{value:e}".split("e") for value in values]
        values = [float(part) * 10.0 ** (int(own) - power) for part, own in split]
        step = step / 10.0**power if step else 0.0
        raised, power = f"×10{str(power).translate(_RAISED)}", 2
    # As many decimals as keep multiples of the step apart.
    digits = min(8, max(0, -math.floor(math.log10(step) + 1e-9))) if step else max(0, 5 - power)
    names = [f"{value:,.{digits}f}" for value in values]
    names = [name.rstrip("0").rstrip(".") if "." in name and not step else name for name in names]
    return [
        name.replace("-", "−") + raised if value else "0" for name, value in zip(names, values, strict=True)
    ]


def _on_log(value: float) -> str:
    """A tick of a logarithmic axis: plain near 1, a power of ten far away."""
    power = math.floor(math.log10(value) + 1e-9)
    if -4 < power < 5:
        return f"{value:,.{max(0, -power)}f}"
    factor = round(value / 10.0**power)
    return ("" if factor == 1 else f"{factor}×") + f"10{str(power).translate(_RAISED)}"
