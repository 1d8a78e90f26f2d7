"""A run made ready to answer: the device, the precision and the threads that were asked for, or that suit it."""

import os
from typing import Any

import torch

from regard.errors import RegardError
from regard.layers.lowered import packable
from regard.runs.load import chosen_device, load

MOST_THREADS = 1024  # each has a stack of its own


def ready(
    run: str | os.PathLike[str],
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    compile: bool = False,
) -> Any:
    """The run loaded, to answer and not to be trained."""
    set_threads(threads)
    return load(run, device=device, precision=chosen_precision(device, precision), compile=compile)


def set_threads(threads: int | None) -> None:
    """Use so many threads of the CPU; None: as many as torch does by itself."""
    if threads is None:
        return
    if not 1 <= threads <= MOST_THREADS:
        raise RegardError(f"threads={threads}: from 1 to {MOST_THREADS}")
    torch.set_num_threads(threads)


def chosen_precision(device: str | None, precision: str | None) -> str | None:
    """That asked for; else float32, packed where the CPU answers and torch can pack."""
    if precision is None and (chosen_device(device).type != "cpu" or not packable()):
        return None
    return precision or "float32"


def described(device: str | None = None) -> str:
    """What is picked where nothing is asked for, in words."""
    place = chosen_device(device)
    if place.type != "cpu":
        return f"float32 on {place}, steps of Transformers recorded; --precision fp16 or bf16 is quicker"
    packed = ", weights packed" if chosen_precision("cpu", None) else ""
    return (
        f"float32 on the CPU, {torch.get_num_threads()} threads{packed}; --precision bf16 or int8 is quicker, "
        "and so is --compile"
    )
