"""The page that is shipped was built from the sources beside it, and asks for nothing outside itself."""

import hashlib
import json
import math
import re
from pathlib import Path

import pytest

from regard.sight.explorer.page_html import PAGE, page, policy, to_json

WEB = Path(__file__).parents[3] / "web"
FILES = ("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.js")


def hash_of_sources() -> str:
    """sha256 over the name and the content of every source file, in the order of their names."""
    found = [*FILES]
    for folder in ("making", "src"):
        found += [path.relative_to(WEB).as_posix() for path in (WEB / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.skipif(not WEB.exists(), reason="the sources of the page are not installed")
def test_the_page_was_built_from_its_sources() -> None:
    built = re.search(r'<meta name="regard-sources" content="([0-9a-f]{64})"', page())
    assert built, f"{PAGE} does not say what it was built from"
    assert built[1] == hash_of_sources(), "the page is older than its sources: run `npm run build` in web/"


def test_it_has_one_script_one_style_and_a_place_for_data() -> None:
    html = page()
    assert html.count('<script type="module">') == 1
    assert html.count("<style>") == 1
    assert len(re.findall(r"<script\b", html.split('<script type="module">')[0])) == 1
    assert 'id="regard-data">null</script>' in html


def test_it_names_no_address_outside_itself() -> None:
    addresses = set(re.findall(r"\b(?:https?|wss?):(?:\\?/){2}[^\s\"'`<>)]*", page()))
    assert all(address.startswith("http://www.w3.org/") for address in addresses), addresses
    assert not re.search(
        r"""(?:src|href)\s*=\s*["'](?!data:|blob:|#)""",
        re.sub(r"<script.*?</script>", "", page(), flags=re.S),
    )


def test_it_never_makes_markup_from_text() -> None:
    html = page()
    for way in (
        r"\.innerHTML\s*=",
        r"\.outerHTML\s*=",
        "insertAdjacentHTML",
        r"document\.write",
        r"\beval\(",
        r"new Function\(",
    ):
        assert not re.search(way, html), way


def test_its_policy_allows_its_own_script_and_style_alone() -> None:
    for alone in (False, True):
        said = dict(part.split(" ", 1) for part in policy(page(), alone=alone).split("; "))
        assert said["default-src"] == "'none'"
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", said["script-src"])
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", said["style-src"])
        assert said["connect-src"] == ("'none'" if alone else "'self'")


def test_nan_and_infinity_are_written_by_name() -> None:
    value = {"a": math.nan, "b": [math.inf, (-math.inf, 1.5)], "c": True, "d": None, "e": "NaN"}
    wanted = {"a": "NaN", "b": ["Infinity", ["-Infinity", 1.5]], "c": True, "d": None, "e": "NaN"}
    assert json.loads(to_json(value)) == wanted


def test_half_a_character_is_written_and_read_again() -> None:
    text = "a\ud800b\udc00\udbff 😀 é"
    written = to_json({text: [text]})
    written.encode()  # it is UTF-8
    assert json.loads(written) == {text: [text]}
