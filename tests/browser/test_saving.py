"""What is shown can be kept: as pixels, as vectors and as numbers."""

import csv
import io
import json
import math
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from browser.subjects import picture, text, translation, weights
from browser.visiting import Visit
from PIL import Image

from regard.sight.explorer.example import Change

pytestmark = pytest.mark.slow

Open = Callable[..., Visit]
Serve = Callable[..., str]


def saved(made: Visit, kind: str) -> bytes:
    with made.page.expect_download() as download:
        made.page.get_by_role("button", name=f"as {kind}").click()
    assert download.value.suggested_filename.endswith(f".{kind.lower()}")
    content: bytes = download.value.path().read_bytes()
    return content


@pytest.mark.parametrize("view", ["atlas", "map", "text", "decode", "compare"])
def test_pictures_of_each_view_are_pictures(view: str, visit: Open, served: Serve) -> None:
    made = visit(served(translation(), at=f"view={view}&layer=5&query=1"))
    made.until(lambda: made.page.locator("main canvas").count() > 0)
    made.page.wait_for_timeout(300)
    image = Image.open(io.BytesIO(saved(made, "PNG"))).convert("RGB")
    assert min(image.size) > 100
    assert len(image.getcolors(1 << 24)) > 8
    drawn = ElementTree.fromstring(saved(made, "SVG").decode())
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(drawn.iter())) > 8


def test_what_was_touched_is_saved_with_what_became_of_it(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=touch"))
    made.page.get_by_role("switch", name="encoder.0.attention, head 1").click()
    made.page.locator(".changed").wait_for()
    dropped = example.subject.look({}, [Change(kind="drop", layer="encoder.0.attention", heads=(1,))])
    held = json.loads(saved(made, "JSON"))
    assert held["changes"] == [{"kind": "drop", "layer": "encoder.0.attention", "heads": [1]}]
    assert held["answer"]["text"] == example.outputs[0].text
    assert held["touched"]["text"] == dropped.outputs[0].text
    assert held["touched"]["logprob"] == pytest.approx(dropped.entries[0].logprob, abs=1e-4)
    rows = list(csv.DictReader(io.StringIO(saved(made, "CSV").decode())))
    assert [row["text"] for row in rows if row["of"] == "change"] == [
        "encoder.0.attention: head 1 switched off"
    ]
    tokens = [row for row in rows if (row["of"], row["what"]) == ("touched", "token")]
    assert [row["text"] for row in tokens] == [step.token for step in dropped.outputs[0].steps]
    for row, step in zip(tokens, dropped.outputs[0].steps, strict=True):
        assert float(row["probability"]) == pytest.approx(step.probability, abs=1e-5)
    written = "".join(ElementTree.fromstring(saved(made, "SVG").decode()).itertext())
    assert "touched" in written
    assert "encoder.1.attention" in written
    assert min(Image.open(io.BytesIO(saved(made, "PNG"))).size) > 300


def test_the_drawing_of_a_decode_holds_its_hypotheses_and_its_beam(visit: Open, served: Serve) -> None:
    example = translation()
    made = visit(served(example, at="view=decode"))
    made.until_said("step 1 of")
    drawn = ElementTree.fromstring(saved(made, "SVG").decode())
    words = " ".join(each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text"))
    for entry in example.entries:
        assert entry.name in words
    assert "fell out" in words
    rows = list(csv.DictReader(io.StringIO(saved(made, "CSV").decode())))
    fates = [row["its fate"] for row in rows if row["step"] == "1" and row["its fate"]]
    assert fates == [branch.fate for branch in example.search[0]]


def test_a_picture_lit_is_saved_as_it_is_shown(visit: Open, served: Serve) -> None:
    made = visit(served(picture(), at="view=picture&query=12"))
    made.until_said("looks at")
    image = Image.open(io.BytesIO(saved(made, "PNG")))
    assert abs(image.width / image.height - 1) < 0.02


def test_the_numbers_of_a_map_are_the_weights(visit: Open, served: Serve) -> None:
    example = text(20)
    exact = weights(example, 1, 2)
    made = visit(served(example, at="view=map&layer=1&heads=2"))
    made.until_exact()
    rows = list(csv.DictReader(io.StringIO(saved(made, "CSV").decode())))
    assert len(rows) == 400
    for row in rows:
        want = exact[int(row["query"]), int(row["key"])].item()
        assert row["mass"] == "" if math.isnan(want) else float(row["mass"]) == pytest.approx(want, abs=1e-3)
    assert rows[21]["query token"] == " where"


def test_a_token_cannot_become_a_formula(visit: Open, served: Serve) -> None:
    tokens = ["=1+1", "+cmd", "-2", "@x", 'a"b,c', "plain"]
    made = visit(served(text(6, tokens), at="view=map&heads=0"))
    made.until_exact()
    rows = list(csv.DictReader(io.StringIO(saved(made, "CSV").decode())))
    assert [row["key token"] for row in rows[:6]] == ["'=1+1", "'+cmd", "'-2", "'@x", 'a"b,c', "plain"]
