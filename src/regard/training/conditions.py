"""Conditions: what the bits of a training depend on beside its recipe and its data."""

from collections.abc import Mapping

import torch

from regard.training.distribution import World

_HINTS = {"threads": "--threads {0}", "deterministic": "--deterministic", "processes": "--nproc-per-node {0}"}


def conditions(world: World) -> dict[str, object]:
    """Those of this process, as JSON takes them; a checkpoint keeps them."""
    found: dict[str, object] = {
        "processes": world.size,
        "device": world.device.type,
        "torch": str(torch.__version__),
    }
    if world.device.type == "cpu":
        return found | {"threads": torch.get_num_threads()}
    return found | {"deterministic": torch.are_deterministic_algorithms_enabled()}


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """What is no longer as it was when a checkpoint was made, in one line; None if all is, or it did not say."""
    other = [name for name in now if name in before and before[name] != now[name]]
    if not other:
        return None
    changes = ", ".join(f"{name} {now[name]} instead of {before[name]}" for name in other)
    hints = " and ".join(_HINTS[name].format(before[name]) for name in other if name in _HINTS)
    return f"resumed with {changes}: it will end with slightly other weights than without the break" + (
        f" (the same bits need {hints})" if hints else ""
    )
