"""Precision: in which numbers products are computed while training. Weights stay as they are."""

import os
from statistics import median
from typing import Literal

import torch
from torch import nn

from regard.runs.settings import Training

WIDE = 512  # on two cores with AVX-512 a step took 0.67× at width 512, as long at 256, and 1.35× at 128


def chosen_precision(
    settings: Training, device: torch.device, model: nn.Module
) -> Literal["float32", "bf16"]:
    """The precision of the products that the settings ask for.

    "auto" is bf16 on a GPU that has it, and on a CPU that has it for models wide enough to gain from it.
    """
    wanted = settings.precision == "bfloat16"
    if settings.precision == "auto" and device.type == "cuda":
        wanted = torch.cuda.is_bf16_supported(including_emulation=False)
    elif settings.precision == "auto" and device.type == "cpu":
        wanted = torch.cpu._is_avx512_bf16_supported() and _width(model) >= WIDE
    return "bf16" if wanted else "float32"


def _width(model: nn.Module) -> float:
    """The shorter side of a typical matrix."""
    return median([min(weight.shape) for weight in model.parameters() if weight.ndim == 2] or [0])


def deterministic() -> None:
    """Ask torch for the same bits every time, at some cost on a GPU. To be called before anything ran there."""
    # cuBLAS reads this once, when it starts: a fixed workspace is what makes its sums come in one order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
