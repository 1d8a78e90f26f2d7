"""The server answers the page served by it, and no other. Asked over real sockets."""

import gzip
import http.client
import json
import re
import socket
from collections.abc import Iterator

import pytest
from sight.explorer.small import seen_of
from sight.explorer.unpacked import unpack

from regard.errors import RegardError
from regard.sight.explorer.serving import Showing, serve
from regard.sight.explorer.watched import example_of

TILE = "/api/tile?exhibit=0&layer=0&entry=0&heads=0&down=0&across=0&row=0&column=0&exact=1"


@pytest.fixture(scope="module")
def showing() -> Iterator[Showing]:
    with serve([example_of(seen_of(9), ["<script>alert(1)</script>", *"abcdefgh"])], browser=False) as made:
        yield made


def address(showing: Showing) -> tuple[str, int, str]:
    found = re.fullmatch(r"http://(127\.0\.0\.1):(\d+)/#token=([\w-]{20,})", showing.url)
    assert found
    return found[1], int(found[2]), found[3]


def ask(
    showing: Showing, path: str, *, method: str = "GET", body: str | None = None, **headers: str | None
) -> tuple[int, dict[str, str], bytes]:
    host, port, token = address(showing)
    sent = {"Host": f"{host}:{port}", "X-Regard-Token": token} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection = http.client.HTTPConnection(host, port, timeout=600)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in sent.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body.encode())))
    connection.endheaders(None if body is None else body.encode())
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def error(answer: tuple[int, dict[str, str], bytes]) -> str:
    return json.loads(answer[2])["error"]


def test_the_manifest_tells_tokens_as_they_are(showing: Showing) -> None:
    status, _, body = ask(showing, "/api/manifest")
    assert status == 200
    example = json.loads(body)["exhibits"][0]
    assert example["sides"][0]["tokens"][0][0] == "<script>alert(1)</script>"
    assert [layer["name"] for layer in example["layers"]] == ["first", "second"]
    assert example["can"] == {"touch": False, "input": [], "importance": False}


def test_a_question_is_answered_with_a_compressed_pack(showing: Showing) -> None:
    status, headers, body = ask(showing, TILE)
    assert status == 200
    assert headers["content-encoding"] == "gzip"
    header, arrays = unpack(gzip.decompress(body))
    assert header["approximate"] is False
    assert arrays["mass"].shape == (9, 9)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"X_Regard_Token": None}, "token"),
        ({"X_Regard_Token": "guess"}, "token"),
        ({"X_Regard_Token": "ünï"}, "token"),
        ({"Host": "evil.example"}, "127.0.0.1"),
        ({"Host": "127.0.0.1.evil.example:80"}, "127.0.0.1"),
        ({"Host": None}, "127.0.0.1"),
        ({"Host": "0.0.0.0:80"}, "127.0.0.1"),
        ({"Host": "[::1]:80"}, "127.0.0.1"),
        ({"Host": "localhost.:80"}, "127.0.0.1"),
        ({"Host": "127.0.0.1:80, evil.example"}, "127.0.0.1"),
        ({"Host": "evil.example, 127.0.0.1:80"}, "127.0.0.1"),
        ({"Host": "127.0.0.1:80/x?", "X_Regard_Token": None}, "127.0.0.1"),
        ({"Host": "127.0.0.1:80#", "X_Regard_Token": None}, "127.0.0.1"),
        ({"Origin": "http://127.0.0.1:1"}, "origin"),  # another server of this machine
        ({"Origin": "http://localhost"}, "origin"),
        ({"Origin": "http://evil.example"}, "origin"),
        ({"Origin": "null"}, "origin"),
        ({"Origin": "https://127.0.0.1"}, "origin"),
    ],
)
def test_who_is_not_the_page_is_refused(showing: Showing, headers: dict[str, str | None], why: str) -> None:
    for path in (TILE, "/api/manifest"):
        answer = ask(showing, path, **headers)
        assert answer[0] in (400, 403)  # without a Host it is no HTTP/1.1, and the server says so itself
        if answer[0] == 403:
            assert why in error(answer)


