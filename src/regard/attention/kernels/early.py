"""Kernels that start before those before them have ended: what they read of weights and rooms is there already.

A kernel so written asks for `gdc_wait` before it reads or writes anything that the kernel before it writes or reads, and
lets the next one start only behind that: what was written two kernels ago may then be read at once.
"""

from functools import lru_cache

import torch


@lru_cache
def early(device: torch.device) -> bool:
    """Whether kernels on this device may start so (NVIDIA, from Hopper on)."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)
