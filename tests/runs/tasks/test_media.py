"""Pools of pictures and recordings."""

import gzip
import random
import struct

import pytest
import torch
from PIL import Image
from runs.small import MODEL, TRAINING, hearing, trained, write_spoken

from regard import RegardError
from regard.data.audio import Recording, read_recording, tone, wav_of
from regard.data.digits import digit_split, digits
from regard.data.media_feeds import HeldPictures
from regard.data.text_lines import Report
from regard.runs.evaluation import evaluate_run
from regard.runs.load import load
from regard.runs.recipe import resolve
from regard.runs.settings import DigitData, ImageData, SoundData, SpokenData
from regard.runs.tasks.media import Pool, completed, picture_pools, sound_pools
from regard.training.experiment import prepare


def splits(names: list[str]) -> dict[str, str]:
    """The split of each name."""
    pool = Pool(HeldPictures(torch.zeros(len(names), 1, 2, 2)), ["told"] * len(names), names)
    found = completed({"train": pool}, 0.2)
    return {name: split for split, some in found.items() for name in some.names}


def test_neither_order_nor_company_moves_a_sample_between_splits() -> None:
    names = [f"class {number % 3}/{number}.png" for number in range(200)]
    first = splits(names)
    assert {
        split: list(first.values()).count(split) > 10 for split in ("train", "valid", "test")
    } == dict.fromkeys(("train", "valid", "test"), True)
    shuffled = random.Random(3).sample(names, len(names))
    assert splits(shuffled) == first
    more = splits(["class 0/new.png", *names])
    assert {name: more[name] for name in names} == first


SMALL = {"kind": "vision", **MODEL, "patch": [2, 2]}


def recipe(**changes):
    values = {"data": {"kind": "digits"}, "model": SMALL, "training": {**TRAINING, "batch": 32}}
    return resolve({**values, **changes})


