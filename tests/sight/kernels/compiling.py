"""Compiles every kernel for a GPU that is not there: the interpreter does not see what only a compiler refuses.

Run as a script, without TRITON_INTERPRET, so that it gets the kernels and not their interpreted form.
"""

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from regard import ALiBi, Call, causal, documents, lengths
from regard.sight.kernels import launch
from regard.sight.kernels.kernel_mask import kernel_call

SHARED = 232_448  # bytes that a program may have on an H100 or H200


class Absent:
    """As much of a driver as compiling asks for."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


class Compiled:
    """A kernel that is compiled instead of launched."""

    def __init__(self, kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid):
        def compile_it(*args, **kwargs) -> None:
            made = self.kernel.warmup(*args, grid=grid, **kwargs)
            if made.metadata.shared > SHARED:
                raise MemoryError(
                    f"{self.kernel.__name__} wants {made.metadata.shared} bytes of shared memory"
                )

        return compile_it


def main() -> None:
    driver.set_active(Absent())
    for home in (launch,):
        for name in [name for name in vars(home) if name.endswith("_kernel")]:
            setattr(home, name, Compiled(getattr(home, name)))
    many = causal() & lengths(torch.tensor([256])) & documents(torch.arange(256) // 50)
    for width, dtype, mask, bias in (
        (64, torch.bfloat16, None, None),
        (128, torch.float16, causal(), None),
        (40, torch.bfloat16, many, ALiBi(2)),
        (24, torch.float32, many, ALiBi(2)),
        (256, torch.float32, None, None),
    ):
        query = torch.empty(1, 2, 256, width, dtype=dtype)
        told = kernel_call(Call(query, query[:, :1], mask, bias))
        launch.look(told)
        launch.look(told, torch.empty(2, 256))
        launch.look(told, top=9)
        launch.look(told, top=3)
        if launch.fits_single_pass(told, None):
            launch.look(told, torch.empty(2, 256), top=3)
            launch.single_pass(told, torch.empty(2, 256))
            launch.single_pass(told, torch.empty(2, 256), (2, 4))
        for size in (None, (2, 4), (3, 5), (100, 100)):
            launch.collect(told, torch.empty(2, 256), size)
        launch.cut(told, torch.arange(3), torch.arange(5))
        print(width, dtype, mask, "compiled", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
