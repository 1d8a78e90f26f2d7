"""Launching a Triton kernel again at little cost for the host.

Triton looks at every argument of every launch to find the kernel that was compiled for such, some 50 µs for 40 of them. Who
launches with the same numbers again and other tensors can ask once: what Triton looks at in a tensor is its dtype, which is
the caller's to keep the same, and whether it begins at a multiple of 16 bytes.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

# How a compiled kernel is run is internal to Triton, and changes between versions.
_KNOWN = triton.__version__.startswith("3.6.") and torch.version.hip is None


class Launch:
    """A kernel with its numbers and constants, to be given tensors. Their dtypes must be the same in all launches.

    The kernel's parameters are tensors first, then numbers, then constants.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        numbers: tuple[float, ...],
        constants: dict[str, Any],
        **options: int,
    ) -> None:
        self._kernel, self._programs, self._numbers = kernel, programs, numbers
        self._constants, self._options = constants, options
        self._compiled: dict[tuple[object, ...], Callable[..., object]] = {}

    def __call__(self, first: Tensor, *others: Tensor | None) -> None:
        """Launch it on the current stream of the device of the first tensor."""
        tensors = (first, *others)
        if not first.is_cuda:  # Triton's interpreter
            self._slowly(tensors)
            return
        device = first.get_device()
        if device == torch._C._cuda_getDevice():
            self._on(device, tensors)
        else:
            with torch.cuda.device(device):
                self._on(device, tensors)

    def _on(self, device: int, tensors: tuple[Tensor | None, ...]) -> None:
        pointers = [None if part is None else part.data_ptr() for part in tensors]
        # A kernel that is loaded is one of its device.
        kind = (device, *[None if pointer is None else pointer & 15 for pointer in pointers])
        run = self._compiled.get(kind)
        if run is not None:
            run(torch._C._cuda_getCurrentRawStream(device), pointers)
            return
        compiled = self._slowly(tensors)
        if _KNOWN and compiled is not None:
            self._compiled[kind] = self._runner(compiled)

    def _slowly(self, tensors: tuple[Tensor | None, ...]) -> Any:
        return self._kernel[(self._programs,)](*tensors, *self._numbers, **self._constants, **self._options)

    def _runner(self, compiled: Any) -> Callable[[int, list[int | None]], None]:
        run, function, metadata, programs = (
            compiled.run,
            compiled.function,
            compiled.packed_metadata,
            self._programs,
        )
        # Constants are part of the compiled kernel and only take their places; so do hooks, of which there are none.
        rest = (*self._numbers, *[None] * len(self._constants))

        def again(stream: int, pointers: list[int | None]) -> None:
            run(programs, 1, 1, stream, function, metadata, None, None, None, *pointers, *rest)

        return again
