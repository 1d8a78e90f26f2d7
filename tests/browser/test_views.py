"""Every view, of everything that can be looked at."""

import re
from collections.abc import Callable

import pytest
from browser.subjects import picture, senses, sound, text, translation, weights
from browser.visiting import Visit

from regard.sight.explorer.example import Example

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Serve = Callable[..., str]
SUBJECTS: dict[str, Callable[[], Example]] = {
    "translation": translation,
    "text": lambda: text(4096),
    "image": picture,
    "sound": sound,
    "senses": senses,
}
VIEWS = {
    "translation": ["Atlas", "Map", "Text", "Decode", "Touch", "Compare"],
    "text": ["Atlas", "Map", "Text", "Compare"],
    "image": ["Atlas", "Map", "Picture", "Compare"],
    "sound": ["Atlas", "Map", "Picture", "Compare"],
    "senses": ["Atlas", "Map", "Picture", "Touch", "Compare"],
}


def painted(made: Visit) -> bool:
    """Whether some canvas of the view has more than one colour on it."""
    return bool(
        made.page.evaluate(
            """() => [...document.querySelectorAll('main canvas')].some(canvas => {
              if (!canvas.width || !canvas.height) return false;
              const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
              copy.drawImage(canvas, 0, 0);
              const pixels = new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
              return new Set(pixels).size > 8;
            })"""
        )
    )


@pytest.mark.parametrize("kind", SUBJECTS)
def test_each_view_is_drawn(kind: str, visit: Open, served: Serve) -> None:
    made = visit(served(SUBJECTS[kind]()))
    tabs = made.page.get_by_role("tab")
    assert tabs.all_inner_texts() == VIEWS[kind]
    for name in VIEWS[kind]:
        made.page.get_by_role("tab", name=name).click()
        if name == "Touch":
            made.page.get_by_role("switch").first.wait_for()
        elif name == "Text" and kind == "text":
            made.page.locator("[data-place]").nth(4095).wait_for(state="attached")
        else:
            made.until(lambda: painted(made))
        assert made.state()["view"] == name.lower()


def test_the_atlas_has_every_head_and_is_sorted_by_what_is_measured(visit: Open, served: Serve) -> None:
    example = text()
    made = visit(served(example))
    heads = made.page.locator("button.head")
    assert heads.count() == 8
    for sort in ("entropy", "sink"):
        made.page.get_by_label("sorted by").select_option(sort)
        made.until(lambda: "…" not in "".join(heads.all_inner_texts()))
        said = [re.search(r"\.(\d)\n([\d.e−]+)", each) for each in heads.all_inner_texts()]
        numbers = [float(each[2].replace("−", "-")) for each in said if each]
        assert numbers == sorted(numbers, reverse=True)
        exact = [weights(example, layer, head).nan_to_num() for layer in range(2) for head in range(4)]
        if sort == "entropy":
            want = [(-each * each.clamp_min(1e-30).log()).sum(-1).mean().item() for each in exact]
        else:
            want = [each[:, 0].mean().item() for each in exact]
        assert numbers == pytest.approx(sorted(want, reverse=True), rel=2e-3, abs=6e-4)
    heads.first.click()
    assert made.state()["view"] == "map"
    assert len(made.state()["heads"]) == 1


def test_pointing_at_a_word_names_what_it_looks_at_and_who_looks_at_it(visit: Open, served: Serve) -> None:
    example = text(30)
    exact = weights(example, 1, 2).nan_to_num()
    made = visit(served(example, at="view=text&layer=1&heads=2&form=flow"))
    word = made.page.locator("[data-place='12']")
    word.hover()
    said = made.until_said("is looked at by")
    first, second = (
        [float(each) for each in re.findall(r"\b(?:0\.0*[1-9]\d{2}|1\.000)", part)]
        for part in said.split("looked at by")
    )
    large = lambda row: [each for each in row.topk(5).values.tolist() if each >= 1e-3]  # noqa: E731
    assert first == pytest.approx(large(exact[12]), rel=2e-3, abs=6e-4)
    assert second == pytest.approx(large(exact[:, 12]), rel=2e-3, abs=6e-4)
    darkest = made.page.evaluate(
        """() => { const light = element => getComputedStyle(element).backgroundColor.match(/\\d+/g).slice(0, 3)
             .reduce((sum, each) => sum + +each, 0);
           return [...document.querySelectorAll('[data-place]')].filter(each => each.style.backgroundColor)
             .sort((one, other) => light(one) - light(other))[0].dataset.place }"""
    )
    assert int(darkest) == exact[12].argmax().item()


