"""Precision: in which numbers products are computed while training. Weights stay as they are."""

import os
from contextlib import AbstractContextManager

import torch

from regard.runs.settings import Training


def autocast(settings: Training, device: torch.device) -> AbstractContextManager[None]:
    """Products in bfloat16 where the settings say so; "auto" says so on a GPU that has it."""
    wanted = settings.precision == "bfloat16"
    if settings.precision == "auto":
        wanted = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=wanted)


def deterministic() -> None:
    """Ask torch for the same bits every time, at some cost on a GPU. To be called before anything ran there."""
    # cuBLAS reads this once, when it starts: a fixed workspace is what makes its sums come in one order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
