import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from rich.cells import cell_len
from sight.pictures.drawn import HOSTILE, SVG, elements, printed, texts
from torch import nn

from regard import Call, MultiHeadAttention, RegardError, causal, weigh
from regard.sight.layer import Layer
from regard.sight.pictures.atlas import atlas, html, overview, short
from regard.sight.pictures.colours import colour
from regard.sight.pictures.png import SCALE, image
from regard.sight.pictures.scene import Pixels
from regard.sight.pictures.svg import document
from regard.sight.seen import Seen
from regard.sight.watch import watch

MAPS = [np.random.default_rng(layer).random((3, 4, 5)) for layer in range(2)]


def tiles(picture):
    """The place of each map, without the ramp of the legend."""
    return [mark for mark in picture.scene().marks if isinstance(mark, Pixels)][:-1]


@pytest.mark.parametrize("top", [None, 2.0])
def test_every_cell_of_every_map_has_the_colour_of_its_weight(top):
    picture = atlas(MAPS, top=top)
    page, places = image(picture.scene()), tiles(picture)
    for index, (layer, head) in enumerate(np.ndindex(2, 3)):
        values = MAPS[layer][head]
        for i, j in np.ndindex(4, 5):
            x = (places[index].x + (j + 0.5) * places[index].width / 5) * SCALE
            y = (places[index].y + (i + 0.5) * places[index].height / 4) * SCALE
            assert page.getpixel((round(x), round(y))) == colour(values[i, j] / (top or values.max()))


def test_layers_go_down_and_heads_across():
    places = tiles(atlas(MAPS))
    assert len({mark.y for mark in places}) == 2
    assert [mark.x for mark in places[:3]] == sorted({mark.x for mark in places})


def test_names_and_numbers_are_written():
    picture = atlas(
        MAPS, layers=["first", "last"], heads=["x", "y", "z"], numbers=[[1, 2, 3], [0.25, 5, 6]], title="T"
    )
    found = texts(document(picture.scene()))
    assert {"first", "last", "x", "y", "z", "1.00", "2.00", "3.00", "0.25", "5.00", "6.00", "T"} <= set(found)
    assert any("entropy" in text for text in found)
    assert not any("entropy" in text for text in texts(document(atlas(MAPS).scene())))


def test_layers_may_differ_in_heads_and_in_size():
    picture = atlas([torch.rand(2, 3, 3), torch.rand(4, 1, 9)])
    assert len(tiles(picture)) == 6
    assert picture.heads == ("0", "1", "2", "3")


def test_the_largest_page_is_bearable():
    scene = atlas([np.random.rand(32, 24, 24)] * 24, numbers=[np.ones(32)] * 24).scene()
    assert scene.width < 1400
    assert scene.height < 1600


def test_nothing_is_cut_off_at_the_edges():
    picture = atlas(
        MAPS, layers=["a long name of a layer"] * 2, title="a title that is longer than the maps are wide"
    )
    page = np.asarray(image(picture.scene()))
    for edge in (page[:3], page[-3:], page[:, :3], page[:, -3:]):
        assert (edge == 255).all()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(text, tmp_path):
    def drawn(name):
        picture = atlas(MAPS, layers=[name, "b"], heads=[name, "d", "e"], measure=name, title=name, note=name)
        picture.svg(tmp_path / "x.svg")
        return elements((tmp_path / "x.svg").read_text())

    assert drawn(text) == drawn("harmless")


def test_the_png_has_the_size_of_the_scene(tmp_path):
    atlas(MAPS).png(tmp_path / "x.png")
    scene = atlas(MAPS).scene()
    assert Image.open(tmp_path / "x.png").size == (SCALE * scene.width, SCALE * scene.height)


@pytest.mark.parametrize("width", [30, 80, 200])
@pytest.mark.parametrize("system", [None, "truecolor"])
def test_any_number_of_heads_fits_the_console(width, system):
    maps = [np.random.rand(32, 24, 24)] * 2
    picture = atlas(maps, layers=["one", "two"], numbers=[np.arange(32) + 0.5] * 2)
    output = re.sub(r"\x1b\[[\d;]*m", "", printed(picture.terminal(), width=width, system=system))
    assert max(map(cell_len, output.splitlines())) <= width
    assert {"one", "two", "31", "31.50"[:4]} <= set(output.split())


