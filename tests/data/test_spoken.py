import zipfile
from pathlib import Path

import pytest
import torch

from regard import RegardError
from regard.data.audio import Recording, tone, wav_of
from regard.data.spoken import by_speaker, read_spoken_digits, recordings_place, speakers_of
from regard.data.text_lines import Report

REAL = Path(__file__).parents[3] / "shared" / "data" / "free-spoken-digits" / "recordings.zip"


def wav(digit: int) -> bytes:
    return wav_of(Recording(tone(200 + 50 * digit, seconds=0.05, rate=8_000), 8_000))


def packed(path, entries: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return str(path)


ENTRIES = {f"{digit}_{who}_{n}.wav": wav(digit) for digit in (7, 2) for who in ("zoe", "al") for n in (10, 2)}


def test_a_zip_file_and_a_folder_give_the_same_in_the_same_order(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, data in ENTRIES.items():
        (tmp_path / "folder" / name).write_bytes(data)
    first = read_spoken_digits(
        packed(tmp_path / "x.zip", {f"recordings/{name}": d for name, d in ENTRIES.items()})
    )
    second = read_spoken_digits(str(tmp_path / "folder"))
    told = [(each.digit, each.speaker, each.index) for each in first]
    assert told == [(each.digit, each.speaker, each.index) for each in second]
    assert told == [(d, who, n) for d in (2, 7) for who in ("al", "zoe") for n in (2, 10)]
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.samples, other.samples)
        torch.testing.assert_close(
            one.samples, tone(200 + 50 * one.digit, seconds=0.05, rate=8_000), rtol=0, atol=1e-4
        )


def test_no_speaker_is_on_both_sides(tmp_path):
    recordings = read_spoken_digits(packed(tmp_path / "x.zip", ENTRIES))
    assert speakers_of(recordings) == ["al", "zoe"]
    train, test = by_speaker(recordings, test="zoe")
    assert sorted(train + test) == [*range(8)]
    assert {recordings[n].speaker for n in test} == {"zoe"}
    assert {recordings[n].speaker for n in train} == {"al"}
    with pytest.raises(RegardError, match="test='eve': the speakers are al, zoe"):
        by_speaker(recordings, test="eve")


def test_what_cannot_be_used_is_named_or_counted(tmp_path):
    path = packed(
        tmp_path / "x.zip", {**ENTRIES, "notes.txt": b"x", "3_al_1.wav": b"", "4_al_1.wav": wav(4)[:50]}
    )
    with pytest.raises(RegardError, match=r"x\.zip/notes\.txt: not named"):
        read_spoken_digits(path)
    report = Report()
    assert len(read_spoken_digits(path, policy="skip", report=report)) == 8
    assert report.counts == {"name": 1, "empty": 1, "truncated": 1}


def test_a_damaged_entry_is_a_flaw_and_a_damaged_archive_an_error(tmp_path):
    path = Path(packed(tmp_path / "x.zip", ENTRIES))
    data = bytearray(path.read_bytes())
    data[60:80] = bytes(20)  # inside the first recording
    path.write_bytes(data)
    with pytest.raises(RegardError, match=r"7_zoe_10\.wav: cannot be unpacked"):
        read_spoken_digits(str(path))
    assert len(read_spoken_digits(str(path), policy="skip")) == 7
    path.write_bytes(data[:200])
    with pytest.raises(RegardError, match="cannot be read as a zip file"):
        read_spoken_digits(str(path))
    with pytest.raises(RegardError, match="no such file or folder"):
        read_spoken_digits(str(tmp_path / "none"))


def test_an_entry_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.spoken._MOST", 1_000)
    with pytest.raises(RegardError, match="more than"):
        read_spoken_digits(packed(tmp_path / "x.zip", {"1_al_1.wav": bytes(2_000)}))


@pytest.mark.skipif(not REAL.exists(), reason="the free spoken digits are not here")
def test_the_real_set_is_whole():
    recordings = read_spoken_digits(str(REAL))
    assert len(recordings) == 3_000
    assert {each.rate for each in recordings} == {8_000}
    assert len(speakers_of(recordings)) == 6
    assert all(len(by_speaker(recordings, test=who)[1]) == 500 for who in speakers_of(recordings))


def unpacked(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, data in ENTRIES.items():
        (folder / name).write_bytes(data)
    return folder


TOP = "free-spoken-digit-dataset-master"


@pytest.mark.parametrize(
    "shipped",
    ["recordings.zip", "recordings", f"{TOP}/recordings", f"{TOP}/recordings.zip", f"{TOP}.zip", "."],
)
def test_the_recordings_are_found_as_the_data_set_ships_them(tmp_path, shipped):
    """By the folder alone, whose recordings.zip is what recipes ask for."""
    place = tmp_path / "data" / shipped
    if shipped == f"{TOP}.zip":
        place.parent.mkdir()
        files = {f"{TOP}/recordings/{name}": data for name, data in ENTRIES.items()}
        packed(place, {f"{TOP}/README.md": b"about", f"{TOP}/utils/trimmer.py": b"x", **files})
    elif place.suffix == ".zip":
        place.parent.mkdir(parents=True)
        packed(place, ENTRIES)
    else:
        unpacked(place)
        if place.name == "recordings":
            (place.parent / "README.md").write_text("about")
    for asked in (tmp_path / "data" / "recordings.zip", tmp_path / "data"):
        found = recordings_place(str(asked))
        assert Path(found) == place
        assert len(read_spoken_digits(found)) == 8


def test_recordings_that_are_nowhere_are_missed_by_name(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(
        RegardError, match=r"data: no recordings\.zip and no folder recordings in it; fetch github"
    ):
        recordings_place(str(tmp_path / "data" / "recordings.zip"))
    other = str(tmp_path / "data" / "mine.zip")  # a name of one's own means that file and no other
    unpacked(tmp_path / "data" / "recordings")
    assert recordings_place(other) == other
    gone = str(tmp_path / "gone" / "recordings.zip")
    with pytest.raises(RegardError, match="no such file or folder"):
        read_spoken_digits(recordings_place(gone))
