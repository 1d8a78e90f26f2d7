"""Who computes the answers: a few threads, so that quick questions never wait behind long ones.

Each thread that computes has a team of its own inside torch; many at once would be in each other's way.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request

_QUICK = 2  # questions answered at once
Answer = TypeVar("Answer")


class Crew:
    """Threads for quick questions, one for those that may take seconds, and one that runs the model."""

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(_QUICK, thread_name_prefix="regard quick")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="regard long")
        self._model = ThreadPoolExecutor(1, thread_name_prefix="regard model")
        self._one = asyncio.Lock()

    async def quickly(self, answer: Callable[[], Answer]) -> Answer:
        """The answer to a quick question."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, answer)

    async def running(self, answer: Callable[[], Answer]) -> Answer:
        """What the model says, after what it was asked before."""
        return await asyncio.get_running_loop().run_in_executor(self._model, answer)

    async def patiently(self, request: Request, answer: Callable[[], Answer]) -> Answer | None:
        """The answer to a long question, after those asked before it; None when its client is gone."""
        async with self._one:
            if await request.is_disconnected():
                return None
            return await asyncio.get_running_loop().run_in_executor(self._long, answer)

    def dismiss(self) -> None:
        """Begin nothing more."""
        for team in (self._quick, self._long, self._model):
            team.shutdown(wait=False, cancel_futures=True)
