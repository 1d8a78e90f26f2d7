"""Pictures are told of in words: made strips of digits, or one's own pictures and captions."""

import pytest
import torch
from PIL import Image
from runs.small import MODEL, TRAINING, reader, trained

from regard import RegardError
from regard.data.digits import digit_split, digits
from regard.data.numbers import french
from regard.data.text_lines import Report
from regard.runs.evaluation import evaluate_run
from regard.runs.load import load
from regard.runs.tasks.description import splits_of
from regard.training.experiment import prepare


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(reader(), tmp_path_factory.mktemp("reader") / "run")


def asked(split, recipe=None):
    """All strips of a split, their names and texts."""
    parts = [*splits_of(recipe or reader(), Report())[split].questions()]
    pixels = torch.cat([part.source.pixels for part in parts])
    return pixels, [name for part in parts for name in part.names], [t for part in parts for t in part.texts]


def test_the_strips_of_the_test_are_written_with_digits_of_the_test():
    pixels, labels = digits()
    hands = {
        split: {pixels[number].numpy().tobytes() for number in getattr(digit_split(), split)}
        for split in ("train", "valid", "test")
    }
    for split in ("valid", "test"):
        strips, names, texts = asked(split)
        assert texts == [french(int(name)) for name in names]
        for strip, name in zip(strips, names, strict=True):
            for place, digit in enumerate(name):
                left = 48 - 8 * len(name) + 8 * place  # set to the right
                piece = strip[:, :, left : left + 8].contiguous()
                assert piece.numpy().tobytes() in hands[split] - hands["train"]
                which = next(n for n in getattr(digit_split(), split) if torch.equal(pixels[n], piece))
                assert labels[which] == int(digit)


def test_all_seeds_are_tested_on_the_same_strips():
    once, again = asked("test"), asked("test", reader(seed=7))
    assert torch.equal(once[0], again[0])
    assert once[1:] == again[1:]


def test_a_trained_reader_captions_files_and_tensors(run, tmp_path):
    describer = load(run, device="cpu")
    strips, _, texts = asked("test")
    Image.fromarray((strips[0, 0] * 255).round().byte().numpy()).save(tmp_path / "strip.png")
    assert describer.caption([tmp_path / "strip.png"]) == describer.caption([strips[0]])
    alone = [describer.hypotheses([strip], count=2)[0] for strip in strips]
    for one, many in zip(alone, describer.hypotheses([*strips], count=2), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in many]
    scores = describer.score([*strips[:2]], texts[:2])
    assert scores == pytest.approx([describer.score([strips[i]], [texts[i]])[0] for i in (0, 1)], abs=1e-4)
    with pytest.raises(RegardError, match="2 inputs but 1 texts"):
        describer.score([*strips[:2]], ["un"])


def test_a_reader_is_evaluated_on_its_test_strips_and_its_answers_are_written(run, tmp_path):
    strips, names, texts = asked("test")
    said = load(run, device="cpu").caption([*strips])
    metrics = {each.name: each.value for each in evaluate_run(run, device="cpu", answers=tmp_path / "a.tsv")}
    assert metrics["exact"] == sum(map(str.__eq__, said, texts)) / len(texts)
    rows = [line.split("\t") for line in (tmp_path / "a.tsv").read_text("utf-8").splitlines()[1:]]
    assert [row[0] for row in rows] == names
    assert [row[2] for row in rows] == said


@pytest.fixture
def table(tmp_path):
    """Forty pictures, light or dark, and what they are."""
    lines = ["file,caption"]
    for number in range(40):
        Image.new("RGB", (9, 9), (20 + 5 * number,) * 3).save(tmp_path / f"{number}.png")
        lines.append(f'{number}.png,"a picture, {"light" if number > 20 else "dark"}"')
    (tmp_path / "captions.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "captions.csv"


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "captioner", "patch": [4, 4], "decoder_depth": 1, **MODEL},
        {
            "kind": "recurrent-captioner",
            "tokens": "convolutional",
            "widths": [8],
            "strides": [4],
            "width": 16,
        },
    ],
)
def test_ones_own_pictures_and_captions(table, tmp_path, model):
    data = {"kind": "images", "train": str(table), "size": [8, 8], "held_out": 0.2}
    training = {**TRAINING, "batch": 8, "decode": 4, "best": "exact"}
    recipe = reader(data=data, model=model, training=training)
    prepared = prepare(recipe, Report())
    assert prepared.facts["training samples"] + prepared.facts["test samples"] < 40
    run = trained(recipe, tmp_path / "run")
    assert len(load(run).caption([table.parent / "3.png"])) == 1
    assert {metric.name for metric in evaluate_run(run, on=str(table))} == {"bleu", "chrf", "exact"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"kind": "digits"}}, "a captioner describes pictures (images, strips)"),
        ({"model": {"kind": "vision", **MODEL}}, "it reads a picture; pictures are in digits and images"),
        ({"training": {**TRAINING, "best": "exact"}}, "set training.decode"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(changes, said):
    with pytest.raises(RegardError) as error:
        prepare(reader(**changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)
