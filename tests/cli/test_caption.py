"""Pictures and recordings on the command line: caption, transcribe, classify."""

import json

import pytest
from cli.test_verbs import piped, refused, said
from PIL import Image
from runs.small import MODEL, TRAINING, hearing, reader, trained, write_spoken

from regard.cli import app
from regard.data.digits import digits
from regard.runs.load import load
from regard.runs.recipe import resolve


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs of every sense, a picture of a strip and one of a digit, and recordings."""
    folder = tmp_path_factory.mktemp("senses")
    spoken = write_spoken(folder)
    trained(reader(), folder / "reader")
    trained(hearing(spoken), folder / "hearing")
    tokens, telling = {"kind": "character"}, {"kind": "transcriber", "bands": 8, "decoder_depth": 1, **MODEL}
    trained(hearing(spoken, model=telling, tokens=tokens, decoding={"tokens": 6}), folder / "scribe")
    values = {
        "data": {"kind": "same", "train": str(spoken), "speaker": "bo", "samples": 16, "valid": 8, "test": 8},
        "model": {"kind": "fusion", "bands": 8, "patch": [4, 4], "fusion_depth": 1, **MODEL},
        "training": {**TRAINING, "batch": 8},
    }
    trained(resolve(values), folder / "same")
    vision = {"data": {"kind": "digits"}, "model": {"kind": "vision", "patch": [2, 2], **MODEL}}
    trained(resolve({**vision, "training": {**TRAINING, "batch": 32}}), folder / "digits")
    Image.new("L", (48, 8), 90).save(folder / "strip.png")
    Image.fromarray((digits()[0][0, 0] * 255).byte().numpy()).save(folder / "digit.png")
    return folder


def test_caption_says_what_the_model_says(capsys, place):
    expected = load(place / "reader", device="cpu").caption([place / "strip.png"])
    assert (
        said(capsys, "caption", place / "reader", place / "strip.png", "--device", "cpu")
        == f"{expected[0]}\n"
    )
    told = json.loads(
        said(capsys, "caption", place / "reader", place / "strip.png", "--json", "--n-best", "2")
    )
    assert told["file"] == str(place / "strip.png")
    assert len(told["texts"]) == 2


@pytest.mark.slow
def test_transcribe_reads_names_of_files_from_a_pipe(place):
    files = [str(place / "spoken" / f"{digit}_bo_0.wav") for digit in (3, 8)]
    done = piped("\n".join(files).encode(), "transcribe", place / "scribe")
    assert done.stdout.decode().split("\n") == [*load(place / "scribe").transcribe(files), ""]


@pytest.mark.parametrize(
    ("verb", "run", "files"),
    [
        ("caption", "reader", ["strip.png"]),
        ("transcribe", "scribe", ["spoken/4_bo_0.wav"]),
        ("classify", "hearing", ["spoken/4_bo_0.wav"]),
        ("classify", "digits", ["digit.png"]),
        ("classify", "same", ["digit.png", "spoken/4_bo_0.wav"]),
    ],
)
def test_each_can_draw_where_it_looked(capsys, place, tmp_path, verb, run, files):
    given = [place / file for file in files]
    said(capsys, verb, place / run, *given, "--picture", tmp_path / "looked.png")
    with Image.open(tmp_path / "looked.png") as drawn:
        assert min(drawn.size) > 100
    line = refused(capsys, verb, place / run, *given, *given, "--picture", tmp_path / "looked.png")
    assert "--picture draws one; 2 were given" in line


def test_classify_takes_pairs_two_by_two_or_by_a_tab(capsys, place):
    picture, sound = str(place / "digit.png"), str(place / "spoken" / "4_bo_0.wav")
    expected = load(place / "same", device="cpu").classify([(picture, sound)])[0]
    twice = said(capsys, "classify", place / "same", picture, sound, picture, sound, "--device", "cpu")
    assert twice.split() == [expected, expected]
    done = piped(f"{picture}\t{sound}\n".encode(), "classify", place / "same", "--json")
    assert json.loads(done.stdout)["files"] == [picture, sound]
    assert "two belong together" in refused(capsys, "classify", place / "same", picture)


def test_a_pair_is_looked_at(capsys, place, tmp_path):
    picture, sound = place / "digit.png", place / "spoken" / "4_bo_0.wav"
    page = tmp_path / "page.html"
    said(capsys, "look", place / "same", picture, sound, "--export", page)
    assert '"kind":"senses"' in page.read_text(encoding="utf-8")
    assert "two belong together" in refused(capsys, "look", place / "same", picture)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["caption", "hearing", "strip.png"], "cannot caption; it can classify"),
        (["transcribe", "reader", "strip.png"], "cannot transcribe; it can caption and score"),
        (["caption", "reader", "nowhere.png"], "nowhere.png: no such file"),
        (["caption", "reader", "spoken/4_bo_0.wav"], "4_bo_0.wav"),
        (["transcribe", "scribe", "strip.png"], "not a WAV file"),
        (["classify", "same", "spoken/4_bo_0.wav", "digit.png"], "4_bo_0.wav"),
    ],
)
def test_a_mistake_is_one_line(capsys, place, arguments, named):
    verb, run, *files = arguments
    assert named in refused(capsys, verb, place / run, *(place / file for file in files))


def test_every_verb_is_explained_with_examples():
    names = {command.callback.__name__ for command in app.registered_commands}
    assert {"caption", "transcribe", "classify"} <= names
