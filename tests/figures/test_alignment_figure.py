import json

import numpy as np
import pytest
import torch
from sight.pictures.drawn import printed

import regard
from regard import RegardError
from regard.data.numbers import draw_numbers, english, french, number_links
from regard.figures import alignment_figure, number_translators
from regard.figures.alignment_figure import SCORES, alignment
from regard.figures.figure_result import silent
from regard.figures.number_translators import number_translator
from regard.sight.pictures.scene import Label
from regard.sight.translation_picture import looks_of


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(number_translators, "_TRAINED", 300)
    monkeypatch.setattr(alignment_figure, "ASKED", 20)


def test_the_weights_are_those_of_each_number_alone_with_its_end():
    settings = ["model.attention=cosine", "model.width=8", "model.embedding_width=6"]
    model = number_translator(
        "it", "numbers-recurrent", settings, largest=999, seed=1, steps=2, progress=silent
    )
    numbers = [171, 3, 900]
    for number, weights in zip(numbers, alignment_figure._weights(model, numbers), strict=True):
        alone = looks_of(model.translator, english(number), french(number))
        torch.testing.assert_close(weights[:-1, :-1].double(), alone.weights, rtol=0, atol=1e-5)
        torch.testing.assert_close(weights[:-1, -1].double(), alone.end, rtol=0, atol=1e-5)
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("off", "right", "ends"), [(0, 1.0, 0.0), (1, 0.0, 5 / 7), (None, 0.0, 1.0)])
def test_a_word_is_right_where_its_largest_weight_is_on_a_word_that_it_translates(
    monkeypatch, off, right, ends
):
    """Against weights made by hand: on the right words, on the words after them, on the end token."""

    def made(model, numbers):
        found = []
        for number in numbers:
            links, count = number_links(number), len(english(number).split())
            weights = torch.full((len(links) + 1, count + 1), 0.01)
            for row, each in enumerate(links):
                weights[row, count if off is None else min(max(each) + off, count)] = 0.9
            found.append(weights)
        return found

    monkeypatch.setattr(alignment_figure, "_weights", made)
    told = alignment_figure._looks("dot", 171, [171, 20, 1001], 1, 1, silent)
    assert told.right == right
    assert told.ends == pytest.approx(ends)


@pytest.mark.usefixtures("as_a_user")
def test_numbers_and_maps_are_of_the_six_scores(tmp_path):
    lines = []
    made = regard.figures.alignment(number=171, steps=2, progress=lines.append)
    assert {line.split(":")[0] for line in lines} == {*SCORES}
    told = json.loads(made.write(tmp_path)[2].read_text())
    assert told["source"] == ["one", "hundred", "and", "seventy-one", "</s>"]
    assert told["target"] == ["cent", "soixante", "et", "onze", "</s>"]
    maps = [each for row in made.picture.rows for each in row]
    assert [each.title for each in maps] == [*SCORES]
    for each in maps:
        assert each.weights.shape == (5, 5)
        np.testing.assert_allclose(each.weights, told[each.title]["weights"], atol=1e-6)
    texts = [mark.text for mark in made.picture.scene().marks if isinstance(mark, Label)]
    assert texts.count("</s>") == 12
    assert max(map(len, printed(made.picture.terminal()).splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("score", ["dot", "additive"])
def test_a_trained_translator_looks_at_the_right_words(monkeypatch, score):
    monkeypatch.setattr(number_translators, "_TRAINED", 20_000)
    asked = draw_numbers(100, seed=1, part="test", largest=alignment_figure.LARGEST)
    looks = alignment_figure._looks(score, 271_430, asked, 1, 300, silent)
    assert looks.right > 0.75
    assert looks.exact > 0.8
    assert looks.ends < 0.2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"steps": 0}, "--steps 0: from 1"),
        ({"number": -1}, "--number -1: from 0 to 999,999"),
        ({"number": 10**6}, "--number 1000000: from 0 to 999,999"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_trained(settings, said):
    lines = []
    with pytest.raises(RegardError, match=said):
        alignment(**settings, progress=lines.append)
    assert not lines
