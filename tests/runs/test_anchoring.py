"""Relative paths of a recipe mean the same files from any folder."""

import shutil
from pathlib import Path

import pytest
from runs.small import classification, language, numbers, trained, write_table, write_text

from regard import RegardWarning
from regard.runs.anchoring import anchored, recorded
from regard.runs.evaluating import evaluate_run
from regard.runs.finding import find
from regard.runs.folder import RunFolder
from regard.runs.tasks.prepared import located
from regard.training.experiment import resume


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data and runs beside each other, and the command runs there."""
    (tmp_path / "project" / "data").mkdir(parents=True)
    write_table(tmp_path / "project" / "data")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_run_is_evaluated_and_resumed_from_any_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = classification(
        Path("table.tsv"), data={"kind": "labelled", "train": "table.tsv", "folder": "data", "held_out": 0.2}
    )
    run = trained(recipe, Path("runs/x")).resolve()
    here = evaluate_run("runs/x", device="cpu")
    monkeypatch.chdir("/")
    assert evaluate_run(run, device="cpu") == here
    resume(run, device="cpu")
    monkeypatch.chdir(project)
    again = trained(find(str(run / "recipe.yaml")), project.parent / "again")  # as the card says
    moved = shutil.move(run, project.parent / "moved")
    monkeypatch.chdir("/")
    assert evaluate_run(moved, device="cpu") == here == evaluate_run(again, device="cpu")


def test_a_project_that_was_moved_is_read_from_where_the_command_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(classification(Path("data/table.tsv")), Path("runs/x"))
    here = evaluate_run("runs/x", device="cpu")
    moved = shutil.move(project, project.with_name("elsewhere"))
    monkeypatch.chdir(moved)
    with pytest.warns(
        RegardWarning, match=f"base: {project}, where the relative paths .* is gone: taking {moved} for it"
    ):
        assert evaluate_run("runs/x", device="cpu") == here


def test_the_words_of_the_user_stay_in_the_recipe(project: Path) -> None:
    kept = recorded(classification(Path("data/table.tsv")))
    assert (kept.base, kept.data.train, kept.data.folder) == (str(project), "data/table.tsv", "")
    assert recorded(kept) == kept
    used = anchored(kept)
    assert located(used.data.folder, used.data.train) == str(project / "data" / "table.tsv")


def test_a_recipe_without_relative_paths_keeps_no_folder(tmp_path: Path) -> None:
    absolute = language(write_text(tmp_path))
    inside = language(Path("text.txt"), data={"kind": "text", "train": "text.txt", "folder": str(tmp_path)})
    home = language(Path("text.txt"), data={"kind": "text", "train": "~/text.txt"})
    for recipe in (numbers(), absolute, inside, home):
        assert recorded(recipe) == recipe == anchored(recipe)


@pytest.mark.parametrize("train", ["a.tsv", {"source": "a.en", "target": "/b.de"}])
def test_two_files_and_an_earlier_run_are_found_too(train: object) -> None:
    data = {"kind": "pairs", "train": train}
    kept = recorded(numbers(data=data, init={"run": "runs/general"}))
    assert kept.base == str(Path.cwd())
    assert anchored(kept).init.run == str(Path.cwd() / "runs" / "general")
    assert recorded(numbers(data=data)).base == str(Path.cwd())


def test_an_earlier_run_lends_its_weights_from_any_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(numbers(), Path("runs/first"))
    second = trained(numbers(init={"run": "runs/first"}), Path("runs/second")).resolve()
    monkeypatch.chdir("/")
    assert RunFolder(second).load_recipe().init.run == "runs/first"
    resume(second, device="cpu")
