"""Half-open connections are dropped, and a client that disconnects prints no traceback. Over real sockets."""

import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from sight.explorer.small import seen_of
from sight.explorer.test_server import TILE, address, ask

from regard.sight.explorer import connections
from regard.sight.explorer.serving import Showing, serve
from regard.sight.explorer.watched import example_of


@pytest.fixture
def showing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Showing]:
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with serve([example_of(seen_of(9))], browser=False) as made:
        yield made


def connected(showing: Showing, sent: str) -> socket.socket:
    host, port, token = address(showing)
    made = socket.create_connection((host, port), timeout=600)
    made.sendall(sent.format(host=f"{host}:{port}", token=token).encode())
    return made


HALF = {
    "silent": "",
    "within the first line": "GET /api/mani",
    "within the headers": "GET /api/manifest HTTP/1.1\r\nHost: {host}\r\n",
    "within the body": 'POST /api/touch HTTP/1.1\r\nHost: {host}\r\nX-Regard-Token: {token}\r\nContent-Length: 90\r\n\r\n{{"ex',
}


@pytest.mark.parametrize("sent", HALF.values(), ids=HALF)
def test_a_request_that_is_never_finished_is_dropped(showing: Showing, sent: str) -> None:
    with connected(showing, sent) as half:
        try:
            while half.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert ask(showing, "/api/manifest")[0] == 200


def test_an_answer_that_nobody_takes_is_dropped(showing: Showing, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = []
    over = connections.Connection.connection_lost
    monkeypatch.setattr(
        connections.Connection, "connection_lost", lambda self, error: lost.append(1) or over(self, error)
    )
    host, port, _ = address(showing)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        slow.settimeout(600)
        slow.connect((host, port))
        for _ in range(200):  # the page is some hundred kilobytes each time
            slow.sendall(f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        for _ in range(6000):
            if lost:
                break
            time.sleep(0.1)
    assert lost


def test_a_connection_that_is_used_is_kept(showing: Showing) -> None:
    """Longer than the patience, request after request."""
    host, port, token = address(showing)
    kept = http.client.HTTPConnection(host, port, timeout=600)
    kept.connect()
    first = kept.sock
    for _ in range(8):
        kept.request("GET", TILE, headers={"X-Regard-Token": token})
        answer = kept.getresponse()
        assert answer.status == 200
        answer.read()
        time.sleep(0.15)
    assert kept.sock is first
    kept.close()


def test_who_goes_away_leaves_no_traceback(showing: Showing, capfd: pytest.CaptureFixture[str]) -> None:
    host, port, token = address(showing)
    body = json.dumps({"exhibit": 0, "input": {}, "changes": []})
    post = f"POST /api/touch HTTP/1.1\r\nHost: {host}:{port}\r\nX-Regard-Token: {token}\r\n"
    get = f"GET {TILE} HTTP/1.1\r\nHost: {host}:{port}\r\nX-Regard-Token: {token}\r\n\r\n"
    for sent in (
        post + "Content-Length: 500\r\n\r\n" + body,
        post + "Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
        get,
        get * 20,
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 5,
        "GET /api",
    ):
        for reset in (True, False):
            gone = socket.create_connection((host, port), timeout=600)
            if reset:  # what is unread is thrown away, as when a process dies
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.sendall(sent.encode())
            gone.close()
    assert ask(showing, "/api/manifest")[0] == 200
    showing.close()
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert "Error" not in said
