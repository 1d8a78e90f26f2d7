"""Files that changed between two halves of a training are named."""

from pathlib import Path

import pytest
from runs.small import classification, language, numbers, trained, write_table, write_text

from regard.runs.folder import RunFolder
from regard.training.experiment import resume
from regard.training.sources import changed_sources, keep_sources, sources_of


def test_a_text_that_changed_is_said_when_its_run_goes_on(tmp_path: Path) -> None:
    text, said = write_text(tmp_path), []
    run = trained(language(text), tmp_path / "run")
    resume(run, device="cpu", changes=["training.steps=5"], say=said.append)
    assert not [line for line in said if "changed" in line]
    text.write_text(text.read_text() + "\nand more")
    resume(run, device="cpu", changes=["training.steps=6"], say=said.append)
    size = text.stat().st_size
    assert (
        f"the data changed since this run began: {text} ({size - 9:,} bytes then, {size:,} now); "
        "it goes on with what is there now"
    ) in said


def kept(tmp_path: Path, recipe) -> RunFolder:  # type: ignore[no-untyped-def]
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    keep_sources(run, recipe)
    return run


def test_other_contents_of_the_same_size_are_noticed_and_a_touch_is_not(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    run = kept(tmp_path, classification(table))
    table.touch()
    assert changed_sources(run, classification(table)) is None
    table.write_text(table.read_text().replace("aeiou", "uoiea"))
    assert f"{table} (other contents)" in str(changed_sources(run, classification(table)))


def test_a_file_that_moved_is_the_same(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    run = kept(tmp_path, classification(table))
    moved = table.rename(tmp_path / "elsewhere.tsv")
    assert changed_sources(run, classification(moved)) is None


def test_of_a_folder_names_and_sizes_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.png").write_bytes(b"123")
    recipe = numbers(data={"kind": "images", "train": str(folder)}, model={"kind": "vision"})
    run = kept(tmp_path, recipe)
    assert changed_sources(run, recipe) is None
    (folder / "cat" / "2.png").write_bytes(b"1")
    assert f"{folder} (1 files then, 2 now)" in str(changed_sources(run, recipe))


def test_two_files_and_a_folder_that_paths_begin_at(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "b.en", "b.de"):
        (tmp_path / name).write_text(name)
    data = {"kind": "pairs", "folder": str(tmp_path), "train": {"source": "a.en", "target": "a.de"}}
    data["valid"] = {"source": "b.en", "target": "b.de"}
    names = [Path(each["path"]).name for each in sources_of(numbers(data=data))]
    assert names == ["a.en", "a.de", "b.en", "b.de"]


def test_made_data_has_no_files_and_older_runs_know_of_none(tmp_path: Path) -> None:
    run = kept(tmp_path, numbers())
    assert not run.data.exists()
    assert changed_sources(run, classification(write_table(tmp_path))) is None


@pytest.mark.parametrize("written", ['{"files": 3}', "{}"])
def test_what_is_no_list_of_files_is_not_compared(written: str, tmp_path: Path) -> None:
    run = kept(tmp_path, numbers())
    run.data.write_text(written)
    assert changed_sources(run, classification(write_table(tmp_path))) is None
