"""Recordings are read, split and sorted: spoken digits by speaker, one's own by folder or table."""

import pytest
import torch
from runs.small import MODEL, TRAINING, hearing, trained, write_spoken

from regard import RegardError
from regard.data.audio import Recording, read_recording, tone, wav_of
from regard.data.text_lines import Report
from regard.runs.evaluation import evaluate_run
from regard.runs.load import load
from regard.runs.recipe import resolve
from regard.runs.settings import SoundData, SpokenData
from regard.runs.tasks import prepare
from regard.runs.tasks.sounds import pools_of


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    return write_spoken(tmp_path_factory.mktemp("sounds"))


@pytest.fixture
def folder(tmp_path):
    """Low and high tones, in a folder a class, at two rates."""
    for name, frequency in (("low", 200.0), ("high", 1800.0)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(20):
            rate = (8000, 16000)[number % 2]
            samples = tone(frequency + number, seconds=0.05, rate=rate)
            (tmp_path / "own" / name / f"{number}.wav").write_bytes(wav_of(Recording(samples, rate)))
    return tmp_path / "own"


def test_the_speaker_of_the_test_is_never_trained_on(spoken):
    pools = pools_of(SpokenData(train=str(spoken), speaker="bo"), Report(), rate=8000)
    assert [len(pools[split].told) for split in ("train", "valid", "test")] == [90, 10, 100]
    first = read_recording(str(spoken / "0_bo_0.wav")).samples
    assert torch.equal(pools["test"].inputs.at([0])[0], first)
    assert sorted(set(pools["train"].told)) == [str(digit) for digit in range(10)]


def test_what_a_transcriber_learns_of_a_digit_is_its_word(spoken):
    pools = pools_of(SpokenData(train=str(spoken), speaker="bo"), Report(), rate=8000, told="text")
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


def test_recordings_come_at_the_rate_of_the_model(folder):
    pools = pools_of(SoundData(train=str(folder), held_out=0.2), Report(), rate=4000)
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


def test_ones_own_recordings_are_sorted_and_transcribed(folder, tmp_path):
    data = {"kind": "sounds", "train": str(folder), "held_out": 0.2}
    sorting = {"data": data, "model": {"kind": "hearing", "bands": 8, **MODEL}}
    run = trained(resolve({**sorting, "training": {**TRAINING, "batch": 8}}), tmp_path / "sorted")
    assert load(run).labels == ["high", "low"]
    table = folder / "said.csv"
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
    files = [str(folder / "low" / "0.wav"), str(folder / "high" / "1.wav")]
    together = scribe.transcribe(files, beam=2)
    assert together == [scribe.transcribe([file], beam=2)[0] for file in files]
    assert {metric.name for metric in evaluate_run(run, beam=2)} == {"wer", "cer", "exact"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"kind": "digits"}}, "hearing listens to recordings"),
        ({"data": {"kind": "sounds", "train": "nowhere"}}, "nowhere: no such file or folder"),
        ({"data": {"kind": "spoken-digits", "train": "nowhere.zip"}}, "nowhere.zip: no such file or folder"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(spoken, changes, said):
    with pytest.raises(RegardError) as error:
        prepare(hearing(spoken, **changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_speaker_who_is_not_there_is_named_with_those_who_are(spoken):
    data = {"kind": "spoken-digits", "train": str(spoken), "speaker": "cy"}
    with pytest.raises(RegardError, match="al, bo"):
        prepare(hearing(spoken, data=data), Report())
