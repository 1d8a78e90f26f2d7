"""Text is shown, never interpreted: in no view, in no file, from no token."""

from collections import Counter
from collections.abc import Callable

import pytest
from browser.hostile import HOSTILE
from browser.subjects import text
from browser.visiting import Visit

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
ELEMENTS = """() => [...document.querySelectorAll('*')].map(element => element.localName)"""
ATTRIBUTES = """() => [...document.querySelectorAll('*')].flatMap(element => [...element.attributes])
                  .filter(each => /^on/i.test(each.name) || /^\\s*(javascript|vbscript|data|http)/i.test(each.value))
                  .map(each => `${each.name}=${each.value}`)"""
DANGEROUS = {
    "script",
    "iframe",
    "object",
    "embed",
    "link",
    "base",
    "form",
    "svg",
    "math",
    "img",
    "video",
    "audio",
    "a",
    "portal",
}


def test_there_are_enough_of_them_and_none_twice() -> None:
    assert len(HOSTILE) >= 100
    assert [each for each, count in Counter(HOSTILE).items() if count > 1] == []


@pytest.mark.parametrize("how", ["served", "exported"])
def test_tokens_are_never_interpreted(how: str, visit: Open, request: pytest.FixtureRequest) -> None:
    tokens = list(HOSTILE)
    address = request.getfixturevalue(how)
    made = visit(address(text(len(tokens), tokens), at="view=atlas"))
    plain = {
        name: count for name, count in Counter(made.page.evaluate(ELEMENTS)).items() if name in DANGEROUS
    }
    for at in (
        "view=map&heads=0&at=20_20_9",
        "view=map&heads=0&at=100_100_9&query=100&key=99",
        "view=text&heads=0&query=90&form=flow",
        "view=compare&heads=0",
        "view=atlas&sort=entropy",
    ):
        made.page.evaluate(
            "at => { location.hash = location.hash.replace(/(&|#)view=.*/, '$1') + '&' + at }", at
        )
        made.page.reload()
        made.page.get_by_role("tablist").wait_for()
        made.page.wait_for_timeout(700)
        if "view=map" in at:
            made.page.keyboard.press("t")
            made.page.locator(".table tbody tr").first.wait_for()
        counted = Counter(made.page.evaluate(ELEMENTS))
        assert {name: count for name, count in counted.items() if name in DANGEROUS} == plain, at
        assert made.page.evaluate(ATTRIBUTES) == [], at
        assert made.page.get_by_role("alert").count() == 0, at


def test_every_token_is_shown_as_it_is_but_visible(visit: Open, served: Callable[..., str]) -> None:
    made = visit(served(text(len(HOSTILE), HOSTILE), at="view=text&heads=0&form=flow"))
    shown = made.page.evaluate("[...document.querySelectorAll('[data-place]')].map(each => each.textContent)")
    assert len(shown) == len(HOSTILE)
    for token, seen in zip(HOSTILE, shown, strict=True):
        assert seen, repr(token)
        assert not set(seen) & set(
            "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\n\r\t\0"
        ), repr(token)
        assert len(seen) <= 160
    for token in (
        "<script>alert(1)</script>",
        "&lt;script&gt;",
        "<!--",
        "{{constructor.constructor('alert(1)')()}}",
    ):
        assert shown[HOSTILE.index(token)] in (token, token[:39] + "…")


def test_a_picture_saved_of_them_holds_no_markup_of_theirs(visit: Open, served: Callable[..., str]) -> None:
    from xml.etree import ElementTree

    made = visit(served(text(60, HOSTILE[:60]), at="view=map&heads=0&at=10_10_3"))
    made.until_exact()
    with made.page.expect_download() as download:
        made.page.get_by_role("button", name="as SVG").click()
    drawn = ElementTree.fromstring(download.value.path().read_text())
    names = {each.tag.split("}")[1] for each in drawn.iter()}
    assert names <= {"svg", "title", "rect", "polyline", "text", "image", "clipPath", "g"}
    assert not any(name.lower().startswith("on") for each in drawn.iter() for name in each.attrib)


def test_even_the_names_of_layers_and_texts_are_only_shown(visit: Open, served: Callable[..., str]) -> None:
    from dataclasses import replace

    made_of = text(12)
    evil = "<img src=x onerror=alert(1)>"
    panels = tuple(replace(panel, name=f"{evil}.{place}\u202e") for place, panel in enumerate(made_of.panels))
    made = visit(served(replace(made_of, name=evil, about=evil, panels=panels)))
    for tab in made.page.get_by_role("tab").all():
        tab.click()
        made.page.wait_for_timeout(300)
    assert made.page.locator("img").count() == 0
    assert evil in made.page.locator("header").inner_text()
