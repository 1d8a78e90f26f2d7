"""Two senses in the explorer: who asks whom, and what the answer becomes when it is touched."""

import pytest
import torch
from sight.explorer.trained import SIZES, WORDS, counting, fused
from torch import Tensor

from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.fusion import Fusion, FusionConfig
from regard.runs.answering import Labeller
from regard.runs.inputs import PairReader, SoundReader, TextReader
from regard.sight.explorer.example import Change, Picture, Text
from regard.sight.explorer.runs import example_of_run
from regard.sight.explorer.session import Session
from regard.sight.interventions import drop_heads, intervene
from regard.sight.watch import watch


@pytest.fixture
def given() -> tuple[Tensor, Tensor]:
    return torch.rand(1, 8, 8), torch.rand(1600) - 0.5


def test_each_sense_is_a_side_and_each_layer_knows_who_asks_whom(given: tuple[Tensor, Tensor]) -> None:
    example = example_of_run(fused(), given)
    seen, heard, _ = example.sides
    assert isinstance(seen, Picture)
    assert isinstance(heard, Picture)
    assert (seen.grid, seen.seconds) == ((4, 4), None)
    assert (heard.grid, heard.seconds) == ((1, 10), 0.2)
    sides = {panel.layer.name: (panel.query_side, panel.key_side, panel.cross) for panel in example.panels}
    assert sides["first.blocks.0.attention"] == (0, 0, False)
    assert sides["second.blocks.1.attention"] == (1, 1, False)
    assert sides["first_asks.blocks.0.attention"] == (0, 0, False)
    assert sides["first_asks.blocks.1.cross"] == (0, 1, True)
    assert sides["second_asks.blocks.0.cross"] == (1, 0, True)
    assert sides["first_asks.pooling.attention"] == (2, 0, True)
    assert sides["second_asks.pooling.attention"] == (2, 1, True)
    for panel in example.panels:
        lengths = [example.sides[side].length(0) for side in (panel.query_side, panel.key_side)]
        assert lengths[0] in (None, panel.sizes[0][0])
        assert lengths[1] == panel.sizes[0][1]


def test_the_answer_and_the_weights_are_those_of_the_model(given: tuple[Tensor, Tensor]) -> None:
    loaded = fused()
    example = example_of_run(loaded, given)
    assert example.outputs is not None
    assert dict(example.outputs[0].classes or ()) == pytest.approx(loaded.probabilities([given])[0], abs=1e-5)
    with evaluating(loaded.model), watch(loaded.model) as seen:
        loaded.model.predict(loaded.reader.batch([given]))
    name = "second_asks.blocks.1.cross"
    panel = next(each for each in example.panels if each.layer.name == name)
    torch.testing.assert_close(panel.layer.weights(), seen.stitched(name).weights())


def test_it_is_touched(given: tuple[Tensor, Tensor]) -> None:
    loaded = fused()
    session = Session([example_of_run(loaded, given)])
    name = "second_asks.blocks.0.cross"
    told = session.touch(0, {}, [Change(kind="drop", layer=name, heads=(0, 1))])
    with intervene(loaded.model, {name: drop_heads(0, 1)}):
        wanted = loaded.probabilities([given])[0]
    assert dict(told["answer"]["outputs"][0]["classes"]) == pytest.approx(wanted, abs=1e-5)
    number = next(n for n, panel in enumerate(session.example(0).panels) if panel.layer.name == name)
    assert session.importance(0, number).shape == (2,)


def test_a_text_can_be_one_of_the_senses() -> None:
    config = FusionConfig(
        first="text", second="sound", vocabulary=WORDS.size, bands=8, fusion_depth=1, **SIZES
    )
    torch.manual_seed(3)
    reader = PairReader(TextReader(WORDS), SoundReader(config))
    example = example_of_run(
        Labeller(Fusion(config).eval(), reader, ["no", "yes"]), ("one two", torch.rand(1600))
    )
    text = example.sides[0]
    assert isinstance(text, Text)
    assert text.tokens == (("one", " two", "</s>"),)
    assert example.name == "one two · input"


def test_the_digits_of_a_counter_are_seen_and_can_be_changed() -> None:
    loaded = counting()
    session = Session([example_of_run(loaded, "1 7 2 0 2 1 3 4 8 6")])
    example = session.example(0)
    text = example.sides[0]
    assert isinstance(text, Text)
    assert "".join(text.tokens[0]) == " 1 7 2 0 2 1 3 4 8 6"
    (panel,) = example.panels
    assert (panel.heads, panel.cross, panel.sizes) == (1, True, ((1, 10),))
    with evaluating(loaded.model):
        weights = loaded.model.weights(loaded.reader.batch(["1720213486"]))
    torch.testing.assert_close(panel.layer.weights()[0, 0], weights)
    told = session.touch(0, {"text": "4444444444"}, [])
    wanted = loaded.probabilities(["4444444444"])[0]
    assert dict(told["answer"]["outputs"][0]["classes"]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.usefixtures("as_a_user")
def test_one_sense_is_not_enough() -> None:
    with pytest.raises(RegardError, match="pairs are wanted, of a picture and a recording"):
        example_of_run(fused(), "seven.png")
