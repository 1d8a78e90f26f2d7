"""The built page, its Content-Security-Policy, and the data embedded in it."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from regard.errors import RegardError

PAGE = Path(__file__).parent / "page" / "index.html"
_DATA = '<script type="application/json" id="regard-data">null</script>'
_INLINE = re.compile(r"<(script|style)([^>]*)>(.*?)</\1>", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character: valid in a Python string, not in UTF-8


@cache
def page() -> str:
    """The page without data, which asks a server for everything."""
    try:
        html = PAGE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RegardError(
            f"{PAGE} is not there: in a checkout, build it with `npm run build` in web/"
        ) from None
    if html.count(_DATA) != 1:
        raise RegardError(f"{PAGE} has no place for data: build it anew with `npm run build` in web/")
    return html


def policy(html: str, *, alone: bool) -> str:
    """The Content-Security-Policy of a page: its own script and style by their hashes, and nothing from elsewhere."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for tag, attributes, body in _INLINE.findall(html):
        if tag == "style" or 'type="module"' in attributes or "type=" not in attributes:
            digest = hashlib.sha256(body.encode()).digest()
            hashes[tag].append(f"'sha256-{base64.b64encode(digest).decode()}'")
    parts = {
        "default-src": "'none'",
        "script-src": " ".join(hashes["script"]) or "'none'",
        "style-src": " ".join(hashes["style"]) or "'none'",
        "img-src": "data: blob:",
        "worker-src": "blob:",
        "connect-src": "'none'" if alone else "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def embed(manifest: Mapping[str, Any], packs: Mapping[str, bytes]) -> str:
    """The page with everything in it: packs are compressed bytes, by name."""
    # In a script a browser looks for nothing but its end and for comments: without "<" there is neither.
    data = to_json({"manifest": manifest}).replace("<", "\\u003c")
    html = page()
    head = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy(html, alone=True))}">'
    held = "".join(
        f'<script type="text/plain" id="pack:{name}">{base64.b64encode(body).decode()}</script>\n'
        for name, body in packs.items()
    )
    before, after = html.split(_DATA)
    opened = before.replace("<head>", f"<head>\n{head}", 1)
    return f"{opened}{held}{_DATA.replace('null', data)}{after}"


def to_json(value: Any) -> str:
    """JSON that can always be encoded: NaN becomes "NaN", ∞ "Infinity" or "-Infinity", lone surrogates escapes."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value
