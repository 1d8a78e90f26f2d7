"""Kernels that start before those before them have ended: what they read of weights and rooms is there already.

A kernel so written asks for `gdc_wait` before it reads what a kernel of the same step wrote, and before it writes anything.
The next one may start at once; but the kernel that begins a step lets it start only behind its own wait, so that what
the step before wrote is there for all that follow.
"""

from functools import lru_cache

import torch


@lru_cache
def early(device: torch.device) -> dict[str, bool]:
    """What a kernel is launched with to start so, where a device can (NVIDIA, from Hopper on)."""
    able = device.type == "cuda" and torch.version.cuda is not None
    if not able or torch.cuda.get_device_capability(device) < (9, 0):
        return {"EARLY": False}
    return {"EARLY": True, "launch_pdl": True}
