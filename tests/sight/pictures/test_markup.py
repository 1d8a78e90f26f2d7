import base64
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import HOSTILE, SVG, elements, texts

from regard.sight.pictures.labels import plain
from regard.sight.pictures.markup import document, embedded, inline
from regard.sight.pictures.scene import Box, Dot, Pixels, Ribbon, Scene, Stroke, Words

FEW = np.array([[[0, 0, 0], [255, 0, 0]]], dtype=np.uint8)


def scene(text):
    marks = [
        Words(x=1, y=2, text=text, size=12, anchor="right"),
        Box(x=1, y=2, width=3, height=4, fill=(1, 2, 3), edge=(4, 5, 6), dashed=True, said=text),
        Ribbon(start=(0, 0), end=(5, 5), thick=1, ink=(1, 2, 3), said=text),
        Stroke(places=((0, 0), (5, 5)), thick=1, ink=(1, 2, 3), dashes=(4, 2.5), said=text),
        Dot(x=1, y=2, radius=3, fill=(1, 2, 3), edge=(4, 5, 6)),
        Pixels(x=1, y=2, width=4, height=2, pixels=FEW, said=text),
    ]
    return Scene(width=20, height=10, title=text, marks=marks)


def test_every_mark_is_an_element_that_says_what_it_is():
    root = ElementTree.fromstring(document(scene("it")))
    names = [each.tag.removeprefix(SVG) for each in root][2:]
    assert names == ["text", "rect", "path", "polyline", "circle", "image"]
    assert [each.findtext(f"{SVG}title") for each in root][2:] == [None, "it", "it", "it", None, "it"]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_markup(text):
    drawn = inline(document(scene(plain(text))))
    assert elements(drawn) == elements(inline(document(scene("harmless"))))
    assert texts(drawn) == [plain(text)]


def test_an_image_is_inside_the_file_with_its_pixels_apart():
    image = next(ElementTree.fromstring(document(scene("it"))).iter(f"{SVG}image"))
    held = Image.open(io.BytesIO(base64.b64decode(image.get("href").partition(",")[2])))
    assert held.size == (8, 4)  # two pixels to a unit
    assert (np.asarray(held)[:, :4] == 0).all()
    assert (np.asarray(held)[:, 4:] == (255, 0, 0)).all()
    assert embedded(FEW).startswith("data:image/png;base64,")
