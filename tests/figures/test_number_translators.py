import pytest
import torch

from regard.data.numbers import draw_numbers, english, french
from regard.figures import number_translators
from regard.figures.figure_result import silent
from regard.figures.number_translators import number_translator
from regard.models.recurrent import RecurrentTranslator

SETTINGS = ["model.attention=dot", "model.width=8", "model.embedding_width=6"]


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(number_translators, "_TRAINED", 200)


def made(**changes):
    return number_translator(
        "dot",
        "numbers-recurrent",
        SETTINGS,
        **{"largest": 99, "seed": 2, "steps": 3, "progress": silent, **changes},
    )


def test_a_word_is_a_token_and_the_recipe_is_that_of_the_settings():
    found = made()
    model = found.translator.model
    assert isinstance(model, RecurrentTranslator)
    assert (model.config.attention, model.config.width) == ("dot", 8)
    assert found.parameters == sum(each.numel() for each in model.parameters())
    assert len(found.losses) == 3
    numbers = draw_numbers(50, seed=2, largest=99)
    texts = [english(number) for number in numbers]
    for text, tokens in zip(texts, found.translator.source.encode_all(texts), strict=True):
        assert len(tokens) == len(text.split())


def test_the_same_seed_gives_the_same_translator():
    first, second, other = made(), made(), made(seed=3)
    assert first.losses == second.losses != other.losses


def test_right_is_what_is_translated_letter_by_letter(monkeypatch):
    found = made()
    answers = {english(21): french(21), english(22): french(22) + " ", english(30): "vingt"}
    monkeypatch.setattr(
        type(found.translator), "translate", lambda self, texts, beam: [answers[text] for text in texts]
    )
    assert found.right([21, 22, 30]) == [True, False, False]
    assert torch.is_grad_enabled()
