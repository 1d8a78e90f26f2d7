"""What a layer costs, as a lecture's table has it: formulas beside what is measured and counted."""

import time
from dataclasses import asdict
from typing import Annotated

import torch

from regard.bench.cost import Cost, Costs, fitting, measure_costs
from regard.bench.layers import LayerKind
from regard.bench.lecture_layers import lecture_kinds
from regard.bench.record import Setting
from regard.bench.tables import short
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.scene import PictureGrid
from regard.sight.pictures.text_table import TextTable

SHORTEST, LONGEST, WIDEST = 32, 4096, 512


def cost(
    *,
    seed: Annotated[int, "Draws weights and inputs."] = 0,
    width: Annotated[int, "Features of each position, d; a multiple of 8."] = 64,
    longest: Annotated[int, f"The largest length L; the others are halves of it, down to {SHORTEST}."] = 1024,
    rounds: Annotated[int, "How often everything is measured; the median counts."] = 9,
    progress: Progress = silent,
) -> FigureResult:
    """Operations, processor time, memory and parameters of attention, recurrence, convolution and a dense map over positions."""
    _check(seed, width, longest, rounds)
    kinds = lecture_kinds()
    lengths = _lengths(longest)
    fitting(kinds, lengths[:1], width)  # each at least once
    progress(f"{len(kinds)} layers at {len(lengths)} lengths, {rounds} rounds …")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = measure_costs(
            kinds,
            lengths,
            width=width,
            setting=Setting(threads=torch.get_num_threads(), rounds=rounds),
            clock=time.process_time,
        )
    ends = {growth.layer: found.of(growth.layer)[-1] for growth in found.growths}
    attention, small = ends["attention, d_k = d"], ends["attention, d_k = d/8"]
    recurrent, convolution, dense = list(ends.values())[4:]
    units = {name: end.parameters / width**2 for name, end in ends.items()}
    return FigureResult(
        name="cost",
        picture=_picture(found, kinds, ends),
        numbers={
            "seed": seed, "width": width, "lengths": found.lengths, "rounds": rounds,
            "costs": [_rounded(each) for each in found.costs],
            "layers": {
                growth.layer: {
                    "operations": growth.order,
                    "sequential": growth.sequential,
                    "parameters": growth.parameter_order,
                    "parameters, by formula": kind.parameters(ends[kind.name].length, width),
                    "parameters, counted": growth.parameters,
                    "exponent of L, measured": None if growth.time is None else round(growth.time, 3),
                    "exponent of L, by formula": None if growth.time_formula is None else round(growth.time_formula, 3),
                }
                for growth, kind in zip(found.growths, kinds, strict=True)
            },
        },
        see=(
            f"At L = {dense.length:,} and d = {width}, a dense map over positions takes {short(dense.milliseconds)} ms of processor "
            f"time and {dense.parameters:,} parameters, attention {short(attention.milliseconds)} ms and "
            f"{attention.parameters:,}.",
            "Counted parameters are those of the formulas; only the dense map's grow with L.",
            f"Attention has few parameters only with small keys: {units[small.layer]:.2f}·d² for d_k = d/8, but {units[attention.layer]:.0f}·d² "
            f"for d_k = d, as a convolution ({units[convolution.layer]:.0f}·d²), where a recurrent layer has {units[recurrent.layer]:.0f}·d²; "
            "an output map adds d_v².",
        ),
    )  # fmt: skip


def _check(seed: int, width: int, longest: int, rounds: int) -> None:
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    if width % 8 or not 8 <= width <= WIDEST:
        raise RegardError(f"--width {width}: a multiple of 8 from 8 to {WIDEST}")
    if not SHORTEST <= longest <= LONGEST:
        raise RegardError(f"--longest {longest}: from {SHORTEST} to {LONGEST} positions")
    if not 1 <= rounds <= 100:
        raise RegardError(f"--rounds {rounds}: from 1 to 100")


def _lengths(longest: int) -> list[int]:
    """The longest, its half, and so on."""
    found = [longest]
    while found[0] // 2 >= SHORTEST:
        found.insert(0, found[0] // 2)
    return found


def _rounded(cost: Cost) -> dict[str, object]:
    plain = {**asdict(cost), "spread": [round(end, 4) for end in cost.spread]}
    return {**plain, "milliseconds": round(cost.milliseconds, 4), "megabytes": round(cost.megabytes, 4)}


def _picture(found: Costs, kinds: list[LayerKind], ends: dict[str, Cost]) -> PictureGrid:
    longest = found.lengths[-1]
    fewer = [f"{name} at L = {end.length}" for name, end in ends.items() if end.length < longest]
    at = ", ".join([f"L = {longest:,}", f"d = d_v = {found.width}", *fewer])
    measured = [
        [
            kind.name,
            kind.order,
            short(ends[kind.name].operations / 1e6),
            short(ends[kind.name].milliseconds),
            short(ends[kind.name].megabytes),
        ]
        for kind in kinds
    ]
    counted = [
        [
            kind.name,
            kind.parameter_order,
            f"{kind.parameters(ends[kind.name].length, found.width):,}",
            f"{ends[kind.name].parameters:,}",
        ]
        for kind in kinds
    ]
    tables = [
        TextTable(
            columns=("layer", "order", "operations, M", "ms", "MB"),
            rows=measured,
            title="Operations, time and memory",
            note=at,
            names=2,
        ),
        TextTable(
            columns=("layer", "parameters", "formula", "counted"),
            rows=counted,
            title="Parameters",
            note=at,
            names=2,
        ),
    ]
    shown = [kind for kind in kinds if "output" not in kind.name]
    return PictureGrid(
        title="What a layer costs",
        note="formulas beside measured processor time and memory, and counted parameters; pale lines: the formula, through the longest L",
        rows=[tables, _charts(found, shown)],
    )


def _charts(found: Costs, kinds: list[LayerKind]) -> list[Chart]:
    times, parameters = [], []
    for kind in kinds:
        costs = found.of(kind.name)
        last = costs[-1]
        formula = [(each.length, last.milliseconds * each.operations / last.operations) for each in costs]
        times += [
            Series(name="", points=formula, look="thin"),
            Series(name=kind.name, points=[(each.length, each.milliseconds) for each in costs]),
        ]
        parameters.append(Series(name=kind.name, points=[(each.length, each.parameters) for each in costs]))
    return [
        Chart(y="milliseconds of processor time", x="length L", series=times, log=True, log_x=True, width=230.0),
        Chart(y="parameters", x="length L", series=parameters, log=True, log_x=True, width=230.0),
    ]  # fmt: skip
