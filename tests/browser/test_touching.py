"""What is touched is run again, and the change is marked."""

from collections.abc import Callable

import pytest
from browser.subjects import text, translation
from browser.visiting import Visit

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Serve = Callable[..., str]
TITLES = """[...document.querySelectorAll('.chooser select')[0].options].map(each => each.text)"""


def answer(made: Visit) -> str:
    return str(made.page.locator(".changed").inner_text())


def test_a_head_is_switched_off_and_on_again(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=touch"))
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.locator(".changed").wait_for()
    from regard.sight.explorer.example import Change

    dropped = example.subject.look({}, [Change(kind="drop", layer="encoder.0.attention", heads=(1,))])
    assert dropped.outputs[0].text in answer(made)
    assert made.page.locator(".do").get_by_text("head 1 switched off").count() == 1
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.locator(".changed").wait_for(state="detached")


def test_the_input_is_edited(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=touch"))
    made.page.get_by_role("textbox", name="source").fill("see the old sea")
    made.page.locator(".changed").wait_for()
    assert example.subject.look({"source": "see the old sea"}, []).outputs[0].text in answer(made)
    made.page.get_by_role("button", name="look at its attention").click()
    made.until_exact()
    assert made.page.locator(".touched").inner_text() == "touched: source edited"


def test_a_pair_is_forbidden_and_the_touched_run_compared(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=touch&layer=0&query=2&key=3"))
    made.page.get_by_role("button", name="forbid this pair").click()
    made.page.locator(".changed").wait_for()
    made.page.get_by_role("button", name="compare with the untouched").click()
    made.page.get_by_text("of their mass differently").wait_for()
    assert made.state()["other"].split("_")[0] == "1"


def test_a_mistake_is_told_in_one_line_and_no_answer_is_left_beside_it(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=touch"))
    made.page.get_by_role("textbox", name="source").fill("see the old sea")
    made.page.get_by_role("button", name="look at its attention").wait_for()
    made.page.get_by_role("textbox", name="source").fill("")
    alert = made.page.get_by_role("alert")
    alert.wait_for()
    assert "\n" not in alert.inner_text()
    assert "there is no token in it" in answer(made)
    assert made.page.get_by_role("button", name="look at its attention").count() == 0
    assert "touched" not in made.state()
    made.wrong = [each for each in made.wrong if "400" not in each]  # the browser reports the refusal itself


def test_a_touched_exhibit_is_made_again_by_its_address(visit: Open, served: Serve) -> None:
    """After a reload, and on another server of the same model."""
    example = translation()
    made = visit(served(example, at="view=touch"))
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.get_by_role("button", name="look at its attention").click()
    made.until_exact()
    title = made.page.locator(".touched").inner_text()
    assert title == "touched: encoder.0.attention: head 1 switched off"
    kept = made.page.evaluate("location.hash.split('&').slice(1).join('&')")
    made.page.reload()
    made.until_exact()
    assert made.page.locator(".touched").inner_text() == title
    other = visit(served(example, text(9), at=kept))
    other.until_exact()
    assert other.page.locator(".touched").inner_text() == title
    assert other.state()["exhibit"] == "2"
    other = visit(served(example, at=kept.replace("view=map", "view=touch")))
    other.page.get_by_text("head 1 switched off").last.wait_for()
    assert other.page.get_by_role("switch", name="encoder.0.attention, head 1").get_attribute(
        "aria-checked"
    ) == ("false")


def test_a_touched_exhibit_that_was_let_go_is_made_again(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=touch"))
    heads = [made.page.get_by_role("switch", name=f"encoder.1.attention, head {head}") for head in range(4)]
    for place in range(10):  # more than the eight that are kept
        heads[place % 4].click()
        made.until(lambda n=place: len(made.page.evaluate(TITLES)) >= n or not n)
        made.page.locator(".answer[aria-busy=false]").wait_for()
    titles = made.page.evaluate(TITLES)
    assert len(set(titles)) == len(titles)
    first = next(title for title in titles if "encoder.1.attention: head 0 switched off" in title)
    made.page.get_by_label("Exhibit").select_option(label=first)
    made.page.get_by_role("tab", name="Map").click()
    made.until_exact()
    assert "head 0 switched off" in made.page.locator(".touched").inner_text()
    assert int(made.state()["exhibit"]) > 8
    made.wrong = [each for each in made.wrong if "409" not in each]


def test_an_address_that_lost_its_exhibit_says_so(visit: Open, served: Serve, exported: Serve) -> None:
    address = served(translation(), at="view=map&exhibit=5")
    made = visit(address)
    assert "Exhibit 5 of this address is no longer there" in made.page.get_by_role("alert").inner_text()
    bad = (
        "&touched="
        + "%5B%5B5%2C0%2C%7B%7D%2C%5B%7B%22kind%22%3A%22drop%22%2C%22layer%22%3A%22no%22%2C%22heads%22%3A%5B1%5D%7D%5D%5D%5D"
    )
    made = visit(address + bad)
    made.page.get_by_role("alert").wait_for()
    assert "could not be made again" in made.page.get_by_role("alert").inner_text()
    assert "touched" not in made.state()
    made.wrong = [each for each in made.wrong if "400" not in each]
    made = visit(address + "&touched=%5B7%5D")
    assert "cannot be read" in made.page.get_by_role("alert").inner_text()
    made = visit(exported(translation(), at="view=map&exhibit=5" + bad))
    assert "the model is not in this file" in made.page.get_by_role("alert").inner_text()
