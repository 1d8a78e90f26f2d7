"""Connections that are given up: one on which a request is begun and not finished, or whose answer nobody takes.

uvicorn closes a connection that is idle after an answer. One that never asks, stops within a request or does not read
what it asked for would be held as long as the process lives.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 30.0  # seconds


class Connection(H11Protocol):
    """HTTP/1.1 with an end to waiting."""

    _asking: float | None = None  # since when a request is waited for
    _unread = 0  # bytes of an answer that lay there at the last look
    _looks: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, who wants to ask."""
        super().connection_made(transport)
        self._asking = self.loop.time()
        self._looks = self.loop.call_later(PATIENCE / 2, self._look)

    def data_received(self, data: bytes) -> None:
        """Some of a request, or all of it."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._asking = None
        elif self._asking is None:
            self._asking = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        if self._looks is not None:
            self._looks.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        stuck = unread > 0 and unread == self._unread
        late = self._asking is not None and self.loop.time() - self._asking >= PATIENCE
        if stuck or late:
            self.transport.abort()
            return
        self._unread = unread
        self._looks = self.loop.call_later(PATIENCE / 2, self._look)
