"""The server: questions of the page over HTTP, to this machine alone.

Any page that a browser has open could try to ask: so a question must carry the token of this start, be addressed to
this machine by its number, and come from the page served here.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.sight.explorer import questions
from regard.sight.explorer.answers import PageAnswers
from regard.sight.explorer.built import page, policy
from regard.sight.explorer.crew import Crew
from regard.sight.explorer.hall import GoneError
from regard.sight.explorer.packs import squeezed
from regard.sight.explorer.page_json import told

_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")


def application(answers: PageAnswers, token: str, crew: Crew) -> ASGIApp:
    """The pages and questions of one start."""
    html = page()
    asked: dict[str, Callable[[Request], bytes]] = {
        "tile": lambda r: answers.tile(
            *questions.where(r), questions.heads(r), questions.place(r), exact=questions.exact(r)
        ),
        "margins": lambda r: answers.margins(
            *questions.where(r), questions.heads(r), exact=questions.exact(r)
        ),
        "row": lambda r: answers.row(*questions.where(r), questions.number(r, "query")),
        "column": lambda r: answers.column(
            *questions.where(r), questions.number(r, "key"), questions.heads(r), exact=questions.exact(r)
        ),
        "atlas": lambda r: answers.atlas(*questions.where(r), questions.number(r, "size")),
        "media": lambda r: answers.media(
            *(questions.number(r, each) for each in ("exhibit", "side", "entry"))
        ),
    }

    async def start(request: Request) -> Response:
        return Response(html, media_type="text/html; charset=utf-8", headers=_page_headers(html))

    async def manifest(request: Request) -> Response:
        return _json(await crew.quickly(answers.hall.manifest))

    async def touch(request: Request) -> Response:
        exhibit, inputs, changes = questions.touching(await questions.body(request))

        def made() -> dict[str, Any]:
            opened, gone = answers.hall.touch(exhibit, inputs, changes)
            for number in gone:
                answers.passes.forget(number)
            return opened

        return _json(await crew.running(made))

    async def importance(request: Request) -> Response:
        where = questions.number(request, "exhibit"), questions.number(request, "layer")
        return _packed(await crew.running(lambda: squeezed(answers.importance(*where))))

    def question(answer: Callable[[Request], bytes]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            def body() -> bytes:
                return squeezed(answer(request))

            long = request.query_params.get("exact") == "1"
            found = await (crew.patiently(request, body) if long else crew.quickly(body))
            if found is None:
                return Response(status_code=204)  # it is not read
            return _packed(found)

        return respond

    routes = [
        Route("/", start),
        Route("/api/manifest", manifest),
        Route("/api/touch", touch, methods=["POST"]),
        Route("/api/importance", importance),
        *(Route(f"/api/{name}", question(answer)) for name, answer in asked.items()),
    ]
    handlers = {RegardError: _mistaken, ClientDisconnect: _left, 404: _missing, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, token)


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

        answer = self.app if refusal is None else _json({"error": refusal}, 403)
        await answer(scope, receive, marked)

    def _refusal(self, request: Request) -> str | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            # A name that was made to lead here is another site's.
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
    return Response(told(value), status, media_type="application/json")


def _packed(body: bytes) -> Response:
    headers = {"Content-Encoding": "gzip"}
    return Response(body, media_type="application/octet-stream", headers=headers)


def _page_headers(html: str) -> dict[str, str]:
    # A notebook shows the page in a frame; its own address is this machine too.
    framed = "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*"
    return {"Content-Security-Policy": f"{policy(html, alone=False)}; {framed}"}


async def _mistaken(request: Request, error: Exception) -> Response:
    return _json({"error": str(error)}, 409 if isinstance(error, GoneError) else 400)


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=204)  # it is not read


async def _missing(request: Request, error: Exception) -> Response:
    return _json({"error": f"there is nothing at {request.scope['path'][:200]}"}, 404)


async def _failed(request: Request, error: Exception) -> Response:
    return _json({"error": f"{type(error).__name__}: {error}"}, 500)
