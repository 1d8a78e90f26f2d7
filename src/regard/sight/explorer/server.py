"""The server: questions of the page over HTTP, to this machine alone.

Any page that a browser has open could try to ask: so a question must carry the token of this start, be addressed to
this machine by its number, and come from the page served here.
"""

import hmac
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.sight.explorer.answers import Answers
from regard.sight.explorer.built import page, policy
from regard.sight.explorer.crew import Crew
from regard.sight.explorer.exhibit import Change
from regard.sight.explorer.hall import GoneError
from regard.sight.explorer.packs import squeezed
from regard.sight.explorer.tiles import Place

_LARGEST = 1 << 20  # bytes of a question
_HOSTS = ("127.0.0.1", "localhost")


def application(answers: Answers, token: str, crew: Crew) -> ASGIApp:
    """The pages and questions of one start."""
    html = page()
    asked: dict[str, Callable[[Request], bytes]] = {
        "tile": lambda r: answers.tile(
            *_where(r), _numbers(r, "heads"), _place(r), exact=bool(_number(r, "exact"))
        ),
        "margins": lambda r: answers.margins(
            *_where(r), _numbers(r, "heads"), exact=bool(_number(r, "exact"))
        ),
        "row": lambda r: answers.row(*_where(r), _number(r, "query")),
        "column": lambda r: answers.column(
            *_where(r), _number(r, "key"), _numbers(r, "heads"), exact=bool(_number(r, "exact"))
        ),
        "atlas": lambda r: answers.atlas(*_where(r), _number(r, "size")),
        "media": lambda r: answers.media(_number(r, "exhibit"), _number(r, "side"), _number(r, "entry")),
    }

    async def start(request: Request) -> Response:
        return Response(html, media_type="text/html; charset=utf-8", headers=_page_headers(html))

    async def manifest(request: Request) -> Response:
        return JSONResponse(await crew.quickly(answers.hall.manifest))

    async def touch(request: Request) -> Response:
        exhibit, inputs, changes = _touching(await _body(request))

        def made() -> dict[str, Any]:
            told, gone = answers.hall.touch(exhibit, inputs, changes)
            for number in gone:
                answers.passes.forget(number)
            return told

        return JSONResponse(await crew.running(made))

    async def importance(request: Request) -> Response:
        where = _number(request, "exhibit"), _number(request, "layer")
        return _packed(await crew.running(lambda: squeezed(answers.importance(*where))))

    def question(answer: Callable[[Request], bytes]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            def body() -> bytes:
                return squeezed(answer(request))

            long = request.query_params.get("exact") == "1"
            found = await (crew.patiently(request, body) if long else crew.quickly(body))
            if found is None:
                return Response(status_code=204)  # nobody reads it
            return _packed(found)

        return respond

    routes = [
        Route("/", start),
        Route("/api/manifest", manifest),
        Route("/api/touch", touch, methods=["POST"]),
        Route("/api/importance", importance),
        *(Route(f"/api/{name}", question(answer)) for name, answer in asked.items()),
    ]
    app = Starlette(
        routes=routes, exception_handlers={RegardError: _mistaken, 404: _missing, Exception: _failed}
    )
    return Guard(app, token)


class Guard:
    """Lets through what comes from the page served here, and marks every answer as nobody else's business."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = {
                    "Cache-Control": "no-store",
                    "X-Content-Type-Options": "nosniff",
                    "Referrer-Policy": "no-referrer",
                    "Cross-Origin-Resource-Policy": "same-origin",
                }
                message["headers"] += [(name.encode(), value.encode()) for name, value in extra.items()]
            await send(message)

        answer = self.app if refusal is None else JSONResponse({"error": refusal}, status_code=403)
        await answer(scope, receive, marked)

    def _refusal(self, request: Request) -> str | None:
        host = request.headers.get("host", "")
        if host.rsplit(":", 1)[0] not in _HOSTS:
            return (
                "this server answers only to 127.0.0.1"  # a name that was made to lead here is another site's
            )
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "a page of another origin may not ask"
        if not request.url.path.startswith("/api/"):
            return None
        given = request.headers.get("x-regard-token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is not that of this start: open the address that was printed"
        return None


def _packed(body: bytes) -> Response:
    headers = {"Content-Encoding": "gzip"}
    return Response(body, media_type="application/octet-stream", headers=headers)


def _page_headers(html: str) -> dict[str, str]:
    # A notebook shows the page in a frame; its own address is this machine too.
    framed = "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*"
    return {"Content-Security-Policy": f"{policy(html, alone=False)}; {framed}"}


def _where(request: Request) -> tuple[int, int, int]:
    return _number(request, "exhibit"), _number(request, "layer"), _number(request, "entry")


def _place(request: Request) -> Place:
    return Place(**{name: _number(request, name) for name in ("down", "across", "row", "column")})


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    try:
        number = int(given)
    except ValueError:
        raise RegardError(f"{name}={given!r}: give a whole number") from None
    if not 0 <= number < 1 << 31:
        raise RegardError(f"{name}={given}: give a number from 0")
    return number


def _numbers(request: Request, name: str) -> list[int]:
    given = request.query_params.get(name, "")
    try:
        return sorted({int(each) for each in given.split(",") if each})  # a head named twice is asked once
    except ValueError:
        raise RegardError(f"{name}={given!r}: give whole numbers, such as 0,2") from None


async def _body(request: Request) -> Any:
    body = b""
    async for some in request.stream():
        body += some
        if len(body) > _LARGEST:
            raise RegardError(f"a question of more than {_LARGEST:,} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # nested deeper than Python reads
        raise RegardError("the question is not JSON") from None


def _touching(told: Any) -> tuple[int, dict[str, str], list[Change]]:
    """What POST /api/touch asks, every part checked: it goes to the model."""
    match told:
        case {"exhibit": int(exhibit), "input": dict(inputs), "changes": list(changes)}:
            if all(isinstance(each, str) for pair in inputs.items() for each in pair):
                return exhibit, inputs, [_change(each) for each in changes]
    raise RegardError("a touch names its exhibit, input and changes")


def _change(told: Any) -> Change:
    match told:
        case {"kind": "drop" | "scale" | "uniform" | "forbid" as kind, "layer": str(layer)}:
            factor = told.get("factor", 1.0)
            if not isinstance(factor, int | float) or isinstance(factor, bool) or not _finite(factor):
                raise RegardError(f"factor {str(factor)[:40]}: give a finite number")
            chosen = {name: _chosen(name, told.get(name)) for name in ("heads", "queries", "keys")}
            return Change(kind=kind, layer=layer, factor=float(factor), **chosen)
    raise RegardError(f"{str(told)[:80]} is no change: drop, scale, uniform or forbid in a layer")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number larger than any float
        return False


def _chosen(name: str, told: Any) -> tuple[int, ...] | None:
    if told is None:
        return None
    if not isinstance(told, list) or not all(type(each) is int and each >= 0 for each in told):
        raise RegardError(f"{name}: give a list of numbers from 0, or null for all")
    return tuple(told)


async def _mistaken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=409 if isinstance(error, GoneError) else 400)


async def _missing(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"there is nothing at {request.url.path}"}, status_code=404)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"{type(error).__name__}: {error}"}, status_code=500)
