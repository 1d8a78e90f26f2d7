"""Timeouts for half-open connections: requests that are not completed and responses that are not read.

uvicorn closes a connection that stays idle after a response. Without these timeouts, one that sends nothing, stops
within a request or never reads the response would be held as long as the process lives.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 30.0  # seconds


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with the two timeouts."""

    _asking: float | None = None  # when the wait for a request began
    _unread = 0  # bytes of the response in the buffer at the last check
    _looks: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first request."""
        super().connection_made(transport)
        self._asking = self.loop.time()
        self._looks = self.loop.call_later(PATIENCE / 2, self._look)

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when the request is complete, restart it when the next one begins."""
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._asking = None
        elif self._asking is None:
            self._asking = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
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