def test_several_hosts_are_refused(showing: Showing) -> None:
    host, port, token = address(showing)
    asked = f"GET /api/manifest HTTP/1.1\r\nX-Regard-Token: {token}\r\n"
    for hosts in ((f"{host}:{port}", "evil.example"), ("evil.example", f"{host}:{port}")):
        with socket.create_connection((host, port), timeout=600) as caller:
            caller.sendall((asked + "".join(f"Host: {each}\r\n" for each in hosts) + "\r\n").encode())
            assert caller.recv(4096).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("host", ["127.0.0.1:80/x?", "127.0.0.1:80#", "127.0.0.1:80, x", ""])
def test_no_address_made_of_the_host_leads_past_the_token(host: str) -> None:
    """Whatever a version of starlette makes of the Host: without the token nothing below /api/ is answered."""
    from starlette.requests import Request

    from regard.sight.explorer.server import Guard

    headers = [(b"host", host.encode())]
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": "/api/manifest", "query_string": b""}
    refused = Guard(lambda *_: None, "secret")._refusal
    assert "127.0.0.1" in refused(Request({**scope, "headers": headers}))
    assert "token" in refused(Request({**scope, "headers": [(b"host", b"127.0.0.1:80")]}))


def test_half_a_character_in_a_token_is_told() -> None:
    """Python holds what UTF-8 does not: a token cut within a surrogate pair."""
    tokens = ["\ud83d", "\ude00", "😀", *"abcdef"]
    with serve([example_of(seen_of(9), tokens, name="half \udfff")], browser=False) as made:
        status, _, body = ask(made, "/api/manifest")
    assert status == 200
    example = json.loads(body)["exhibits"][0]
    assert example["sides"][0]["tokens"][0] == tokens
    assert example["name"] == "half \udfff"


def test_the_page_itself_may_ask(showing: Showing) -> None:
    host, port, _ = address(showing)
    assert ask(showing, "/api/manifest", Origin=f"http://{host}:{port}")[0] == 200


def test_the_page_comes_with_a_policy_that_lets_nothing_else_in(showing: Showing) -> None:
    status, headers, body = ask(showing, "/", X_Regard_Token=None)
    assert status == 200
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert re.fullmatch(r"'sha256-[\w+/]{43}='", policy["script-src"])
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert address(showing)[2].encode() not in body


def test_no_answer_invites_other_origins(showing: Showing) -> None:
    answer = ask(showing, "/api/manifest", method="OPTIONS", Origin=None)
    assert answer[0] in (403, 405)
    assert not any(name.startswith("access-control") for name in answer[1])


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (TILE.replace("layer=0", "layer=7"), 400, "layer 7, but there are only 2"),
        (TILE.replace("layer=0", "layer=x"), 400, "layer='x': give a whole number"),
        (TILE.replace("layer=0", "layer=-1"), 400, "layer=-1: give a number from 0"),
        (TILE.replace("row=0", "row=5"), 400, "row 5 at level 0"),
        (TILE.replace("down=0", "down=99999999"), 400, "9 positions have levels 0 to 4"),
        (TILE.replace("heads=0", "heads=0,b"), 400, "heads='b': give a whole number"),
        (TILE.replace("heads=0", "heads=-1"), 400, "heads=-1: give a number from 0"),
        (TILE.replace("heads=0", "heads=1_0"), 400, "give a whole number"),
        (TILE.replace("heads=0", "heads=%D9%A1"), 400, "give a whole number"),
        (TILE.replace("down=0&across=0", "down=15&across=15"), 400, "9 positions have levels 0 to 4"),
        ("/api/nothing", 404, "nothing at /api/nothing"),
        ("/../../etc/passwd", 404, "nothing at"),
    ],
)
def test_a_mistake_is_answered_with_one_line(showing: Showing, path: str, status: int, message: str) -> None:
    answer = ask(showing, path)
    assert answer[0] == status
    assert message in error(answer)
    assert "\n" not in error(answer)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a touch names its exhibit"),
        ('{"exhibit": 0, "input": {"text": 3}, "changes": []}', "a touch names its exhibit"),
        ('{"exhibit": 0, "input": {}, "changes": [{"kind": "explode", "layer": "first"}]}', "is no change"),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "drop", "layer": "first", "heads": ["0"]}]}',
            "heads",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "scale", "layer": "first", "heads": [0], "factor": NaN}]}',
            "give a number from −10,000 to 10,000",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "scale", "layer": "a", "heads": [0], "factor": 1e999}]}',
            "give a number from −10,000 to 10,000",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "scale", "layer": "a", "heads": [0], "factor": 1%s}]}'
            % ("0" * 400),
            "give a number from −10,000 to 10,000",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "scale", "layer": "a", "heads": [0], "factor": 1e300}]}',
            "factor 1e+300: give a number from −10,000 to 10,000",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "scale", "layer": "a", "heads": [0], "factor": true}]}',
            "factor True",
        ),
        ('{"exhibit": true, "input": {}, "changes": []}', "a touch names its exhibit"),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "drop", "layer": "a", "heads": [true]}]}',
            "heads: give a list of numbers",
        ),
        (
            '{"exhibit": 0, "input": {}, "changes": [{"kind": "drop", "layer": "a", "heads": [-1]}]}',
            "heads: give a list of numbers",
        ),
        ('{"exhibit": 0, "input": {}, "changes": [%s0]}' % ("0," * 300), "301 changes at once"),
        (
            '{"exhibit": 0, "input": {"text": "a\\ud800"}, "changes": []}',
            "character 1 is half of a surrogate",
        ),
        ("[" * 100_000, "not JSON"),
        ('{"exhibit": 1%s, "input": {}, "changes": []}' % ("0" * 5000), "not JSON"),
        ('{"exhibit": 0, "input": {}, "changes": []}', "there is no model to run again"),
    ],
)
def test_a_touch_that_makes_no_sense_is_refused(showing: Showing, body: str, message: str) -> None:
    answer = ask(showing, "/api/touch", method="POST", body=body)
    assert answer[0] == 400
    assert message in error(answer)


