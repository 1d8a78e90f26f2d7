"""Serving the explorer from a thread of this process, until it is closed."""

import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.sight.explorer.example import Example
from regard.sight.explorer.session import Session

if TYPE_CHECKING:
    import uvicorn


class Showing:
    """An explorer that is being served from a thread of this process. A notebook shows it in its cell."""

    def __init__(self, server: "uvicorn.Server", thread: threading.Thread, url: str) -> None:
        self._server, self._thread, self.url = server, thread, url

    def wait(self) -> None:
        """Until it is closed, or Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.2)

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(30.0)

    def __enter__(self) -> "Showing":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f'<iframe src="{escape(self.url)}" width="100%" height="720" style="border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Showing({self.url})"


def serve(
    examples: Sequence[Example], *, title: str = "regard", port: int = 0, browser: bool | None = None
) -> Showing:
    """Open the explorer on some examples, at a free port unless one is named.

    `browser` says whether to open one; left out, it opens everywhere but in a notebook, which shows the explorer in
    its cell.
    """
    _check_installed()
    import uvicorn

    from regard.sight.explorer.connections import Connection
    from regard.sight.explorer.server import WorkerThreads, application

    token = secrets.token_urlsafe(24)
    listening = _listening(port)
    workers = WorkerThreads()
    app = application(Session(examples, title=title), token, workers)
    config = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", log_level="warning", access_log=False
    )
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run(sockets=[listening])
        finally:
            workers.shutdown()

    thread = threading.Thread(target=run, name="regard explorer", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    showing = Showing(server, thread, f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}")
    if "ipykernel" not in sys.modules if browser is None else browser:
        webbrowser.open(showing.url)
    return showing


def _check_installed() -> None:
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise RegardError(
                f"the explorer is served by starlette and uvicorn, and {name} is not installed: pip install {name}, "
                "or write a file to open instead (seen.export, regard look --export)"
            )


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        made.close()
        raise RegardError(f"port {port} cannot be used ({error}): leave it out for a free one") from None
    return made