def test_lines_join_the_words_of_a_translation(visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at="view=text&layer=5"))
    made.until(lambda: painted(made))
    made.page.get_by_role("group", name="looks", exact=False).first.wait_for()
    made.page.locator("[data-side=query][data-place='1']").hover()
    assert "looks at" in made.until_said("looks at")
    made.page.locator("[data-side=key][data-place='2']").click()
    assert made.state()["key"] == "2"
    assert "is looked at by" in made.until_said("is looked at by")


@pytest.mark.parametrize("kind", ["image", "sound"])
def test_a_patch_that_is_clicked_lights_what_it_looks_at(kind: str, visit: Open, served: Serve) -> None:
    example = SUBJECTS[kind]()
    exact = weights(example, 1, 0)
    made = visit(served(example, at="view=picture&layer=1&heads=0"))
    made.until(lambda: painted(made))
    box = made.page.get_by_role("application").bounding_box()
    made.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 40)
    chosen = int(made.state()["query"])
    said = made.until_said("looks at:")
    numbers = [float(each) for each in re.findall(r" ((?:0\.0*[1-9]\d{2}|1\.000))", said.split(":", 1)[1])]
    assert numbers[0] == pytest.approx(exact[chosen].max().item(), rel=2e-3, abs=6e-4)


def test_decoding_is_stepped_through_and_every_hypothesis_has_its_own(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=decode"))
    steps = example.outputs[0].steps
    assert made.page.locator("button.step").count() == len(steps)
    made.until_said("step 1 of")
    made.page.keyboard.press("ArrowRight")
    made.until_said("step 2 of")
    shown = made.page.get_by_label("Alternatives at step 2").inner_text()
    for token, probability in steps[1].alternatives[:3]:
        assert token in shown
        assert f"{100 * probability:.0f} %" in shown or f"{100 * probability:.1f} %" in shown
    made.page.keyboard.press("ArrowDown")
    made.until(lambda: made.state().get("entry") == "1")
    assert made.page.locator("button.step").count() == len(example.outputs[1].steps)


def test_one_sense_asks_another_from_where_it_is_clicked(visit: Open, served: Serve) -> None:
    example = senses()
    names = [panel.layer.name for panel in example.panels]
    layer = names.index("first_asks.blocks.0.cross")
    exact = weights(example, layer, 1)
    made = visit(served(example, at=f"view=picture&layer={layer}&heads=1"))
    made.until(lambda: painted(made))
    box = made.page.locator(".asking canvas").bounding_box()
    made.page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 0.4 * box["height"])
    assert made.state()["query"] == "6"  # the second row of four, the third in it
    said = made.until_said("What patch 1,2 looks at in the sound")
    numbers = [float(each) for each in re.findall(r"s ((?:0\.\d+|1\.000))", said.split(":", 1)[1])]
    assert numbers[0] == pytest.approx(exact[6].max().item(), rel=2e-3, abs=6e-4)
    made.page.get_by_role("application").focus()
    made.page.keyboard.press("ArrowDown")
    assert made.state()["query"] == "10"


def test_the_beam_is_shown_with_what_fell_out_of_it(visit: Open, served: Serve) -> None:
    example = translation()
    assert example.search is not None
    made = visit(served(example, at="view=decode&step=1"))
    table = made.page.get_by_role("table", name="The beam at step 2")
    rows = table.locator("tbody tr")
    assert rows.count() == len(example.search[1])
    for row, branch in zip(rows.all(), example.search[1], strict=True):
        assert row.get_attribute("data-fate") == branch.fate
        shown = row.inner_text()
        assert branch.text in shown
        assert ("fell out" in shown) == (branch.fate == "fell")
        number = float(re.search(r"[−-]?\d+\.\d+", shown)[0].replace("−", "-"))
        assert number == pytest.approx(branch.logprob, rel=2e-3)
    lead = next(branch.leads[-1] for branch in example.search[1] if branch.leads and branch.leads[-1])
    table.get_by_role("button", name=f"Hypothesis {lead + 1}").click()
    assert made.state()["entry"] == str(lead)


def test_two_heads_are_compared_and_their_difference_is_named(visit: Open, served: Serve) -> None:
    example = text(30)
    one, other = (weights(example, 1, head).nan_to_num() for head in (1, 3))
    made = visit(served(example, at="view=compare&layer=1&heads=1&other=0_1_0_3"))
    told = made.page.get_by_text("of their mass differently")
    told.wait_for()
    apart = 100 * (one - other).abs().sum(-1).mean().item() / 2
    made.until(lambda: abs(int(re.search(r"(\d+) %", told.inner_text())[1]) - apart) <= 0.6)
    assert made.page.get_by_role("application").count() == 3
