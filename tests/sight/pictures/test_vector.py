import base64
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from regard.sight.pictures.colours import HATCH, HIDDEN, code, colour, shade
from regard.sight.pictures.heatmap import heatmap
from regard.sight.pictures.vector import write

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
HOSTILE = [
    "</text><script>alert(1)</script>",
    '" onload="alert(1)',
    "&lt;b&gt;",
    "]]><!--",
    "<!ENTITY x SYSTEM 'file:///etc/passwd'>",
    "\x00\x1b[31m",
    "\ud800",
    "\ufffe\uffff",
]


def parsed(*arguments, **options):
    return ElementTree.fromstring(write(heatmap(*arguments, **options)))


def texts(root):
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_each_cell_is_a_rectangle_with_the_colour_of_its_weight():
    root = parsed(WEIGHTS, ["a", "b"], ["c", "d", "e"])
    cells = [each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert [cell.get("fill") for cell in cells] == [code(colour(weight / 0.9)) for weight in WEIGHTS.ravel()]
    assert cells[5].findtext(f"{SVG}title") == "b → e: 0.9"


def test_hidden_cells_are_hatched_with_a_pattern_of_this_file():
    allowed = np.array([[True, False, False], [True, True, False]])
    root = parsed(WEIGHTS, ["a", "b"], ["c", "d", "e"], allowed=allowed)
    pattern = next(root.iter(f"{SVG}pattern")).get("id")
    cells = [each for each in root.iter(f"{SVG}rect") if each.find(f"{SVG}title") is not None]
    assert [cell.get("fill") == f"url(#{pattern})" for cell in cells] == (~allowed).ravel().tolist()


def test_two_files_on_one_page_do_not_share_names():
    names = [
        next(parsed(w, ["a", "b"], ["c", "d", "e"]).iter(f"{SVG}pattern")).get("id")
        for w in (WEIGHTS, WEIGHTS / 2)
    ]
    assert names[0] != names[1]


def test_title_note_and_tokens_are_written():
    assert {"Title", "Note", "a", "b", "c", "d", "e", "0", "0.9"} == set(
        texts(parsed(WEIGHTS, ["a", "b"], ["c", "d", "e"], title="Title", note="Note"))
    )


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_stay_text(token):
    harmless = parsed(WEIGHTS, ["a", "b"], ["c", "d", "e"], title="t")
    root = parsed(WEIGHTS, [token, "b"], [token, "d", "e"], title=token)
    assert [each.tag for each in root.iter()] == [each.tag for each in harmless.iter()]
    assert [sorted(each.attrib) for each in root.iter()] == [sorted(each.attrib) for each in harmless.iter()]


def test_the_file_is_utf_8(tmp_path):
    heatmap(WEIGHTS, ["groß", "日本"], ["é", "—", "x"]).svg(tmp_path / "x.svg")
    assert {"groß", "日本", "é", "—"} <= set(texts(ElementTree.parse(tmp_path / "x.svg")))


def test_many_cells_are_one_image_inside_the_file_with_the_colours_of_the_weights():
    weights = np.random.default_rng(0).random((90, 120))
    allowed = np.tri(90, 120, k=30, dtype=bool)
    picture = heatmap(weights, ["q"] * 90, ["k"] * 120, allowed=allowed)
    root = ElementTree.fromstring(write(picture))
    (held,) = root.iter(f"{SVG}image")
    kind, _, text = held.get("href").partition(",")
    assert kind == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))
    side = pixels.shape[0] // 90
    assert pixels.shape == (90 * side, 120 * side, 3)
    middles = pixels[side // 2 :: side, side // 2 :: side]
    assert (middles[allowed] == shade(weights / weights.max())[allowed]).all()
    assert {tuple(spot) for spot in middles[~allowed].tolist()} <= {HIDDEN, HATCH}
    assert len(list(root.iter(f"{SVG}rect"))) < 10


def test_a_notebook_shows_the_drawing_itself():
    picture = heatmap(WEIGHTS, ["</div><script>", "b"], ["c", "d", "e"])
    shown = picture._repr_html_()
    assert write(picture) in shown
    assert "<script" not in shown
    assert ElementTree.fromstring(shown).tag == "div"