@pytest.fixture
def folder(tmp_path):
    """Twenty dark and twenty light pictures, in a folder a class."""
    for name, light in (("dark", 20), ("light", 230)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(20):
            Image.new("L", (9, 7), light + number % 3).save(tmp_path / "own" / name / f"{number}.png")
    return tmp_path / "own"


def test_the_digits_of_the_test_are_never_trained_on():
    pools, split = picture_pools(DigitData(), Report()), digit_split()
    pixels, labels = digits()
    assert torch.equal(pools["test"].inputs.at([0, 5]), pixels[[split.test[0], split.test[5]]])
    assert list(pools["train"].told) == [str(int(labels[number])) for number in split.train]
    assert [len(pools[part].told) for part in ("train", "valid", "test")] == [1259, 179, 359]


@pytest.mark.parametrize(
    "model", [SMALL, {"kind": "convolution", "widths": [8, 8], "strides": [1, 2], "units": 1}]
)
def test_a_trained_viewer_answers_files_and_tensors_alike(tmp_path, model):
    viewer = load(trained(recipe(model=model), tmp_path / "run"), device="cpu")
    assert viewer.labels == [str(digit) for digit in range(10)]
    pixels = digits()[0][0]
    Image.fromarray((pixels[0] * 255).round().byte().numpy()).save(tmp_path / "digit.png")
    from_file, from_tensor = viewer.probabilities([tmp_path / "digit.png", pixels])
    assert sum(from_tensor.values()) == pytest.approx(1, abs=1e-5)
    assert from_file == pytest.approx(from_tensor, abs=0.01)
    assert viewer.classify([pixels]) == [max(from_tensor, key=from_tensor.get)]


def test_a_folder_of_folders_is_split_by_the_names_of_its_files(folder):
    data = ImageData(train=str(folder), size=(8, 8), channels=1, held_out=0.2)
    pools = picture_pools(data, Report())
    names = [set(pools[split].names) for split in ("train", "valid", "test")]
    assert sum(map(len, names)) == len(set.union(*names)) == 40
    again = picture_pools(data, Report())
    assert all(pools[split].names == again[split].names for split in pools)
    light = [pools["train"].told.index("light")]
    assert pools["train"].inputs.at(light).mean() > 0.8


def test_a_run_of_ones_own_pictures_is_evaluated_on_its_own_and_on_others(folder, tmp_path):
    data = {"kind": "images", "train": str(folder), "size": [8, 8], "channels": 1, "held_out": 0.2}
    run = trained(recipe(data=data), tmp_path / "run")
    assert load(run).labels == ["dark", "light"]
    assert {metric.name for metric in evaluate_run(run)} == {"loss", "perplexity", "accuracy"}
    assert evaluate_run(run, on=str(folder))[0].value > 0


def test_a_picture_that_cannot_be_used_is_named_or_left_out(folder):
    (folder / "dark" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n1234")
    data = {"kind": "images", "train": str(folder), "size": [8, 8], "channels": 1, "held_out": 0.2}
    with pytest.raises(RegardError, match=r"broken\.png"):
        prepare(recipe(data=data), Report())
    report = Report()
    prepare(recipe(data={**data, "policy": "skip"}), report)
    assert report.total == 1


def test_files_of_the_mnist_family_bring_their_own_test(tmp_path):
    for part, count in (("train", 60), ("t10k", 10)):
        pixels = bytes(range(28)) * 28 * count
        files = {
            f"{part}-images-idx3-ubyte.gz": struct.pack(">IIII", 0x803, count, 28, 28) + pixels,
            f"{part}-labels-idx1-ubyte.gz": struct.pack(">II", 0x801, count)
            + bytes(n % 3 for n in range(count)),
        }
        for name, content in files.items():
            (tmp_path / name).write_bytes(gzip.compress(content))
    pools = picture_pools(ImageData(train=str(tmp_path), size=(28, 28), channels=1, held_out=0.2), Report())
    assert len(pools["test"].told) == 10
    assert len(pools["train"].told) + len(pools["valid"].told) == 60
    with pytest.raises(RegardError, match=r"set data\.size=\[28,28\] and data\.channels=1"):
        picture_pools(ImageData(train=str(tmp_path)), Report())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"kind": "language"}}, "a language model reads text"),
        ({"model": {"kind": "hearing"}}, "it reads a sound; pictures are in digits and images"),
        ({"data": {"kind": "images", "train": "nowhere"}}, "nowhere: no such file or folder"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(changes, said):
    with pytest.raises(RegardError) as error:
        prepare(recipe(**changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_pictures_are_refused_by_name(tmp_path):
    viewer = load(trained(recipe(), tmp_path / "run"))
    with pytest.raises(RegardError, match="put it in brackets"):
        viewer.classify("a.png")
    with pytest.raises(RegardError, match=r"shape \[3, 8, 8\]: this model takes \[1, 8, 8\]"):
        viewer.classify([torch.rand(3, 8, 8)])
    with pytest.raises(RegardError, match=r"nowhere\.png"):
        viewer.classify(["nowhere.png"])


@pytest.mark.parametrize("told", ["label", "caption"])
def test_a_table_of_pictures_has_classes_or_captions_by_their_usual_names(tmp_path, told):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    files = []
    for number in range(60):
        path = tmp_path / f"{number}.png"
        Image.new("L", (4, 4), 4 * number).save(path)
        files.append(path.read_bytes())
    texts = {name: [f"{name} {number}" for number in range(60)] for name in ("label", "caption")}
    parquet.write_table(pyarrow.table({"image": files, **texts}), tmp_path / "all.parquet")
    data = ImageData(train=str(tmp_path / "all.parquet"), size=(4, 4), channels=1, held_out=0.2)
    pools = picture_pools(data, Report(), told=told)
    found = [
        (text, pool.batch([at]).pixels[0, 0, 0, 0])
        for pool in pools.values()
        for at, text in enumerate(pool.told)
    ]
    assert len(found) == 60
    for text, pixel in found:
        name, number = text.split()
        assert name == told
        assert round(pixel.item() * 255) == 4 * int(number)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    return write_spoken(tmp_path_factory.mktemp("sounds"))


@pytest.fixture
def sound_folder(tmp_path):
    """Low and high tones, in a sound_folder a class, at two rates."""
    for name, frequency in (("low", 200.0), ("high", 1800.0)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(20):
            rate = (8000, 16000)[number % 2]
            samples = tone(frequency + number, seconds=0.05, rate=rate)
            (tmp_path / "own" / name / f"{number}.wav").write_bytes(wav_of(Recording(samples, rate)))
    return tmp_path / "own"


def test_the_speaker_of_the_test_is_never_trained_on(spoken):
    pools = sound_pools(SpokenData(train=str(spoken), speaker="bo"), Report(), rate=8000)
    assert [len(pools[split].told) for split in ("train", "valid", "test")] == [90, 10, 100]
    first = read_recording(str(spoken / "0_bo_0.wav")).samples
    assert torch.equal(pools["test"].inputs.at([0])[0], first)
    assert sorted(set(pools["train"].told)) == [str(digit) for digit in range(10)]


def test_what_a_transcriber_learns_of_a_digit_is_its_word(spoken):
    pools = sound_pools(SpokenData(train=str(spoken), speaker="bo"), Report(), rate=8000, told="text")
    assert pools["test"].told[::10] == [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
    ]


def test_recordings_come_at_the_rate_of_the_model(sound_folder):
    pools = sound_pools(SoundData(train=str(sound_folder), held_out=0.2), Report(), rate=4000)
    lengths = {len(sound) for split in pools.values() for sound in split.inputs.at(range(len(split.told)))}
    assert lengths == {200}
    names = [set(pools[split].names) for split in ("train", "valid", "test")]
    assert sum(map(len, names)) == len(set.union(*names)) == 40


def test_a_trained_listener_answers_files_and_tensors_alike(spoken, tmp_path):
    run = trained(hearing(spoken), tmp_path / "run")
    listener = load(run, device="cpu")
    path = spoken / "3_bo_1.wav"
    from_file, from_tensor = listener.probabilities([path, read_recording(str(path)).samples])
    assert from_file == pytest.approx(from_tensor)
    assert listener.classify([str(path)]) == [max(from_file, key=from_file.get)]
    assert evaluate_run(run)[0].value > 0
    with pytest.raises(RegardError, match="samples in a row, 8000 a second"):
        listener.classify([torch.zeros(2, 100)])
    with pytest.raises(
        RegardError, match=r"--on elsewhere: the test data of spoken-digits is always its own"
    ):
        evaluate_run(run, on="elsewhere")


def test_ones_own_recordings_are_sorted_and_transcribed(sound_folder, tmp_path):
    data = {"kind": "sounds", "train": str(sound_folder), "held_out": 0.2}
    sorting = {"data": data, "model": {"kind": "hearing", "bands": 8, **MODEL}}
    run = trained(resolve({**sorting, "training": {**TRAINING, "batch": 8}}), tmp_path / "sorted")
    assert load(run).labels == ["high", "low"]
    table = sound_folder / "said.csv"
    rows = [f'{name}/{number}.wav,"so {name}"' for name in ("low", "high") for number in range(20)]
    table.write_text("file,text\n" + "\n".join(rows) + "\n")
    telling = {
        "data": {**data, "train": str(table)},
        "tokens": {"kind": "character"},
        "model": {"kind": "transcriber", "decoder_depth": 1, "bands": 8, **MODEL},
        "training": {**TRAINING, "batch": 8},
        "decoding": {"tokens": 8},
    }
    run = trained(resolve(telling), tmp_path / "told")
    scribe = load(run, device="cpu")
    files = [str(sound_folder / "low" / "0.wav"), str(sound_folder / "high" / "1.wav")]
    together = scribe.transcribe(files, beam=2)
    assert together == [scribe.transcribe([file], beam=2)[0] for file in files]
    assert {metric.name for metric in evaluate_run(run, beam=2)} == {"wer", "cer", "exact"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"kind": "digits"}}, "recordings in sounds and spoken-digits"),
        ({"data": {"kind": "sounds", "train": "nowhere"}}, "nowhere: no such file or folder"),
        (
            {"data": {"kind": "spoken-digits", "train": "nowhere.zip"}},
            "nowhere.zip: no such file or folder",
        ),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line_for_sounds(spoken, changes, said):
    with pytest.raises(RegardError) as error:
        prepare(hearing(spoken, **changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_speaker_who_is_not_there_is_named_with_those_who_are(spoken):
    data = {"kind": "spoken-digits", "train": str(spoken), "speaker": "cy"}
    with pytest.raises(RegardError, match="al, bo"):
        prepare(hearing(spoken, data=data), Report())
