"""The explorer's HTTP server: the page and what it asks, for this machine alone.

Any page that is open in a browser could send requests here. So a request must carry the token of this start, be
addressed to this machine by its number, and come from the page served here. Its numbers are bounded before anything
is computed from them.
"""

import asyncio
import hmac
import json
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.sight.explorer.example import Change
from regard.sight.explorer.page_html import page, policy, to_json
from regard.sight.explorer.payload import gzipped, mark_nan, pack, singles
from regard.sight.explorer.session import GoneError, Session
from regard.sight.explorer.tiles import Place

_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
_QUICK = 2  # short requests computed at once
_MAX_BODY = 1 << 20  # bytes of a request
_MAX_CHANGES = 256  # at once
_MAX_CHOSEN = 1 << 16  # heads, queries or keys of a change
_MAX_FACTOR = 10_000.0  # a larger output of one head leaves nothing of the others
Result = TypeVar("Result")


class WorkerThreads:
    """Threads for short requests, one for those that may take seconds, and one that runs the model.

    They are few, since each has its own threads inside torch. Short requests never wait for long ones.
    """

    def __init__(self) -> None:
        self._quick = ThreadPoolExecutor(_QUICK, thread_name_prefix="regard quick")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="regard long")
        self._model = ThreadPoolExecutor(1, thread_name_prefix="regard model")
        self._one = asyncio.Lock()

    async def quickly(self, compute: Callable[[], Result]) -> Result:
        """Compute a short answer."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, compute)

    async def running(self, compute: Callable[[], Result]) -> Result:
        """Run the model, after its earlier requests."""
        return await asyncio.get_running_loop().run_in_executor(self._model, compute)

    async def patiently(self, request: Request, compute: Callable[[], Result]) -> Result | None:
        """Compute a long answer, after earlier ones; None if the client has disconnected."""
        async with self._one:
            if await request.is_disconnected():
                return None
            return await asyncio.get_running_loop().run_in_executor(self._long, compute)

    def shutdown(self) -> None:
        """Start nothing more."""
        for pool in (self._quick, self._long, self._model):
            pool.shutdown(wait=False, cancel_futures=True)


def application(session: Session, token: str, workers: WorkerThreads) -> ASGIApp:
    """The page and the routes of one start."""
    html = page()
    answers: dict[str, Callable[[Request], bytes]] = {
        "tile": lambda r: session.tile(*_where(r), _heads(r), _place(r), exact=_exact(r)),
        "margins": lambda r: session.margins(*_where(r), _heads(r), exact=_exact(r)),
        "row": lambda r: session.row(*_where(r), _number(r, "query")),
        "column": lambda r: session.column(*_where(r), _number(r, "key"), _heads(r), exact=_exact(r)),
        "atlas": lambda r: session.atlas(*_where(r), _number(r, "size")),
        "media": lambda r: session.media(*(_number(r, each) for each in ("exhibit", "side", "entry"))),
    }

    async def start(request: Request) -> Response:
        # A notebook shows the page in a frame; its own address is this machine too.
        framed = "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*"
        headers = {"Content-Security-Policy": f"{policy(html, alone=False)}; {framed}"}
        return Response(html, media_type="text/html; charset=utf-8", headers=headers)

    async def manifest(request: Request) -> Response:
        return _json(await workers.quickly(session.manifest))

    async def touch(request: Request) -> Response:
        example, inputs, changes = _touching(await _body(request))
        return _json(await workers.running(lambda: session.touch(example, inputs, changes)))

    async def importance(request: Request) -> Response:
        example, layer = _number(request, "exhibit"), _number(request, "layer")

        def body() -> bytes:
            return gzipped(pack({"importance": singles(mark_nan(session.importance(example, layer)))}))

        return _packed(await workers.running(body))

    def route(answer: Callable[[Request], bytes]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            def body() -> bytes:
                return gzipped(answer(request))

            long = request.query_params.get("exact") == "1"
            found = await (workers.patiently(request, body) if long else workers.quickly(body))
            return Response(status_code=204) if found is None else _packed(found)  # disconnected

        return respond

    routes = [
        Route("/", start),
        Route("/api/manifest", manifest),
        Route("/api/touch", touch, methods=["POST"]),
        Route("/api/importance", importance),
        *(Route(f"/api/{name}", route(answer)) for name, answer in answers.items()),
    ]
    handlers = {RegardError: _mistaken, ClientDisconnect: _left, 404: _missing, Exception: _failed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


class Guard:
    """Accepts only requests of the page served here, and marks every answer as private."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def private(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = {
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                    "Referrer-Policy": "no-referrer",
                    "Cross-Origin-Resource-Policy": "same-origin",
                }
                message["headers"] += [(name.encode(), value.encode()) for name, value in extra.items()]
            await send(message)

        answer = self.app if refusal is None else _json({"error": refusal}, 403)
        await answer(scope, receive, private)

    def _refusal(self, request: Request) -> str | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            # Another site can make its own name resolve to this machine.
            return "this server answers only to 127.0.0.1, and to one Host"
        if any(origin != f"http://{hosts[0]}" for origin in request.headers.getlist("origin")):
            return "a page of another origin may not ask"
        if not request.scope["path"].startswith("/api/"):  # what is routed by: an URL has the Host in it
            return None
        given = request.headers.get("x-regard-token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is not that of this start: open the address that was printed"
        return None


def _json(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


def _packed(body: bytes) -> Response:
    return Response(body, media_type="application/octet-stream", headers={"Content-Encoding": "gzip"})


async def _mistaken(request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 409 if isinstance(error, GoneError) else 400)


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=204)  # disconnected


async def _missing(request: Request, error: Exception) -> Response:
    return _json({"error": f"there is nothing at {request.scope['path'][:200]}"}, 404)


async def _failed(request: Request, error: Exception) -> Response:
    return _json({"error": f"{type(error).__name__}: {error}"}, 500)


def _where(request: Request) -> tuple[int, int, int]:
    return _number(request, "exhibit"), _number(request, "layer"), _number(request, "entry")


def _place(request: Request) -> Place:
    return Place(**{name: _number(request, name) for name in ("down", "across", "row", "column")})


def _heads(request: Request) -> list[int]:
    """The heads in the query string, sorted and without duplicates; an empty list means all heads."""
    given = request.query_params.get("heads", "")
    return sorted({_whole(each, "heads") for each in given.split(",") if each})


def _exact(request: Request) -> bool:
    return bool(_number(request, "exact"))


def _number(request: Request, name: str) -> int:
    return _whole(request.query_params.get(name, ""), name)


def _whole(given: str, name: str) -> int:
    """A whole number from 0."""
    if not re.fullmatch(r"-?[0-9]{1,30}", given):
        raise RegardError(f"{name}={given[:40]!r}: give a whole number")
    if not 0 <= int(given) < 1 << 31:
        raise RegardError(f"{name}={given}: give a number from 0")
    return int(given)


async def _body(request: Request) -> Any:
    """The JSON of a POST."""
    found = b""
    async for some in request.stream():
        found += some
        if len(found) > _MAX_BODY:
            raise RegardError(f"a question of more than {_MAX_BODY:,} bytes")
    try:
        return json.loads(found)
    except (ValueError, RecursionError):  # nested deeper than Python reads
        raise RegardError("the question is not JSON") from None


def _touching(given: Any) -> tuple[int, dict[str, str], list[Change]]:
    """The example, inputs and changes of POST /api/touch."""
    match given:
        case {"exhibit": int(example), "input": dict(inputs), "changes": list(changes)}:
            strings = all(isinstance(each, str) for pair in inputs.items() for each in pair)
            if strings and not isinstance(example, bool):  # an int in Python, not in JSON
                if len(changes) > _MAX_CHANGES:
                    raise RegardError(f"{len(changes):,} changes at once: give at most {_MAX_CHANGES}")
                texts = {name: _text(name, text) for name, text in inputs.items()}
                return example, texts, [_change(each) for each in changes]
    raise RegardError("a touch names its exhibit, input and changes")


def _text(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RegardError(
            f"{name}: character {error.start} is half of a surrogate pair, which no text has: leave it out"
        ) from None
    return text


def _change(given: Any) -> Change:
    match given:
        case {"kind": "drop" | "scale" | "uniform" | "forbid" as kind, "layer": str(layer)}:
            factor = given.get("factor", 1.0)
            if type(factor) not in (int, float) or not abs(factor) <= _MAX_FACTOR:  # NaN is not
                raise RegardError(
                    f"factor {str(factor)[:40]}: give a number from −{_MAX_FACTOR:,.0f} to {_MAX_FACTOR:,.0f}"
                )
            chosen = {name: _chosen(name, given.get(name)) for name in ("heads", "queries", "keys")}
            return Change(kind=kind, layer=layer, factor=float(factor), **chosen)
    raise RegardError(f"{str(given)[:80]} is no change: drop, scale, uniform or forbid in a layer")


def _chosen(name: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > _MAX_CHOSEN:
        raise RegardError(f"{name}: give a list of at most {_MAX_CHOSEN:,} numbers from 0, or null for all")
    if not all(type(each) is int and 0 <= each < 1 << 31 for each in given):
        raise RegardError(f"{name}: give a list of numbers from 0, or null for all")
    return tuple(given)
