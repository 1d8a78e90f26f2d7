"""What is seen of data before they are tokenised."""

import numpy as np
import pytest
from PIL import Image
from runs.small import write_table, write_text

from regard.data.audio import Recording, tone, wav_of
from regard.errors import RegardError
from regard.runs.recipe import find
from regard.runs.tasks.survey import survey, vocabulary


@pytest.mark.parametrize(("letters", "size"), [(0, 300), (10_000, 400), (1_275_004, 4000), (10**10, 32_000)])
def test_the_vocabulary_grows_with_the_root_of_the_text(letters, size):
    assert vocabulary(letters) == size


def test_pairs_are_counted_and_few_held_out_of_many(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"word {n}\tmot {n}\n" for n in range(4000)), "utf-8")
    found = survey(find("translate", [f"data.train={path}", "data.held_out=0.4"]))
    count = int(found.told.split()[0].replace(",", ""))
    assert 600 < count < 1000  # a fifth of the sources: two parts of 40 % are held out
    assert found.settings["data.held_out"] <= 0.4
    assert 300 <= found.settings["tokens.size"] < 700


def test_a_short_stream_is_read_letter_by_letter_and_a_rich_one_is_not(tmp_path):
    short = survey(find("language", [f"data.train={write_text(tmp_path)}"]))
    assert short.settings["tokens.kind"] == "character"
    rich = tmp_path / "rich.txt"
    rich.write_text("".join(chr(0x4E00 + n) for n in range(2000)), "utf-8")
    assert "tokens.size" in survey(find("language", [f"data.train={rich}"])).settings


def test_labelled_texts(tmp_path):
    found = survey(find("classify", [f"data.train={write_table(tmp_path)}", "data.held_out=0.2"]))
    assert "texts of" in found.told


@pytest.mark.parametrize(
    ("mode", "size", "wanted", "patch"),
    [
        ("L", (28, 28), ([28, 28], 1), 7),
        ("RGB", (32, 32), ([32, 32], 3), 4),
        ("RGB", (300, 200), ([64, 64], 3), 8),
        ("L", (8, 8), ([8, 8], 1), 2),
    ],
)
def test_pictures_keep_their_usual_size_in_few_patches(tmp_path, mode, size, wanted, patch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for n in range(3):
            pixels = np.random.default_rng(n).integers(0, 255, (size[1], size[0], len(mode)), np.uint8)
            Image.fromarray(pixels.squeeze(), mode).save(tmp_path / name / f"{n}.png")
    found = survey(find("images", [f"data.train={tmp_path}"])).settings
    assert (found["data.size"], found["data.channels"]) == wanted
    assert found["model.patch"] == [patch, patch]


def test_recordings_keep_their_rate_up_to_a_limit(tmp_path):
    for name, rate in (("low", 8000), ("high", 44_100)):
        for label in ("a", "b"):
            (tmp_path / name / label).mkdir(parents=True)
            sound = Recording(tone(440.0, seconds=0.2, rate=rate), rate)
            (tmp_path / name / label / "x.wav").write_bytes(wav_of(sound))
    low, high = (
        survey(find("sounds", [f"data.train={tmp_path / name}"])).settings for name in ("low", "high")
    )
    assert (low["model.rate"], low["model.window"], low["model.hop"]) == (8000, 200, 80)
    assert high["model.rate"] == 16_000


def test_data_that_are_made_are_not_planned():
    with pytest.raises(
        RegardError, match=r"plan: data\.kind numbers with model\.kind transformer is not planned"
    ):
        survey(find("numbers"))
