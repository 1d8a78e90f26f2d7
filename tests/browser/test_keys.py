"""Everything can be done with the keys, and the address has it."""

from collections.abc import Callable

import pytest
from browser.subjects import picture, text, translation
from browser.visiting import Visit

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Serve = Callable[..., str]


def test_views_layers_heads_and_scales_have_keys(visit: Open, served: Serve) -> None:
    made = visit(served(text(), at="view=map"))
    made.until_exact()
    press = made.page.keyboard.press
    for key, name, value in [
        ("]", "layer", "1"),
        (".", "heads", "0"),
        (".", "heads", "1"),
        (",", "heads", "0"),
        ("c", "curve", "log"),
        ("m", "cells", "peak"),
        ("3", "view", "text"),
        ("1", "view", "atlas"),
        ("2", "view", "map"),
    ]:
        press(key)
        assert made.state().get(name) == value, (key, made.state())
    press("a")
    assert "heads" not in made.state()
    press("[")
    assert "layer" not in made.state()


def test_arrows_choose_cells_and_signs_zoom(visit: Open, served: Serve) -> None:
    made = visit(served(text(300), at="view=map&heads=1"))
    made.until_exact()
    made.page.get_by_role("application").focus()
    press = made.page.keyboard.press
    press("ArrowDown")  # the first cell on the screen
    press("ArrowDown")
    press("Shift+ArrowDown")
    press("ArrowRight")
    assert (made.state()["query"], made.state()["key"]) == ("11", "1")
    for _ in range(6):
        press("+")
    made.until(lambda: "at" in made.state())
    made.until_exact()
    assert "11 “" in made.until_said("→ 1 “")
    press("End")
    assert made.state()["key"] == "299"
    assert "→ 299 “" in made.until_said("may not look")
    press("0")
    made.until(lambda: "at" not in made.state())
    press("Escape")
    assert "query" not in made.state()


def test_the_atlas_is_walked_with_arrows_and_opened_with_enter(visit: Open, served: Serve) -> None:
    made = visit(served(text()), width=600)  # one layer below the other
    made.page.locator("button.head").first.focus()
    press = made.page.keyboard.press
    press("ArrowRight")
    press("ArrowDown")
    assert "head 1" in made.until_said("second")
    press("Enter")
    assert (made.state()["view"], made.state()["layer"], made.state()["heads"]) == ("map", "1", "1")


def test_a_text_is_walked_word_by_word(visit: Open, served: Serve) -> None:
    made = visit(served(text(), at="view=text&form=flow"))
    made.page.get_by_role("application").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        made.page.keyboard.press(key)
    assert made.state()["query"] == "1"
    made.until_said("1 “where” looks at")
    made.page.keyboard.press("End")
    assert made.state()["query"] == "39"


def test_patches_are_walked_with_arrows(visit: Open, served: Serve) -> None:
    made = visit(served(picture(), at="view=picture"))
    made.page.get_by_role("application").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        made.page.keyboard.press(key)
    assert made.state()["query"] == "8"  # the token before the patches, the first patch, the one beneath it
    made.until_said("looks at")


@pytest.mark.parametrize(
    "at",
    [
        "view=map&layer=1&heads=2&query=20&key=7&at=20.0_10.0_3.000&cells=peak&curve=log&colours=sea&theme=dark",
        "view=text&layer=1&heads=0.2&query=9&form=flow",
        "view=compare&layer=1&heads=0&other=0_1_0_3",
        "view=atlas&sort=entropy",
    ],
)
def test_an_address_shows_the_same_again(at: str, visit: Open, served: Serve) -> None:
    made = visit(served(text(), at=at))
    wanted = dict(part.split("=") for part in at.split("&"))
    made.page.reload()
    made.page.get_by_role("tablist").wait_for()
    made.page.keyboard.press("?")
    made.page.keyboard.press("Escape")
    assert {name: value for name, value in made.state().items() if name != "token"} == wanted
    dark = made.page.evaluate("document.documentElement.dataset.theme")
    assert dark == wanted.get("theme", "light")


def test_going_back_goes_to_the_view_before(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=map&layer=2"))
    made.page.get_by_role("tab", name="Text").click()
    made.page.get_by_role("tab", name="Decode").click()
    made.page.go_back()
    made.page.get_by_role("tab", name="Text", selected=True).wait_for()
    made.page.go_back()
    made.page.get_by_role("tab", name="Map", selected=True).wait_for()


def test_keys_are_listed_and_every_control_has_a_name(visit: Open, served: Serve) -> None:
    made = visit(served(translation()))
    made.page.keyboard.press("?")
    made.page.get_by_role("dialog").get_by_text("closer, further").wait_for()
    made.page.get_by_role("button", name="Close").click()
    for tab in made.page.get_by_role("tab").all():
        tab.click()
        made.settle()
        nameless = made.page.evaluate(
            """() => [...document.querySelectorAll('button, select, textarea, [role=application], [role=switch]')]
                 .filter(each => !(each.getAttribute('aria-label') || each.innerText.trim() || each.title
                                   || [...(each.labels ?? [])].some(label => label.textContent.trim())))
                 .map(each => each.outerHTML.slice(0, 120))"""
        )
        assert not nameless