def test_a_touch_from_elsewhere_runs_nothing(showing: Showing) -> None:
    """A form or a fetch of another page: it cannot know the token, and cannot send it without being asked first."""
    body = '{"exhibit": 0, "input": {}, "changes": []}'
    kinds = {"Content_Type": "text/plain", "Origin": "http://evil.example"}
    assert ask(showing, "/api/touch", method="POST", body=body, **kinds)[0] == 403
    assert ask(showing, "/api/touch", method="POST", body=body, X_Regard_Token=None)[0] == 403
    assert ask(showing, "/api/touch")[0] == 405


def test_a_head_named_many_times_is_asked_once(showing: Showing, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.sight.explorer.session import Session

    asked: list[int] = []
    tile = Session._tile
    monkeypatch.setattr(
        Session, "_tile", lambda self, head, *rest: asked.append(head.head) or tile(self, head, *rest)
    )
    assert ask(showing, TILE.replace("heads=0", "heads=" + ",".join("1" * 2000)))[0] == 200
    assert asked == [1]


def test_a_question_too_large_is_refused(showing: Showing) -> None:
    answer = ask(showing, "/api/touch", method="POST", body=json.dumps("x" * (1 << 20)))
    assert answer[0] == 400
    assert "more than" in error(answer)


def test_it_listens_on_this_machine_alone(showing: Showing) -> None:
    _, port, _ = address(showing)
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        with socket.socket() as caller:
            caller.settimeout(2)
            assert caller.connect_ex((other, port)) != 0


def test_two_starts_have_two_tokens_and_a_closed_one_is_silent() -> None:
    example = example_of(seen_of(5))
    with serve([example], browser=False) as first, serve([example], browser=False) as second:
        assert address(first)[2] != address(second)[2]
        assert ask(second, "/api/manifest", X_Regard_Token=address(first)[2])[0] == 403
        with pytest.raises(RegardError, match=f"port {address(first)[1]} cannot be used"):
            serve([example], port=address(first)[1], browser=False)
    with pytest.raises(OSError, match=r"refused|reset"):
        ask(first, "/api/manifest")


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.sight.explorer import serving

    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(RegardError, match="starlette is not installed: pip install starlette"):
        serve([example_of(seen_of(5))], browser=False)


def test_a_notebook_shows_it_in_a_frame(showing: Showing) -> None:
    assert f'<iframe src="{showing.url}"' in showing._repr_html_()
