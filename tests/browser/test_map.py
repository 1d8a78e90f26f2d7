"""The map shows the weights: in words, in colours, and at every zoom."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from browser.subjects import text, weights
from browser.visiting import Visit

from regard.sight.pictures.colours import shade

Open = Callable[..., Visit]
Serve = Callable[..., str]
PAIR = re.compile(r"(\d+) “.*?” → (\d+) “.*?”: (?:weight (?:about )?([\d.e−]+)|(may not look))")


def pointed(made: Visit, x: float, y: float) -> tuple[int, int, float]:
    """The query, the key and the weight the page names at a point."""
    made.page.mouse.move(x, y)
    made.settle()
    heard: list[re.Match[str] | None] = [None]

    def told() -> bool:  # what was said before may go on its way first, so what matched is what is read
        heard[0] = PAIR.search(made.said())
        return heard[0] is not None

    made.until(told)
    (found,) = heard
    assert found
    return int(found[1]), int(found[2]), math.nan if found[4] else float(found[3].replace("−", "-"))


@pytest.mark.parametrize("how", ["served", "exported"])
def test_what_it_reads_out_and_how_it_colours_are_the_weights(
    how: str, visit: Open, request: pytest.FixtureRequest
) -> None:
    example = text()
    exact = weights(example, 1, 2)
    made = visit(request.getfixturevalue(how)(example, at="view=map&layer=1&heads=2&theme=light"))
    made.until_exact()
    box = made.page.get_by_role("application").bounding_box()
    seen = set()
    for across in (0.13, 0.2, 0.3, 0.42):
        for down in (0.3, 0.45, 0.6, 0.77):
            x, y = box["x"] + across * box["width"], box["y"] + down * box["height"]
            query, key, weight = pointed(made, x, y)
            seen.add((query, key))
            want = exact[query, key].item()
            assert weight == pytest.approx(want, abs=2e-3, nan_ok=True)
            made.page.mouse.move(5, 5)
            made.settle()
            colour = made.page.evaluate(
                """([x, y]) => { const canvas = document.querySelector('[role=application] canvas');
                const box = canvas.getBoundingClientRect();
                return [...canvas.getContext('2d').getImageData(x - box.left, y - box.top, 1, 1).data] }""",
                [x, y],
            )[:3]
            if colour == [255, 255, 255]:  # on a line between cells
                continue
            top = float(made.page.locator(".legend span").last.inner_text())
            shown = [233, 231, 236] if math.isnan(want) else shade(math.sqrt(want / top)).tolist()
            assert np.abs(np.array(colour) - shown).max() <= 6, (query, key, want, top)
    assert len(seen) == 16


def test_zooming_in_reaches_single_tokens_and_their_names(visit: Open, served: Serve) -> None:
    example = text(700)
    exact = weights(example, 0, 1)
    made = visit(served(example, at="view=map&heads=1"))
    made.until_exact()
    box = made.page.get_by_role("application").bounding_box()
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.6 * box["height"]
    made.page.mouse.move(x, y)
    assert "mass" in made.until_said("→")
    assert "–" in made.said()
    for _ in range(12):
        made.page.mouse.wheel(0, -240)
    made.until(lambda: "at" in made.state())
    made.until_exact()
    query, key, weight = pointed(made, x + 1, y)
    assert weight == pytest.approx(exact[query, key].item(), abs=2e-3, nan_ok=True)


def test_a_drag_moves_the_map_and_a_click_chooses_a_cell(visit: Open, served: Serve) -> None:
    made = visit(served(text(700), at="view=map&heads=1&at=350.0_350.0_20"))
    made.until_exact()
    box = made.page.get_by_role("application").bounding_box()
    x, y = box["x"] + 200, box["y"] + 300
    before = pointed(made, x, y)
    made.page.mouse.down()
    made.page.mouse.move(x + 60, y + 45, steps=4)
    made.page.mouse.up()
    made.until(lambda: not made.state()["at"].startswith("350.0_350.0"))
    assert "query" not in made.state()
    assert pointed(made, x + 60, y + 45)[:2] == before[:2]  # what was taken hold of came along
    made.page.mouse.click(x, y)
    query, key, _ = pointed(made, x, y)
    assert (made.state()["query"], made.state()["key"]) == (str(query), str(key))


def test_the_margins_are_the_entropy_and_the_received_mass(visit: Open, served: Serve) -> None:
    example = text(24)
    exact = weights(example, 0, 0).nan_to_num()
    made = visit(served(example, at="view=map&heads=0"))
    made.until_exact()

    def said() -> list[float]:
        with made.page.expect_download() as download:
            made.page.get_by_role("button", name="as SVG").click()
        return [float(each) for each in re.findall(r"≤ ([\d.]+)", download.value.path().read_text())]

    made.until(lambda: len(said()) == 2)  # margins come after the map
    entropy = (-exact * exact.clamp_min(1e-30).log()).sum(-1).max().item()
    received = exact.sum(0).max().item()
    assert said() == pytest.approx([entropy, received], rel=2e-3)


def test_the_table_names_the_heaviest_keys(visit: Open, served: Serve) -> None:
    example = text(20)
    exact = weights(example, 1, 3).nan_to_num()
    made = visit(served(example, at="view=map&layer=1&heads=3"))
    made.page.get_by_role("button", name="table").click()
    rows = made.page.locator(".table tbody tr")
    rows.nth(19).wait_for()
    for query in (0, 7, 19):
        told = rows.nth(query).inner_text()
        numbers = [float(each) for each in re.findall(r"0\.0*[1-9]\d{2}|1\.000", told)]
        best = [each for each in exact[query].topk(5).values.tolist() if each >= 1e-3]
        assert numbers == pytest.approx(best, rel=2e-3, abs=6e-4)


def test_a_long_text_is_first_approximate_and_says_so(visit: Open, served: Serve) -> None:
    made = visit(served(text(4096), at="view=map&layer=1&heads=1"))
    made.until_exact()
    marks = made.page.evaluate("performance.getEntriesByType('mark').map(mark => mark.name)")
    assert marks.index("regard-painted") <= marks.index("regard-exact")
