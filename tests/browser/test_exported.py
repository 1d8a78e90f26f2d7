"""An exported file is the explorer without the library: it opens from the disk and computes for itself."""

import re
from collections.abc import Callable

import pytest
from browser.subjects import picture, sound, text, translation, weights
from browser.visiting import Visit

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Export = Callable[..., str]


def test_every_view_but_touch_is_there(visit: Open, exported: Export) -> None:
    made = visit(exported(translation()))
    assert made.page.get_by_role("tab").all_inner_texts() == ["Atlas", "Map", "Text", "Decode", "Compare"]
    for tab in made.page.get_by_role("tab").all():
        tab.click()
        made.settle()
    assert made.page.get_by_role("alert").count() == 0
    assert (
        "half-precision" in made.page.locator("footer").inner_text()
        or "256 levels" in made.page.locator("footer").inner_text()
    )


def test_its_small_maps_and_measures_are_those_of_the_model(visit: Open, exported: Export) -> None:
    example = text()
    made = visit(exported(example, at="sort=sink"))
    heads = made.page.locator("button.head")
    made.until(lambda: heads.count() == 8 and "…" not in "".join(heads.all_inner_texts()))
    numbers = [float(each.split("\n")[-1]) for each in heads.all_inner_texts()]
    exact = [weights(example, layer, head).nan_to_num() for layer in range(2) for head in range(4)]
    want = sorted((each[:, 0].mean().item() for each in exact), reverse=True)
    assert numbers == pytest.approx(want, rel=5e-3, abs=6e-4)


def test_rows_and_columns_are_computed_in_the_page(visit: Open, exported: Export) -> None:
    example = text(30)
    exact = weights(example, 1, 2).nan_to_num()
    made = visit(exported(example, at="view=text&layer=1&heads=2&form=flow&query=12"))
    said = made.until_said("is looked at by").split("looked at by")
    for part, row in zip(said, (exact[12], exact[:, 12]), strict=True):
        numbers = [float(each) for each in re.findall(r"\b(?:0\.0*[1-9]\d{2}|1\.000)", part)]
        best = [each for each in row.topk(5).values.tolist() if each >= 1e-3]
        assert numbers[: len(best)] == pytest.approx(best, rel=0.02, abs=3e-3)


@pytest.mark.parametrize("made_of", [picture, sound])
def test_pictures_and_sounds_are_in_it(made_of: Callable, visit: Open, exported: Export) -> None:
    example = made_of()
    made = visit(exported(example, at="view=picture&layer=1&heads=0&query=5"))
    said = made.until_said("looks at:")
    first = float(re.search(r" ((?:0\.0*[1-9]\d{2}|1\.000))", said.split(":", 1)[1])[1])
    assert first == pytest.approx(weights(example, 1, 0)[5].max().item(), rel=0.02, abs=3e-3)


def test_several_exhibits_are_compared_in_one_file(visit: Open, exported: Export) -> None:
    made = visit(exported(text(20), text(20), at="view=compare"))
    made.page.get_by_text("of their mass differently").wait_for()
    assert made.page.get_by_label("Exhibit").count() == 2
