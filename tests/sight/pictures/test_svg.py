import base64
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import HOSTILE, SVG, elements, texts

from regard import heatmap
from regard.sight.pictures.colours import HATCH, HIDDEN, code, colour, shade
from regard.sight.pictures.png import SCALE, image, length
from regard.sight.pictures.scene import Box, Circle, Label, Pixels, Ribbon, Scene, Stroke, plain
from regard.sight.pictures.svg import document, embedded

WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
FEW = np.array([[[0, 0, 0], [255, 0, 0]]], dtype=np.uint8)


def scene(text):
    marks = [
        Label(1, 2, text, 12, anchor="right"),
        Box(x=1, y=2, width=3, height=4, fill=(1, 2, 3), edge=(4, 5, 6), dashed=True, said=text),
        Ribbon(start=(0, 0), end=(5, 5), thick=1, ink=(1, 2, 3), said=text),
        Stroke(places=((0, 0), (5, 5)), thick=1, ink=(1, 2, 3), dashes=(4, 2.5), said=text),
        Circle(x=1, y=2, radius=3, fill=(1, 2, 3), edge=(4, 5, 6)),
        Pixels(x=1, y=2, width=4, height=2, pixels=FEW, said=text),
    ]
    return Scene(width=20, height=10, title=text, marks=marks)


def test_every_mark_is_an_element_that_says_what_it_is():
    root = ElementTree.fromstring(document(scene("it")))
    names = [each.tag.removeprefix(SVG) for each in root][2:]
    assert names == ["rect", "path", "polyline", "circle", "image", "text"]  # text is over all others
    assert [each.findtext(f"{SVG}title") for each in root][2:] == ["it", "it", "it", None, "it", None]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_markup(text):
    drawn = document(scene(plain(text)))
    assert elements(drawn) == elements(document(scene("harmless")))
    assert texts(drawn) == [plain(text)]


def test_an_image_is_inside_the_file_with_its_pixels_apart():
    image = next(ElementTree.fromstring(document(scene("it"))).iter(f"{SVG}image"))
    held = Image.open(io.BytesIO(base64.b64decode(image.get("href").partition(",")[2])))
    assert held.size == (8, 4)  # two pixels to a unit
    assert (np.asarray(held)[:, :4] == 0).all()
    assert (np.asarray(held)[:, 4:] == (255, 0, 0)).all()
    assert embedded(FEW).startswith("data:image/png;base64,")


def parsed(*arguments, **options):
    return ElementTree.fromstring(document(heatmap(*arguments, **options).scene()))


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
    allowed = np.array([[True, False, False], [True, True, False]])
    names = [
        next(parsed(w, ["a", "b"], ["c", "d", "e"], allowed=allowed).iter(f"{SVG}pattern")).get("id")
        for w in (WEIGHTS, WEIGHTS**2)
    ]
    assert names[0] != names[1]


def test_title_note_and_tokens_are_written():
    assert {"Title", "Note", "a", "b", "c", "d", "e", "0", "0.9"} == set(
        texts(document(heatmap(WEIGHTS, ["a", "b"], ["c", "d", "e"], title="Title", note="Note").scene()))
    )


@pytest.mark.parametrize("token", [*HOSTILE, "<!ENTITY x SYSTEM 'file:///etc/passwd'>", "\ufffe\uffff"])
def test_hostile_tokens_stay_text(token):
    harmless = parsed(WEIGHTS, ["a", "b"], ["c", "d", "e"], title="t")
    root = parsed(WEIGHTS, [token, "b"], [token, "d", "e"], title=token)
    assert [each.tag for each in root.iter()] == [each.tag for each in harmless.iter()]
    assert [sorted(each.attrib) for each in root.iter()] == [sorted(each.attrib) for each in harmless.iter()]


def test_the_file_is_utf_8(tmp_path):
    heatmap(WEIGHTS, ["groß", "日本"], ["é", "—", "x"]).svg(tmp_path / "x.svg")
    assert {"groß", "日本", "é", "—"} <= set(texts((tmp_path / "x.svg").read_text("utf-8")))


def test_many_cells_are_one_image_inside_the_file_with_the_colours_of_the_weights():
    weights = np.random.default_rng(0).random((90, 120))
    allowed = np.tri(90, 120, k=30, dtype=bool)
    picture = heatmap(weights, ["q"] * 90, ["k"] * 120, allowed=allowed)
    root = ElementTree.fromstring(document(picture.scene()))
    held, _ = root.iter(f"{SVG}image")  # the cells and the scale
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
    assert document(picture.scene()) in shown
    assert "<script" not in shown
    assert ElementTree.fromstring(shown).tag == "div"


def test_text_is_as_wide_as_the_layout_and_the_png_take_it_to_be():
    words = Scene(width=300, height=30, title="", marks=[Label(10, 15, "Ελλάδα, été", 20)])
    (text,) = ElementTree.fromstring(document(words)).iter(f"{SVG}text")
    assert float(text.get("textLength")) == pytest.approx(length("Ελλάδα, été", 20), abs=0.01)
    assert text.get("lengthAdjust") == "spacingAndGlyphs"
    columns = np.flatnonzero((np.asarray(image(words)) < 200).any((0, 2))) / SCALE
    assert columns[-1] - 10 == pytest.approx(float(text.get("textLength")), abs=2)


def test_text_names_families_that_browsers_have():
    root = ElementTree.fromstring(document(scene("it")))
    assert root.get("font-family").startswith("DejaVu Sans, ")
    assert root.get("font-family").endswith(", sans-serif")


def test_turned_text_is_turned_around_its_place():
    turned = Scene(width=9, height=9, title="", marks=[Label(10, 15, "a", 20, angle=45)])
    (text,) = ElementTree.fromstring(document(turned)).iter(f"{SVG}text")
    assert text.get("transform") == "rotate(-45 10.00 15.00)"


def test_a_dash_turns_each_corner_of_an_outline():
    box = Box(x=0, y=0, width=30, height=30, edge=(1, 2, 3), dashed=True)
    drawn, gap = box.dashes
    assert 30 / (drawn + gap) == pytest.approx(round(30 / (drawn + gap)))
    root = ElementTree.fromstring(document(Scene(width=9, height=9, title="", marks=[box])))
    outline = list(root.iter(f"{SVG}rect"))[-1]
    assert float(outline.get("stroke-dashoffset")) == pytest.approx(drawn / 2, abs=0.01)