def test_the_terminal_puts_two_cells_into_a_character():
    values = np.array([[[1.0, 0.0], [0.0, 0.5]]])
    output = printed(atlas([values]).terminal(), system="truecolor")
    pairs = re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m▀", output)
    assert [tuple(map(int, pair)) for pair in pairs] == [
        (*colour(1.0), *colour(0.0)),
        (*colour(0.0), *colour(0.5)),
    ]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"maps": []}, ["0 layers"]),
        ({"maps": [np.ones((4, 5))]}, ["(4, 5)"]),
        ({"maps": [np.ones((65, 2, 2))]}, ["(65, 2, 2)", "64"]),
        ({"maps": [np.ones((1, 2, 513))]}, ["513", "512"]),
        ({"maps": [np.full((1, 2, 2), np.nan)]}, ["nan"]),
        ({"maps": MAPS, "layers": ["a"]}, ["1 names", "2 layers"]),
        ({"maps": MAPS, "heads": ["a"]}, ["1 names", "3 heads"]),
        ({"maps": MAPS, "numbers": [[1, 2], [1, 2]]}, ["(2,)", "(3, 4, 5)"]),
        ({"maps": MAPS, "top": float("nan")}, ["top=nan"]),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(as_a_user, arguments, named):
    with pytest.raises(RegardError) as error:
        atlas(**arguments)
    assert all(name in str(error.value) for name in named), str(error.value)


def looked(layers=2, heads=3, length=5, batch=2):
    return Seen(
        [
            Layer.of(f"model.layers.{n}.attention", Call(*torch.randn(2, batch, heads, length, 4), causal()))
            for n in range(layers)
        ]
    )


def test_a_map_is_the_weights_of_its_call_and_the_number_their_entropy():
    seen = looked()
    picture = overview(seen, entry=1)
    for index, layer in enumerate(seen):
        weights = weigh(layer.call).double()[1]
        torch.testing.assert_close(torch.from_numpy(picture.maps[index]), weights, atol=1e-6, rtol=0)
        entropy = -torch.xlogy(weights, weights).sum(-1).mean(-1)
        torch.testing.assert_close(torch.tensor(picture.numbers[index]).double(), entropy, atol=1e-5, rtol=0)


def test_long_calls_are_pooled_and_short_ones_are_not():
    picture = overview(looked(length=40), cells=8)
    assert picture.maps[0].shape == (3, 8, 8)
    assert overview(looked(length=5), cells=8).maps[0].shape == (3, 5, 5)


def test_one_layer_and_calls_without_batch_or_heads_are_shown():
    assert overview(looked()[0]).maps[0].shape == (3, 5, 5)
    assert overview(Layer.of("x", Call(*torch.randn(2, 3, 5, 4)))).maps[0].shape == (3, 5, 5)
    assert overview(Layer.of("x", Call(*torch.randn(2, 5, 4)))).maps[0].shape == (1, 5, 5)


def test_a_watched_model_is_shown():
    model = nn.ModuleList(MultiHeadAttention(12, 3) for _ in range(2))
    with watch(model) as seen:
        for layer in model:
            layer(torch.randn(1, 7, 12))
    assert overview(seen).layers == ("0", "1")
    root = ElementTree.fromstring(html(seen))
    assert len(list(root.iter(f"{SVG}image"))) == 2 * 3 + 1
    assert not list(root.iter("script"))


def test_what_does_not_fit_a_page_is_said_to_be_left_out():
    picture = overview(looked(layers=50, heads=65, batch=1, length=2))
    assert (len(picture.maps), len(picture.heads)) == (48, 64)
    assert "48 of 50 calls" in picture.note
    assert "64 of 65 heads" in picture.note


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.0.self", "a.1.self"], ["0", "1"]),
        (["encoder.0.self", "decoder.0.cross"], ["encoder.0.self", "decoder.0.cross"]),
        (["m.attention", "m.attention"], ["attention", "attention"]),
        (["x"], ["x"]),
        (["a", "a.b"], ["a", "a.b"]),
    ],
)
def test_names_lose_what_they_share(names, expected):
    assert short(names) == expected


def test_a_notebook_shows_names_where_there_is_no_map():
    layer = Layer(name="<script>", call=None, shape=(1, 1, 2, 2))
    shown = html(Seen([layer]))
    assert shown.startswith("<pre>")
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "no attention call" in html(Seen())


def test_an_entry_that_is_not_there_is_refused():
    with pytest.raises(RegardError, match=r"entry=2.*batch of 2"):
        overview(looked(), entry=2)
