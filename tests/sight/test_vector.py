from xml.etree import ElementTree

import numpy as np
import pytest

from regard.sight.colours import code, colour
from regard.sight.heatmap import heatmap
from regard.sight.vector import write

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
