"""Two senses: pairs of a handwritten and a spoken digit, and what is left when a sense is taken away."""

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
from regard.training.experiment import prepare


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    return write_spoken(tmp_path_factory.mktemp("same"))


def recipe(place, data=None, **changes):
    values = {
        "data": {"kind": "same", "train": str(place), "speaker": "bo", "samples": 32, "valid": 8, "test": 8}
        | (data or {}),
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
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
        prepare(recipe(spoken, **changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)
