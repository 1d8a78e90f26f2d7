import os

import pytest

from regard import RegardError
from regard.data import files
from regard.data.files import Told, bytes_of, only_sound, read_folder, read_table
from regard.data.text_lines import Flaw, Report


def judge(data: bytes) -> bytes | Flaw:
    return Flaw("bad", "bad") if data == b"bad" else data


@pytest.fixture
def folder(tmp_path):
    for name, content in [
        ("zebra/1", "a"),
        ("ant/b", "b"),
        ("ant/a", "c"),
        ("ant/.hidden", "d"),
        (".git/x", "e"),
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_folders_are_classes_in_sorted_order(folder):
    told = read_folder(str(folder))
    assert [(os.path.relpath(each.path, folder), each.text) for each in told] == [
        ("ant/a", "ant"), ("ant/b", "ant"), ("zebra/1", "zebra"),
    ]  # fmt: skip


@pytest.mark.parametrize("make", ["file", "nested", "loop", "upwards"])
def test_what_is_no_class_or_no_sample_is_refused_or_counted(folder, make):
    match make:
        case "file":
            (folder / "stray").write_text("x")
        case "nested":
            (folder / "ant" / "deeper").mkdir()
        case "loop":
            (folder / "round").symlink_to(folder / "round")
        case "upwards":
            (folder / "ant" / "up").symlink_to(folder)
    with pytest.raises(RegardError, match=r'(stray|deeper|round|up): .*the policy "skip" would drop'):
        read_folder(str(folder))
    report = Report()
    assert len(read_folder(str(folder), policy="skip", report=report)) == 3
    assert report.total == 1


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(RegardError, match="no files in it"):
        read_folder(str(tmp_path))
    with pytest.raises(RegardError, match="nowhere: this folder cannot be read"):
        read_folder(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".tsv", "\t")])
def test_a_table_names_files_beside_it(tmp_path, suffix, mark):
    table = tmp_path / f"captions{suffix}"
    table.write_text(f"text{mark}file\na dog{mark}1.png\nun chat{mark}sub/2.png\n")
    told = read_table(str(table))
    assert told == [Told(str(tmp_path / "1.png"), "a dog"), Told(str(tmp_path / "sub/2.png"), "un chat")]
    assert [each.text for each in read_table(str(table), columns=[2, 1])] == ["a dog", "un chat"]


def test_a_table_may_have_labels(tmp_path):
    (tmp_path / "t.csv").write_text("file,label\na,7\n")
    assert read_table(str(tmp_path / "t.csv"), usual=("file", "label"))[0].text == "7"


@pytest.mark.parametrize("file", ["/etc/passwd", "../x", "a/../../x", ""])
def test_a_table_names_nothing_outside_its_folder(tmp_path, file):
    table = tmp_path / "t.tsv"
    table.write_text(f"file\ttext\n{file}\tx\ngood\ty\n")
    with pytest.raises(RegardError, match=r"t\.tsv:2: "):
        read_table(str(table))
    report = Report()
    assert [each.text for each in read_table(str(table), policy="skip", report=report)] == ["y"]
    assert report.total == 1


def test_what_is_no_readable_file_is_a_flaw_and_never_waited_for(tmp_path, monkeypatch):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    monkeypatch.setattr(files, "MAX_BYTES", 4)
    kinds = {
        name: bytes_of(str(tmp_path / name)) for name in ["empty", "loop", "pipe", "large", "none", "a\0b"]
    }
    assert {name: flaw.kind for name, flaw in kinds.items()} == {
        "empty": "empty", "loop": "unreadable", "pipe": "not a file", "large": "too large", "none": "missing",
        "a\0b": "unreadable",
    }  # fmt: skip


def test_only_what_is_sound_is_kept_and_the_rest_is_counted_by_kind(tmp_path):
    told = []
    for name, content in [("a", b"x"), ("b", b"bad"), ("c", b""), ("d", b"y")]:
        (tmp_path / name).write_bytes(content)
        told.append(Told(str(tmp_path / name), name))
    with pytest.raises(RegardError, match=r"/b: bad, stopped there"):
        only_sound(told, judge)
    report = Report()
    assert [each.text for each in only_sound(told, judge, policy="skip", report=report)] == ["a", "d"]
    assert report.counts == {"bad": 1, "empty": 1}
    assert str(report.first[0]) == f"{tmp_path}/b: bad, file dropped"
    with pytest.raises(RegardError, match="none of 1 files"):
        only_sound(told[1:2], judge, policy="skip")
