"""Runs become examples: what the model answered, where it looked, and what becomes of both when it is touched."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from sight.explorer.trained import (
    WORDS,
    counting,
    describer,
    listener,
    recurrent,
    scribe,
    sorter,
    translator,
    viewer,
    writer,
)

from regard.attention.weights import weigh
from regard.data.batches import END, START, Images, Pairs, Sequences
from regard.decoding.decode import evaluating
from regard.decoding.forced import log_probabilities
from regard.errors import RegardError
from regard.models.convolutional import Convolution, ConvolutionConfig
from regard.runs.answering import Labeller, Loaded
from regard.runs.inputs import PictureReader
from regard.sight.explorer.changed_model import Uncached
from regard.sight.explorer.example import Change, Example, Picture, Text
from regard.sight.explorer.full_map import Head
from regard.sight.explorer.runs import example_of_run
from regard.sight.explorer.session import TOUCHED, GoneError, Session
from regard.sight.interventions import drop_heads, forbid, intervene
from regard.sight.watch import watch

SOURCE = "two three one five"


def drop(layer: str, *heads: int) -> Change:
    return Change(kind="drop", layer=layer, heads=heads)


def side(example: Example, number: int) -> Text:
    found = example.sides[number]
    assert isinstance(found, Text)
    return found


def test_the_entries_of_a_translation_are_the_hypotheses_of_its_beam() -> None:
    loaded = translator(beam=3)
    example = example_of_run(loaded, SOURCE)
    best = loaded.hypotheses([SOURCE], count=3)[0]
    assert [entry.name for entry in example.entries] == [one.text for one in best]
    assert [entry.score for entry in example.entries] == pytest.approx([one.ranking for one in best])
    assert side(example, 0).tokens[0] == ("two", " three", " one", " five", "</s>")
    for entry, one in enumerate(best):
        assert "".join(side(example, 1).tokens[entry]) == one.text + "</s>"
        assert side(example, 2).tokens[entry][0] == "<s>"


def test_every_step_says_how_likely_its_token_was() -> None:
    loaded = translator(beam=3)
    example = example_of_run(loaded, SOURCE)
    assert example.outputs is not None
    for output, entry in zip(example.outputs, example.entries, strict=True):
        assert output.steps is not None
        scored = log_probabilities(loaded.model, loaded.pairs([SOURCE], [entry.name]))[0]
        found = torch.tensor([step.probability for step in output.steps]).log()
        torch.testing.assert_close(found, torch.tensor(scored.tokens), rtol=0, atol=1e-4)
        for step in output.steps:
            likely = [probability for _, probability in step.alternatives]
            assert likely == sorted(likely, reverse=True)


def test_each_hypothesis_has_the_attention_of_reading_it_alone() -> None:
    loaded = translator(beam=3)
    together = example_of_run(loaded, SOURCE)
    for number, entry in enumerate(together.entries):
        alone = example_of_run(loaded, SOURCE, target=entry.name)
        for one, other in zip(together.panels, alone.panels, strict=True):
            assert one.sizes[number] == other.sizes[0]
            torch.testing.assert_close(one.call(number).query, other.call(0).query, rtol=0, atol=1e-5)


def test_panels_know_who_asks_whom() -> None:
    example = example_of_run(translator(), SOURCE)
    sides = {panel.layer.name: (panel.query_side, panel.key_side, panel.cross) for panel in example.panels}
    assert sides["encoder.0.attention"] == (0, 0, False)
    assert sides["decoder.1.cross"] == (1, 0, True)
    assert sides["decoder.1.attention"] == (2, 2, False)


def test_a_recurrent_translator_is_one_layer_of_one_head() -> None:
    example = example_of_run(recurrent(), SOURCE)
    (panel,) = example.panels
    assert (panel.heads, panel.cross, panel.sizes[0][1]) == (1, True, 5)


def test_dropping_a_head_gives_what_the_model_says_without_it() -> None:
    loaded = translator(beam=2)
    session = Session([example_of_run(loaded, SOURCE)])
    told = session.touch(0, {}, [drop("decoder.1.cross", 0, 1)])
    with intervene(loaded.model, {"decoder.1.cross": drop_heads(0, 1)}):
        wanted = loaded.hypotheses([SOURCE], count=2)[0]
    assert [entry["name"] for entry in told["entries"]] == [one.text for one in wanted]
    assert told["entries"][0]["logprob"] == pytest.approx(wanted[0].log_probability, abs=1e-4)
    assert told["touched"]["of"] == 0
    assert told["touched"]["changes"][0]["heads"] == (0, 1)
    assert told["id"] == 1
    assert session.example(1).name == SOURCE


def test_a_forbidden_pair_gets_no_weight_and_changes_the_answer() -> None:
    loaded = translator(beam=1)
    given = " ".join(["four"] * 4)
    session = Session([example_of_run(loaded, SOURCE, target=given)])
    change = Change(kind="forbid", layer="decoder.0.cross", queries=(1,), keys=(0, 2))
    told = session.touch(0, {}, [change])
    panel = next(p for p in session.example(1).panels if p.layer.name == "decoder.0.cross")
    weights = panel.layer.weights()[0]
    assert weights[:, 1, [0, 2]].eq(0).all()
    assert weights[:, 0, [0, 2]].gt(0).all()
    with (
        evaluating(loaded.model),
        intervene(loaded.model, {"decoder.0.cross": forbid(queries=1, keys=[0, 2])}),
    ):
        wanted = log_probabilities(loaded.model, loaded.pairs([SOURCE], [given]))[0].log_probability
    assert told["entries"][0]["logprob"] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("factor", [2.0, 0.5, -1.0])
def test_a_scaled_head_is_one_whose_part_of_the_output_map_is_scaled(factor: float) -> None:
    loaded = translator(beam=1)
    session = Session([example_of_run(loaded, SOURCE, target="four two")])
    change = Change(kind="scale", layer="decoder.1.cross", heads=(1,), factor=factor)
    told = session.touch(0, {}, [change])
    module = loaded.model.get_submodule("decoder.1.cross")
    with torch.no_grad():
        module.output.weight[:, 8:] *= factor  # of two heads of 8 the second
    wanted = loaded.score([SOURCE], ["four two"])[0]
    assert told["entries"][0]["logprob"] == pytest.approx(wanted, abs=1e-4)
    assert told["entries"][0]["logprob"] != pytest.approx(session.example(0).entries[0].logprob, abs=1e-4)
    assert told["touched"]["changes"][0]["factor"] == factor


@pytest.mark.parametrize("heads", [(0,), None])
def test_a_uniform_head_is_one_that_asks_nothing(heads: tuple[int, ...] | None) -> None:
    loaded = translator(beam=1)
    session = Session([example_of_run(loaded, SOURCE, target="four two")])
    told = session.touch(0, {}, [Change(kind="uniform", layer="decoder.0.attention", heads=heads)])
    panel = next(p for p in session.example(1).panels if p.layer.name == "decoder.0.attention")
    alike = torch.ones(3, 3).tril() / torch.tensor([[1.0], [2.0], [3.0]])
    torch.testing.assert_close(panel.layer.weights()[0, 0], alike)
    assert torch.allclose(panel.layer.weights()[0, 1], alike) == (heads is None)
    # Without a query all keys score the same.
    module = loaded.model.get_submodule("decoder.0.attention")
    with torch.no_grad():
        some = slice(0, 8 if heads else 16)
        module.input.all.weight[some] = 0.0
        module.input.all.bias[some] = 0.0
    wanted = loaded.score([SOURCE], ["four two"])[0]
    assert told["entries"][0]["logprob"] == pytest.approx(wanted, abs=1e-4)


def test_a_translation_is_written_anew_under_a_forbidden_pair() -> None:
    loaded = translator(beam=2)
    session = Session([example_of_run(loaded, SOURCE)])
    told = session.touch(
        0, {}, [Change(kind="forbid", layer="decoder.0.attention", queries=(2, 3), keys=(0,))]
    )
    assert told["entries"][0]["name"]
    panel = next(p for p in session.example(1).panels if p.layer.name == "decoder.0.attention")
    assert panel.call(0).extent.queries == len(side(session.example(1), 2).tokens[0])


def test_what_is_written_under_a_forbidden_pair_was_found_under_it() -> None:
    loaded = translator(beam=2)
    session = Session([example_of_run(loaded, SOURCE)])
    told = session.touch(
        0, {}, [Change(kind="forbid", layer="decoder.0.cross", queries=(1, 2), keys=(0, 1, 2))]
    )
    for entry in told["entries"]:
        assert len(loaded.target.encode(entry["name"])) > 2  # long enough to ask both queries
        with (
            evaluating(loaded.model),
            intervene(loaded.model, {"decoder.0.cross": forbid(queries=[1, 2], keys=[0, 1, 2])}),
        ):
            each = log_probabilities(loaded.model, loaded.pairs([SOURCE], [entry["name"]]))[0].tokens
        ended = len(each) <= 5  # five tokens are the most this translator writes: the fifth cuts it off
        assert entry["logprob"] == pytest.approx(sum(each if ended else each[:-1]), abs=1e-4)


def test_reading_all_anew_at_every_step_writes_the_same_translation() -> None:
    loaded = translator(beam=3)
    from regard.runs.answering import Translator

    anew = Translator(Uncached(loaded.model), {"source": WORDS}, loaded.decoding)
    with evaluating(loaded.model):
        assert (
            anew.hypotheses([SOURCE], count=3)[0][0].tokens
            == loaded.hypotheses([SOURCE], count=3)[0][0].tokens
        )


def test_another_input_is_another_exhibit() -> None:
    loaded = translator(beam=1)
    session = Session([example_of_run(loaded, SOURCE)])
    told = session.touch(0, {"source": "one"}, [])
    assert told["sides"][0]["tokens"] == (("one", "</s>"),)
    assert told["entries"][0]["name"] == loaded.translate(["one"])[0]
    assert told["inputs"] == {"source": "one"}


def test_importance_is_what_the_answer_loses_without_a_head() -> None:
    loaded = translator(beam=1)
    session = Session([example_of_run(loaded, SOURCE)])
    found = session.importance(0, 0)
    best = loaded.translate([SOURCE])[0]
    whole = loaded.score([SOURCE], [best])[0]
    for head in range(2):
        with intervene(loaded.model, {"encoder.0.attention": drop_heads(head)}):
            without = loaded.score([SOURCE], [best])[0]
        assert float(found[head]) == pytest.approx(whole - without, abs=1e-4)


def test_a_language_model_shows_every_token_and_what_comes_next() -> None:
    loaded = writer()
    example = example_of_run(loaded, "one two three")
    assert side(example, 0).tokens[0] == ("<s>", " one", " two", " three")
    assert example.outputs is not None
    (output,) = example.outputs
    assert output.steps is not None
    assert len(output.steps) == 4
    assert [step.token for step in output.steps[:3]] == ["one", " two", " three"]
    wanted = log_probabilities(loaded.model, loaded.prompts(["one two three"]))[0].log_probability
    assert example.entries[0].logprob == pytest.approx(wanted, abs=1e-4)
    longer = example_of_run(loaded, "one two three", more=5)
    assert side(longer, 0).tokens[0][:4] == side(example, 0).tokens[0]
    assert longer.panels[0].sizes[0][0] > 4


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_a_classifier_shows_its_likeliest_classes(pooling: str) -> None:
    loaded = sorter(pooling)
    example = example_of_run(loaded, "one two")
    assert example.outputs is not None
    classes = example.outputs[0].classes
    assert classes is not None
    assert dict(classes) == pytest.approx(loaded.probabilities(["one two"])[0], abs=1e-5)
    assert classes[0][1] == max(share for _, share in classes)
    asked = [panel for panel in example.panels if panel.query_side == 1]
    assert len(asked) == (1 if pooling == "attention" else 0)


def test_a_picture_stands_along_its_patches_behind_the_class_token(tmp_path: Path) -> None:
    path = tmp_path / "seven.png"
    Image.linear_gradient("L").resize((8, 8)).save(path)
    example = example_of_run(viewer(), str(path))
    picture = example.sides[0]
    assert isinstance(picture, Picture)
    assert (picture.grid, picture.special, picture.pixels[0].shape) == ((4, 4), ("<class>",), (8, 8, 3))
    assert example.name == "seven.png"
    assert example.panels[0].sizes == ((17, 17),)
    session = Session([example])
    told = session.touch(0, {}, [drop("encoder.blocks.0.attention", 0)])
    assert told["answer"]["outputs"][0]["classes"] != example.outputs[0].classes  # type: ignore[index]
    assert session.importance(0, 0).shape == (2,)


def test_words_of_a_caption_stand_beside_the_patches_they_looked_at() -> None:
    loaded, pixels = describer(), torch.rand(1, 8, 12)
    example = example_of_run(loaded, pixels)
    picture = example.sides[0]
    assert isinstance(picture, Picture)
    assert (picture.grid, picture.seconds, len(picture.pixels)) == ((2, 3), None, 2)
    best = loaded.hypotheses([pixels], count=2)[0]
    assert [entry.name for entry in example.entries] == [one.text for one in best]
    cross = next(panel for panel in example.panels if panel.layer.name == "decoder.1.cross")
    assert (cross.query_side, cross.key_side, cross.cross) == (1, 0, True)
    assert cross.sizes == tuple((len(one.tokens) + 1, 6) for one in best)
    pair = Pairs(Images(pixels[None]), Sequences.of([[*best[1].tokens, END]]))
    with torch.no_grad(), watch(loaded.model) as seen:
        loaded.model.logits(pair)
    expected = seen.stitched("decoder.1.cross").weights()[0]
    torch.testing.assert_close(weigh(cross.call(1))[0], expected, rtol=0, atol=1e-5)
    assert example.outputs is not None
    assert example.outputs[0].steps is not None
    assert len(example.outputs[0].steps) == len(best[0].tokens) + 1


def test_a_caption_can_be_touched() -> None:
    session = Session([example_of_run(describer(), torch.rand(1, 8, 12))])
    before = session.example(0).entries[0].logprob
    forbidden = Change(kind="forbid", layer="decoder.0.cross", queries=(0,), keys=(1, 2))
    for change in (drop("decoder.1.cross", 0), forbidden):
        told = session.touch(0, {}, [change])
        assert told["entries"][0]["logprob"] != before
    panel = next(
        n for n, each in enumerate(session.example(0).panels) if each.layer.name == "decoder.0.cross"
    )
    assert session.importance(0, panel).shape == (2,)
    own = Session([example_of_run(describer(), torch.rand(1, 8, 12), target="one two")])
    told = own.touch(0, {"target": "two"}, [])
    assert told["answer"]["outputs"][0]["text"] == "two"


@pytest.mark.parametrize("make", [scribe, listener])
def test_a_recording_stands_along_its_frames(make) -> None:
    loaded, sound = make(), torch.rand(1600) - 0.5
    example = example_of_run(loaded, sound)
    heard = example.sides[0]
    assert isinstance(heard, Picture)
    assert (heard.grid, heard.seconds) == ((1, 10), 0.2)  # 20 frames of 10 ms, two a token
    assert example.kind == "sound"
    assert all(panel.sizes[0][1] == 10 for panel in example.panels if panel.key_side == 0)


def test_only_the_last_few_touched_exhibits_stay_open() -> None:
    session = Session([example_of_run(sorter(), "one two")])
    for _ in range(TOUCHED + 2):
        session.touch(0, {"text": "two"}, [])
    assert [told["id"] for told in session.manifest()["exhibits"]] == [0, *range(3, TOUCHED + 3)]
    with pytest.raises(GoneError, match="exhibit 1 was let go"):
        session.example(1)


def test_full_maps_of_an_example_that_is_no_longer_open_are_dropped() -> None:
    session, head = Session([example_of_run(sorter(), "one two")]), Head(1, 0, 0, 0)
    session.touch(0, {"text": "two"}, [])
    session.margins(1, 0, 0, [0], exact=True)
    assert session.full_maps.known(head) is not None
    for _ in range(TOUCHED):
        session.touch(0, {"text": "two"}, [])
    assert session.full_maps.known(head) is None


def test_the_text_of_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one two", encoding="utf-8")
    assert example_of_run(sorter(), str(path)).name == "one two"


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="only a translator, a captioner or a transcriber has one"):
        example_of_run(sorter(), "one", target="two")
    with pytest.raises(RegardError, match="only a language model goes on"):
        example_of_run(sorter(), "one", more=3)
    with pytest.raises(RegardError, match="there is no token in it"):
        example_of_run(translator(), "")
    with pytest.raises(RegardError, match="has 3 digits: give 10"):
        example_of_run(counting(), "1 7 2")
    with pytest.raises(RegardError, match="config of no known kind"):
        example_of_run(Loaded(torch.nn.Linear(1, 1)), "one")
    model = Convolution(
        ConvolutionConfig(channels=1, image_size=(8, 8), classes=2, widths=(4,), strides=(2,))
    )
    with pytest.raises(RegardError, match="a Convolution cannot be explored"):
        example_of_run(Labeller(model, PictureReader((8, 8), 1), ["a", "b"]), "x.png")
    session = Session([example_of_run(translator(), SOURCE)])
    with pytest.raises(RegardError, match="input 'target' cannot be changed: source can"):
        session.touch(0, {"target": "x"}, [])
    with pytest.raises(RegardError, match="name at least one head"):
        session.touch(0, {}, [drop("decoder.1.cross")])
    with pytest.raises(RegardError, match="the model has no module"):
        session.touch(0, {}, [drop("nowhere", 0)])
    session = Session([example_of_run(recurrent(), SOURCE)])
    with pytest.raises(RegardError, match="one query at a time"):
        session.touch(0, {}, [Change(kind="forbid", layer="attention", queries=(0,), keys=(0,))])


def test_what_begins_and_ends_a_text_is_named_as_it_is() -> None:
    from regard.sight.explorer.axis_labels import spelled

    letters = spelled(WORDS, [START, *WORDS.encode("one two"), END])
    assert letters == ("<s>", " one", " two", "</s>")
