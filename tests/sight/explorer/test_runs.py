"""Runs become exhibits: what the model answered, where it looked, and what becomes of both when it is touched."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from sight.explorer.trained import (
    WORDS,
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
from regard.models.counter import Counter, CounterConfig
from regard.runs.answering import Labeller, Loaded
from regard.runs.inputs import PictureReader
from regard.sight.explorer.exhibit import Change, Exhibit, Picture, Text
from regard.sight.explorer.hall import TOUCHED, GoneError, Hall
from regard.sight.explorer.runs import exhibit_of_run
from regard.sight.explorer.uncached import Uncached
from regard.sight.interventions import drop_heads, forbid, intervene
from regard.sight.watch import watch

SOURCE = "two three one five"


def drop(layer: str, *heads: int) -> Change:
    return Change(kind="drop", layer=layer, heads=heads)


def side(exhibit: Exhibit, number: int) -> Text:
    found = exhibit.sides[number]
    assert isinstance(found, Text)
    return found


def test_the_entries_of_a_translation_are_the_hypotheses_of_its_beam() -> None:
    loaded = translator(beam=3)
    exhibit = exhibit_of_run(loaded, SOURCE)
    best = loaded.hypotheses([SOURCE], count=3)[0]
    assert [entry.name for entry in exhibit.entries] == [one.text for one in best]
    assert [entry.score for entry in exhibit.entries] == pytest.approx([one.ranking for one in best])
    assert side(exhibit, 0).tokens[0] == ("two", " three", " one", " five", "</s>")
    for entry, one in enumerate(best):
        assert "".join(side(exhibit, 1).tokens[entry]) == one.text + "</s>"
        assert side(exhibit, 2).tokens[entry][0] == "<s>"


def test_every_step_says_how_likely_its_token_was() -> None:
    loaded = translator(beam=3)
    exhibit = exhibit_of_run(loaded, SOURCE)
    assert exhibit.outputs is not None
    for output, entry in zip(exhibit.outputs, exhibit.entries, strict=True):
        assert output.steps is not None
        scored = log_probabilities(loaded.model, loaded.pairs([SOURCE], [entry.name]))[0]
        found = torch.tensor([step.probability for step in output.steps]).log()
        torch.testing.assert_close(found, torch.tensor(scored.tokens), rtol=0, atol=1e-4)
        for step in output.steps:
            likely = [probability for _, probability in step.alternatives]
            assert likely == sorted(likely, reverse=True)


def test_each_hypothesis_has_the_attention_of_reading_it_alone() -> None:
    loaded = translator(beam=3)
    together = exhibit_of_run(loaded, SOURCE)
    for number, entry in enumerate(together.entries):
        alone = exhibit_of_run(loaded, SOURCE, target=entry.name)
        for one, other in zip(together.panels, alone.panels, strict=True):
            assert one.sizes[number] == other.sizes[0]
            torch.testing.assert_close(one.call(number).query, other.call(0).query, rtol=0, atol=1e-5)


def test_panels_know_who_asks_whom() -> None:
    exhibit = exhibit_of_run(translator(), SOURCE)
    sides = {panel.layer.name: (panel.query_side, panel.key_side, panel.cross) for panel in exhibit.panels}
    assert sides["encoder.0.attention"] == (0, 0, False)
    assert sides["decoder.1.cross"] == (1, 0, True)
    assert sides["decoder.1.attention"] == (2, 2, False)


def test_a_recurrent_translator_is_one_layer_of_one_head() -> None:
    exhibit = exhibit_of_run(recurrent(), SOURCE)
    (panel,) = exhibit.panels
    assert (panel.heads, panel.cross, panel.sizes[0][1]) == (1, True, 5)


def test_dropping_a_head_gives_what_the_model_says_without_it() -> None:
    loaded = translator(beam=2)
    hall = Hall([exhibit_of_run(loaded, SOURCE)])
    told, _ = hall.touch(0, {}, [drop("decoder.1.cross", 0, 1)])
    with intervene(loaded.model, {"decoder.1.cross": drop_heads(0, 1)}):
        wanted = loaded.hypotheses([SOURCE], count=2)[0]
    assert [entry["name"] for entry in told["entries"]] == [one.text for one in wanted]
    assert told["entries"][0]["logprob"] == pytest.approx(wanted[0].log_probability, abs=1e-4)
    assert told["touched"]["of"] == 0
    assert told["touched"]["changes"][0]["heads"] == (0, 1)
    assert told["id"] == 1
    assert hall.exhibit(1).name == SOURCE


def test_a_forbidden_pair_gets_no_weight_and_changes_the_answer() -> None:
    loaded = translator(beam=1)
    given = " ".join(["four"] * 4)
    hall = Hall([exhibit_of_run(loaded, SOURCE, target=given)])
    change = Change(kind="forbid", layer="decoder.0.cross", queries=(1,), keys=(0, 2))
    told, _ = hall.touch(0, {}, [change])
    panel = next(p for p in hall.exhibit(1).panels if p.layer.name == "decoder.0.cross")
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
    hall = Hall([exhibit_of_run(loaded, SOURCE, target="four two")])
    change = Change(kind="scale", layer="decoder.1.cross", heads=(1,), factor=factor)
    told, _ = hall.touch(0, {}, [change])
    module = loaded.model.get_submodule("decoder.1.cross")
    with torch.no_grad():
        module.output.weight[:, 8:] *= factor  # of two heads of 8 the second
    wanted = loaded.score([SOURCE], ["four two"])[0]
    assert told["entries"][0]["logprob"] == pytest.approx(wanted, abs=1e-4)
    assert told["entries"][0]["logprob"] != pytest.approx(hall.exhibit(0).entries[0].logprob, abs=1e-4)
    assert told["touched"]["changes"][0]["factor"] == factor


@pytest.mark.parametrize("heads", [(0,), None])
def test_a_uniform_head_is_one_that_asks_nothing(heads: tuple[int, ...] | None) -> None:
    loaded = translator(beam=1)
    hall = Hall([exhibit_of_run(loaded, SOURCE, target="four two")])
    told, _ = hall.touch(0, {}, [Change(kind="uniform", layer="decoder.0.attention", heads=heads)])
    panel = next(p for p in hall.exhibit(1).panels if p.layer.name == "decoder.0.attention")
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
    hall = Hall([exhibit_of_run(loaded, SOURCE)])
    told, _ = hall.touch(
        0, {}, [Change(kind="forbid", layer="decoder.0.attention", queries=(2, 3), keys=(0,))]
    )
    assert told["entries"][0]["name"]
    panel = next(p for p in hall.exhibit(1).panels if p.layer.name == "decoder.0.attention")
    assert panel.call(0).extent.queries == len(side(hall.exhibit(1), 2).tokens[0])


def test_what_is_written_under_a_forbidden_pair_was_found_under_it() -> None:
    loaded = translator(beam=2)
    hall = Hall([exhibit_of_run(loaded, SOURCE)])
    told, _ = hall.touch(
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
    hall = Hall([exhibit_of_run(loaded, SOURCE)])
    told, _ = hall.touch(0, {"source": "one"}, [])
    assert told["sides"][0]["tokens"] == (("one", "</s>"),)
    assert told["entries"][0]["name"] == loaded.translate(["one"])[0]
    assert told["inputs"] == {"source": "one"}


def test_importance_is_what_the_answer_loses_without_a_head() -> None:
    loaded = translator(beam=1)
    hall = Hall([exhibit_of_run(loaded, SOURCE)])
    found = hall.importance(0, 0)
    best = loaded.translate([SOURCE])[0]
    whole = loaded.score([SOURCE], [best])[0]
    for head in range(2):
        with intervene(loaded.model, {"encoder.0.attention": drop_heads(head)}):
            without = loaded.score([SOURCE], [best])[0]
        assert float(found[head]) == pytest.approx(whole - without, abs=1e-4)


def test_a_language_model_shows_every_token_and_what_comes_next() -> None:
    loaded = writer()
    exhibit = exhibit_of_run(loaded, "one two three")
    assert side(exhibit, 0).tokens[0] == ("<s>", " one", " two", " three")
    assert exhibit.outputs is not None
    (output,) = exhibit.outputs
    assert output.steps is not None
    assert len(output.steps) == 4
    assert [step.token for step in output.steps[:3]] == ["one", " two", " three"]
    wanted = log_probabilities(loaded.model, loaded.prompts(["one two three"]))[0].log_probability
    assert exhibit.entries[0].logprob == pytest.approx(wanted, abs=1e-4)
    longer = exhibit_of_run(loaded, "one two three", more=5)
    assert side(longer, 0).tokens[0][:4] == side(exhibit, 0).tokens[0]
    assert longer.panels[0].sizes[0][0] > 4


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_a_classifier_shows_its_likeliest_classes(pooling: str) -> None:
    loaded = sorter(pooling)
    exhibit = exhibit_of_run(loaded, "one two")
    assert exhibit.outputs is not None
    classes = exhibit.outputs[0].classes
    assert classes is not None
    assert dict(classes) == pytest.approx(loaded.probabilities(["one two"])[0], abs=1e-5)
    assert classes[0][1] == max(share for _, share in classes)
    asked = [panel for panel in exhibit.panels if panel.query_side == 1]
    assert len(asked) == (1 if pooling == "attention" else 0)


def test_a_picture_stands_along_its_patches_behind_the_class_token(tmp_path: Path) -> None:
    path = tmp_path / "seven.png"
    Image.linear_gradient("L").resize((8, 8)).save(path)
    exhibit = exhibit_of_run(viewer(), str(path))
    picture = exhibit.sides[0]
    assert isinstance(picture, Picture)
    assert (picture.grid, picture.special, picture.pixels[0].shape) == ((4, 4), ("<class>",), (8, 8, 3))
    assert exhibit.name == "seven.png"
    assert exhibit.panels[0].sizes == ((17, 17),)
    hall = Hall([exhibit])
    told, _ = hall.touch(0, {}, [drop("encoder.blocks.0.attention", 0)])
    assert told["answer"]["outputs"][0]["classes"] != exhibit.outputs[0].classes  # type: ignore[index]
    assert hall.importance(0, 0).shape == (2,)


def test_words_of_a_caption_stand_beside_the_patches_they_looked_at() -> None:
    loaded, pixels = describer(), torch.rand(1, 8, 12)
    exhibit = exhibit_of_run(loaded, pixels)
    picture = exhibit.sides[0]
    assert isinstance(picture, Picture)
    assert (picture.grid, picture.seconds, len(picture.pixels)) == ((2, 3), None, 2)
    best = loaded.hypotheses([pixels], count=2)[0]
    assert [entry.name for entry in exhibit.entries] == [one.text for one in best]
    cross = next(panel for panel in exhibit.panels if panel.layer.name == "decoder.1.cross")
    assert (cross.query_side, cross.key_side, cross.cross) == (1, 0, True)
    assert cross.sizes == tuple((len(one.tokens) + 1, 6) for one in best)
    pair = Pairs(Images(pixels[None]), Sequences.of([[*best[1].tokens, END]]))
    with torch.no_grad(), watch(loaded.model) as seen:
        loaded.model.logits(pair)
    expected = seen.stitched("decoder.1.cross").weights()[0]
    torch.testing.assert_close(weigh(cross.call(1))[0], expected, rtol=0, atol=1e-5)
    assert exhibit.outputs is not None
    assert exhibit.outputs[0].steps is not None
    assert len(exhibit.outputs[0].steps) == len(best[0].tokens) + 1


def test_a_caption_can_be_touched() -> None:
    hall = Hall([exhibit_of_run(describer(), torch.rand(1, 8, 12))])
    before = hall.exhibit(0).entries[0].logprob
    forbidden = Change(kind="forbid", layer="decoder.0.cross", queries=(0,), keys=(1, 2))
    for change in (drop("decoder.1.cross", 0), forbidden):
        told, _ = hall.touch(0, {}, [change])
        assert told["entries"][0]["logprob"] != before
    panel = next(n for n, each in enumerate(hall.exhibit(0).panels) if each.layer.name == "decoder.0.cross")
    assert hall.importance(0, panel).shape == (2,)
    own = Hall([exhibit_of_run(describer(), torch.rand(1, 8, 12), target="one two")])
    told, _ = own.touch(0, {"target": "two"}, [])
    assert told["answer"]["outputs"][0]["text"] == "two"


@pytest.mark.parametrize("make", [scribe, listener])
def test_a_recording_stands_along_its_frames(make) -> None:
    loaded, sound = make(), torch.rand(1600) - 0.5
    exhibit = exhibit_of_run(loaded, sound)
    heard = exhibit.sides[0]
    assert isinstance(heard, Picture)
    assert (heard.grid, heard.seconds) == ((1, 10), 0.2)  # 20 frames of 10 ms, two a token
    assert exhibit.kind == "sound"
    assert all(panel.sizes[0][1] == 10 for panel in exhibit.panels if panel.key_side == 0)


def test_only_the_last_few_touched_exhibits_stay_open() -> None:
    hall = Hall([exhibit_of_run(sorter(), "one two")])
    for _ in range(TOUCHED + 2):
        hall.touch(0, {"text": "two"}, [])
    assert [told["id"] for told in hall.manifest()["exhibits"]] == [0, *range(3, TOUCHED + 3)]
    with pytest.raises(GoneError, match="exhibit 1 was let go"):
        hall.exhibit(1)


def test_the_text_of_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one two", encoding="utf-8")
    assert exhibit_of_run(sorter(), str(path)).name == "one two"


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="only a translator, a captioner or a transcriber has one"):
        exhibit_of_run(sorter(), "one", target="two")
    with pytest.raises(RegardError, match="only a language model goes on"):
        exhibit_of_run(sorter(), "one", more=3)
    with pytest.raises(RegardError, match="there is no token in it"):
        exhibit_of_run(translator(), "")
    with pytest.raises(RegardError, match="cannot be explored"):
        exhibit_of_run(Loaded(Counter(CounterConfig())), "one")
    with pytest.raises(RegardError, match="config of no known kind"):
        exhibit_of_run(Loaded(torch.nn.Linear(1, 1)), "one")
    model = Convolution(
        ConvolutionConfig(channels=1, image_size=(8, 8), classes=2, widths=(4,), strides=(2,))
    )
    with pytest.raises(RegardError, match="a Convolution cannot be explored"):
        exhibit_of_run(Labeller(model, PictureReader((8, 8), 1), ["a", "b"]), "x.png")
    hall = Hall([exhibit_of_run(translator(), SOURCE)])
    with pytest.raises(RegardError, match="input 'target' cannot be changed: source can"):
        hall.touch(0, {"target": "x"}, [])
    with pytest.raises(RegardError, match="name at least one head"):
        hall.touch(0, {}, [drop("decoder.1.cross")])
    with pytest.raises(RegardError, match="the model has no module"):
        hall.touch(0, {}, [drop("nowhere", 0)])
    hall = Hall([exhibit_of_run(recurrent(), SOURCE)])
    with pytest.raises(RegardError, match="one query at a time"):
        hall.touch(0, {}, [Change(kind="forbid", layer="attention", queries=(0,), keys=(0,))])


def test_what_begins_and_ends_a_text_is_named_as_it_is() -> None:
    from regard.sight.explorer.spelling import spelled

    letters = spelled(WORDS, [START, *WORDS.encode("one two"), END])
    assert letters == ("<s>", " one", " two", "</s>")
