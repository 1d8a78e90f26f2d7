"""What is no number has a look and a word of its own in every view and file; a library that is gone has another."""

import csv
import io
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from browser.subjects import broken, broken_picture, text, translation
from browser.visiting import Visit

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.slow
Open = Callable[..., Visit]
Serve = Callable[..., str]
HATCHED = """() => { const canvas = document.querySelector(SELECTOR);
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let at = 0; at < pixels.length; at += 4)
    if (pixels[at] === 255 && pixels[at + 1] === 238 && pixels[at + 2] === 158) count++;
  return count; }"""


def hatched(made: Visit, selector: str) -> int:
    """Pixels of the colour that no ramp has."""
    return int(made.page.evaluate(HATCHED.replace("SELECTOR", repr(selector))))


def saved(made: Visit, kind: str) -> str:
    with made.page.expect_download() as download:
        made.page.get_by_role("button", name=f"as {kind}").click()
    return download.value.path().read_text(encoding="utf-8")


@pytest.mark.parametrize("how", ["served", "exported"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_map_shows_and_names_it(how: str, value: float, visit: Open, request: Any) -> None:
    example = broken(queries=(7,), value=value)
    made = visit(request.getfixturevalue(how)(example, at="view=map&heads=1&theme=light&query=7&key=2"))
    made.page.get_by_role("status").filter(has_text="hatched: not a number").wait_for()
    assert hatched(made, ".stage canvas") > 100
    stage = made.page.get_by_role("application")
    stage.focus()
    stage.press("ArrowUp")
    made.until_said("6 “")
    assert "not a number" not in made.said()
    stage.press("ArrowDown")
    made.until_said("not a number (scores of NaN or infinity)")
    stage.press("End")
    made.until_said("may not look")
    rows = list(csv.DictReader(io.StringIO(saved(made, "CSV"))))
    cells = {(int(row["query"]), int(row["key"])): row["mass"] for row in rows}
    assert {cells[7, key] for key in range(8)} == {"NaN"}
    assert {cells[7, key] for key in range(8, 20)} == {""}
    assert float(cells[6, 3]) >= 0
    picture = saved(made, "SVG")
    assert "NaN: not a number" in picture
    assert "<pattern" in picture
    made.page.get_by_role("button", name="table").click()
    made.page.locator("tr", has_text="not a number").wait_for()


def test_a_map_of_numbers_says_nothing_of_it(visit: Open, served: Serve) -> None:
    made = visit(served(broken(), at="view=map&heads=0&theme=light"))
    made.until_exact()
    assert hatched(made, ".stage canvas") == 0
    assert made.page.get_by_role("status").inner_text() == "exact"
    assert "not a number" not in saved(made, "SVG")


def test_the_atlas_shows_and_sorts_it(visit: Open, served: Serve) -> None:
    made = visit(served(broken(), at="view=atlas&sort=entropy&theme=light"))
    made.page.get_by_text("NaN: not a number").wait_for()
    first = made.page.locator("button.head").first
    made.until(lambda: "NaN" in first.inner_text())
    assert "head 1" in first.get_attribute("aria-label")
    assert hatched(made, "button.head canvas") > 5
    first.hover()
    made.until_said("some of it is not a number")
    rows = {row["head"]: row for row in csv.DictReader(io.StringIO(saved(made, "CSV")))}
    assert rows["1"]["entropy"] == "NaN"
    assert float(rows["0"]["entropy"]) > 0
    assert "NaN: not a number" in saved(made, "SVG")


@pytest.mark.parametrize("form", ["flow", "lines"])
def test_a_text_shows_it(form: str, visit: Open, served: Serve) -> None:
    made = visit(served(broken(), at=f"view=text&heads=1&form={form}&query=7"))
    made.until_said("looks at what is not a number")
    made.page.get_by_text("NaN: not a number").wait_for()
    marked = made.page.evaluate(
        "[...document.querySelectorAll('[data-place].broken')].map(each => Number(each.dataset.place))"
    )
    assert marked == (list(range(9)) if form == "flow" else [7, 8])


def test_a_picture_shows_it(visit: Open, served: Serve) -> None:
    made = visit(served(broken_picture(), at="view=picture&heads=0&query=12&theme=light"))
    made.until_said("what is not a number")
    assert hatched(made, ".stage canvas") > 100


def test_a_difference_to_it_is_none(visit: Open, served: Serve) -> None:
    made = visit(served(broken(), at="view=compare&heads=1&other=0_0_0_0"))
    made.page.get_by_text("how far apart they are is not a number").wait_for()


def test_averaged_heads_say_whose_entropy_is_shown(visit: Open, served: Serve) -> None:
    for at, said in (("view=map", True), ("view=map&heads=2", False)):
        made = visit(served(text(), at=at))
        made.until(lambda: "entropy" in saved(made, "SVG"))  # noqa: B023  # the margins come after the map
        assert ("heads’ mean" in saved(made, "SVG")) == said


def test_an_exported_map_is_not_called_exact(visit: Open, exported: Callable[..., str]) -> None:
    for example in (text(9), text(200)):
        made = visit(exported(example, at="view=map&heads=0"))
        state = made.page.get_by_role("status")
        made.until(lambda: re.search("levels|precision", state.inner_text()))  # noqa: B023
        assert "exact" not in state.inner_text()


def test_half_a_character_in_a_token_harms_nothing(visit: Open, served: Serve, exported: Any) -> None:
    tokens = ["\ud83d", "\ude00", "😀", *(f" {each}" for each in "abcdefgh")]
    for address in (served, exported):
        made = visit(address(text(11, tokens), at="view=text&form=flow"))
        shown = made.page.locator("[data-place]").all_inner_texts()
        assert shown[:4] == ["\ufffd", "\ufffd", "😀", "a"]
        assert "direction" in saved(made, "CSV")


def test_a_library_that_is_gone_is_said_and_asked_again(visit: Open) -> None:
    from regard.sight.explorer.serving import serve

    showing = serve([translation()], browser=False)
    made = visit(showing.url + "&view=map&heads=0")
    made.until_exact()
    cut = [True]
    made.page.route("**/api/**", lambda route: route.abort() if cut[0] else route.continue_())
    made.page.get_by_role("button", name="Head 1").click()
    alert = made.page.get_by_role("alert")
    alert.wait_for()
    assert "no longer answers" in alert.inner_text()
    made.page.get_by_role("button", name="Try again").click()
    made.page.get_by_role("button", name="Try again").wait_for()
    cut[0] = False
    made.page.get_by_role("button", name="Try again").click()
    alert.wait_for(state="detached")
    made.until_exact()
    showing.close()
    made.wrong = [each for each in made.wrong if "Failed to load resource" not in each]
