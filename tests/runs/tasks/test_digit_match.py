"""Two senses: a handwritten and a spoken digit, a spoken and written ones; and what is left when a sense is taken away."""

import pytest
import torch
from runs.small import MODEL, TRAINING, trained, write_spoken

from regard import RegardError
from regard.data.digits import digits
from regard.data.text_lines import Report
from regard.runs.evaluation import evaluate_run
from regard.runs.load import load
from regard.runs.recipe import resolve
from regard.runs.tasks.digit_match import feed_of
from regard.sight.explorer.runs import example_of_run
from regard.sight.media_pictures import picture_of_place
from regard.training.experiment import prepare


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    return write_spoken(tmp_path_factory.mktemp("same"))


def recipe(place, data=None, **changes):
    made = {"samples": 32, "valid": 8, "test": 8} if (data or {}).get("kind") != "spoken-digits" else {}
    values = {
        "data": {"kind": "same", "train": str(place), "speaker": "bo", **made, **(data or {})},
        "model": {"kind": "fusion", "bands": 8, "patch": [4, 4], "fusion_depth": 1, **MODEL},
        "training": {**TRAINING, "batch": 8},
    }
    return resolve({**values, **changes})


def test_half_of_the_pairs_are_the_same(spoken):
    labels = torch.cat([feed_of(recipe(spoken), "test", Report()).batch(range(8)).labels])
    assert labels.float().mean() == 0.5


def test_a_sense_that_is_taken_away_brings_nothing(spoken):
    whole = feed_of(recipe(spoken), "test", Report()).batch(range(8))
    for sense, taken, left in (("image", "first", "second"), ("sound", "second", "first")):
        part = feed_of(recipe(spoken, {"without": sense}), "test", Report()).batch(range(8))
        gone, kept = getattr(part.inputs, taken), getattr(part.inputs, left)
        values = gone.pixels if sense == "image" else gone.samples
        assert values.abs().max() == 0
        same = getattr(whole.inputs, left)
        assert torch.equal(
            *(getattr(each, "pixels" if sense == "sound" else "samples") for each in (kept, same))
        )
        if sense == "sound":
            assert len(set(gone.lengths.tolist())) == 1  # not even how long it was
        assert torch.equal(part.labels, whole.labels)


def test_a_trained_model_of_two_senses_answers_pairs(spoken, tmp_path):
    run = trained(recipe(spoken), tmp_path / "run")
    judge = load(run, device="cpu")
    pairs = [(digits()[0][0], spoken / "3_bo_1.wav"), (digits()[0][1], spoken / "1_bo_1.wav")]
    assert judge.labels == ["different", "same"]
    assert set(judge.classify(pairs)) <= {"different", "same"}
    for together, pair in zip(judge.probabilities(pairs), pairs, strict=True):
        assert together == pytest.approx(judge.probabilities([pair])[0], abs=1e-5)
    assert {metric.name for metric in evaluate_run(run)} == {"loss", "perplexity", "accuracy"}
    with pytest.raises(RegardError, match="a picture and a recording"):
        judge.classify(["one.png"])


def places(place, data=None, **model):
    return recipe(
        place,
        {"kind": "spoken-place", "words": 3, **(data or {})},
        model={
            "kind": "fusion",
            "bands": 8,
            "first": "sound",
            "second": "text",
            "asks": "first",
            **MODEL,
            **model,
        },
        tokens={"kind": "word"},
    )


def test_a_sound_asks_a_text_for_the_place_of_what_is_said(spoken, tmp_path):
    run = trained(places(spoken), tmp_path / "run")
    judge = load(run, device="cpu")
    pairs = [(spoken / "3_bo_1.wav", "one three nine"), (spoken / "9_bo_2.wav", "nine zero two")]
    assert judge.labels == ["first", "second", "third"]
    assert set(judge.classify(pairs)) <= {"first", "second", "third"}
    for together, pair in zip(judge.probabilities(pairs), pairs, strict=True):
        assert together == pytest.approx(judge.probabilities([pair])[0], abs=1e-5)
    assert {metric.name for metric in evaluate_run(run)} == {"loss", "perplexity", "accuracy"}
    with pytest.raises(RegardError, match="a recording and a text"):
        judge.classify(["one.wav"])
    drawn = picture_of_place(run)
    assert len(drawn.words) == 4  # three words and the end
    example = example_of_run(judge, pairs[0])
    assert example.name == "3_bo_1.wav · one three nine"
    edited = example.subject.look({"text": "three one"}, [])
    assert edited.sides[1].tokens[0] == ("three", " one", "</s>")
    cross = next(panel for panel in edited.panels if panel.layer.name.endswith(".cross"))
    assert (cross.query_side, cross.key_side, cross.sizes[0][1]) == (0, 1, 3)
    card = (run / "README.md").read_text("utf-8")
    assert 'recording.wav "…"' in card


def test_a_picture_of_a_place_is_of_a_run_that_has_places(spoken, tmp_path):
    run = trained(recipe(spoken), tmp_path / "run")
    with pytest.raises(RegardError, match=r"a run with data\.kind spoken-place"):
        picture_of_place(run)


def test_every_label_is_counted_as_often_as_it_is_drawn(spoken):
    found = prepare(places(spoken, {"samples": 32}), Report())
    labels = found.train.batch(range(32)).labels
    assert list(found.classes.values()) == labels.bincount().tolist()
    found = prepare(recipe(spoken, {"samples": 33}), Report())
    labels = found.train.batch(range(33)).labels
    assert [found.classes[name] for name in found.labels] == labels.bincount().tolist()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"data": {"kind": "spoken-place"}},
            "model.first=image, model.second=sound: this data is of sound and text, in this order",
        ),
        (
            {"data": {"kind": "spoken-digits"}},
            "its data is same, pairs of a picture and a sound, or spoken-place",
        ),
        ({"model": {"kind": "vision", **MODEL}}, "data.kind same with model.kind vision: it reads a picture"),
        ({"model": {"kind": "hearing", **MODEL}}, "data.kind same with model.kind hearing: it reads a sound"),
        ({"model": {"kind": "transcriber", **MODEL}}, "data.kind same with model.kind transcriber"),
        (
            {"model": {"kind": "fusion", "first": "sound", "second": "image", **MODEL}},
            "image and sound, in this order",
        ),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(spoken, changes, said):
    with pytest.raises(RegardError) as error:
        prepare(recipe(spoken, **{"data": None, **changes}), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)
