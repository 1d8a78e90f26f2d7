"""CUDA graphs: how work of a fixed shape is run on a GPU. Decoding and training share this file.

A small model waits for its kernels to start far longer than for what they compute. A captured function is launched by
one call; it launches the same kernels in the same order, so its results are those of the function itself.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
_ONE_AT_A_TIME = threading.Lock()  # captures of this process


class Captured(Generic[Result]):
    """A captured function, and the tensors it fills when it is replayed."""

    def __init__(self, replay: Callable[[], None], result: Result) -> None:
        self.replay, self.result = replay, result


class Capturing:
    """A stream to capture from, and the memory that its graphs share: no two of them may be under way at once."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def eagerly(self) -> Iterator[None]:
        """Run on the stream that is captured from: libraries choose their kernels in the first runs."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, function: Callable[[], Result]) -> Captured[Result]:
        """Capture what a function launches. It was run before, and must not wait for the device."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may launch work meanwhile (thread_local), but torch waits for the whole device before a capture,
        # which is not allowed during another one.
        with (
            _ONE_AT_A_TIME,
            torch.cuda.graph(graph, stream=self._stream, pool=self._pool, capture_error_mode="thread_local"),
        ):
            result = function()
        return Captured(graph.replay, result)


class Readback:
    """Numbers on their way to the host: `send` queues the copy, `wait` waits for it and for nothing after it."""

    def __init__(self, like: Tensor) -> None:
        self._host = torch.empty(like.shape, dtype=like.dtype, device="cpu", pin_memory=True)
        self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def send(self, numbers: Tensor) -> None:
        """Copy these, once they are computed."""
        self._host.copy_(numbers, non_blocking=True)
        self._arrived.record()

    def wait(self) -> Tensor:
        """What was sent last."""
        self._arrived.synchronize()
        return self._host
