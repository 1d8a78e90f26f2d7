"""What is touched is run again, and the change is marked."""

from collections.abc import Callable

from browser.subjects import translation
from browser.visiting import Visit

Open = Callable[..., Visit]
Serve = Callable[..., str]


def answer(made: Visit) -> str:
    return str(made.page.locator(".changed").inner_text())


def test_a_head_is_switched_off_and_on_again(visit: Open, served: Serve) -> None:
    exhibit = translation()
    made = visit(served(exhibit, at="view=touch"))
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.locator(".changed").wait_for()
    from regard.sight.explorer.exhibit import Change

    dropped = exhibit.subject.look({}, [Change(kind="drop", layer="encoder.0.attention", heads=(1,))])
    assert dropped.outputs[0].text in answer(made)
    assert made.page.get_by_text("head 1 switched off").count() == 1
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.locator(".changed").wait_for(state="detached")


def test_the_input_is_edited(visit: Open, served: Serve) -> None:
    exhibit = translation()
    made = visit(served(exhibit, at="view=touch"))
    made.page.get_by_label("source").fill("see the old sea")
    made.page.locator(".changed").wait_for()
    assert exhibit.subject.look({"source": "see the old sea"}, []).outputs[0].text in answer(made)
    made.page.get_by_role("button", name="look at its attention").click()
    made.until_exact()
    assert made.page.locator(".touched").inner_text() == "touched"


def test_a_pair_is_forbidden_and_the_touched_run_compared(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=touch&layer=0&query=2&key=3"))
    made.page.get_by_role("button", name="forbid this pair").click()
    made.page.locator(".changed").wait_for()
    made.page.get_by_role("button", name="compare with the untouched").click()
    made.page.get_by_text("of their mass differently").wait_for()
    assert made.state()["other"].split("_")[0] == "1"


def test_a_mistake_is_told_in_one_line(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=touch"))
    made.page.get_by_label("source").fill("")
    alert = made.page.get_by_role("alert")
    alert.wait_for()
    assert "\n" not in alert.inner_text()
    made.wrong = [each for each in made.wrong if "400" not in each]  # the browser reports the refusal itself
