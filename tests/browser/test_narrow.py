"""A narrow window shows everything a wide one does: nothing is cut off, and what does not fit is scrolled to."""

from collections.abc import Callable

import pytest
from browser.subjects import picture, senses, text, translation
from browser.visiting import Visit

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Serve = Callable[..., str]
SUBJECTS = {"translation": translation, "text": text, "image": picture, "senses": senses}


@pytest.mark.parametrize("kind", SUBJECTS)
@pytest.mark.parametrize("width", [420, 700])
def test_nothing_reaches_beyond_the_window(kind: str, width: int, visit: Open, served: Serve) -> None:
    made = visit(served(SUBJECTS[kind]()), width=width, height=760)
    for view in made.page.get_by_role("tab").all_inner_texts():
        made.page.get_by_role("tab", name=view).click()
        made.page.wait_for_timeout(400)
        beyond = made.page.evaluate(
            """() => [...document.querySelectorAll('header *, main button, main select, main canvas, main textarea, main h2')]
                 .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > innerWidth + 1)
                 .map(each => `${each.tagName} ${each.textContent.slice(0, 30)}`)"""
        )
        assert not beyond, (view, beyond)
        small = made.page.evaluate(
            """() => [...document.querySelectorAll('main [role=application]:not([aria-roledescription=text])')]
                 .map(each => each.getBoundingClientRect()).filter(box => box.width < 200 || box.height < 120).length"""
        )
        assert small == 0, view


def test_labels_of_a_map_are_whole(visit: Open, served: Serve) -> None:
    """The first columns of pixels are paper: a label that began outside would leave ink there."""
    tokens = ["incomprehensibly", " w", " Wundertüten", " WWWWWWWW"]
    made = visit(served(text(4, tokens), at="view=map&layer=0&heads=0"))
    made.until_exact()
    inked = made.page.evaluate(
        """() => { const canvas = document.querySelector('main canvas');
             const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
             copy.drawImage(canvas, 0, 0);
             const pixels = new Uint32Array(copy.getImageData(0, 0, 3, canvas.height).data.buffer);
             return new Set(pixels).size }"""
    )
    assert inked == 1


def test_arrows_go_through_the_tabs(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=decode"))
    made.page.get_by_role("tab", name="Decode").focus()
    made.page.keyboard.press("ArrowRight")
    assert made.state()["view"] == "touch"
    assert made.page.evaluate("document.activeElement.textContent") == "Touch"
    made.page.keyboard.press("Home")
    assert made.state()["view"] == "atlas"
    made.page.keyboard.press("ArrowLeft")
    assert made.state()["view"] == "compare"
    made.page.keyboard.press("ArrowLeft")
    made.page.keyboard.press("ArrowLeft")
    assert (made.state()["view"], made.state().get("step")) == ("decode", None)
