from xml.etree import ElementTree

import pytest
import torch
from sight.pictures.drawn import SVG
from torch import nn

from regard import Call, MultiHeadAttention, RegardError, causal, weigh
from regard.sight.layer import Layer
from regard.sight.pictures.overview import html, overview, short
from regard.sight.seen import Seen
from regard.sight.watch import watch


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
