"""Going on with a run: nothing is done twice, and what may change on the way is known."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from runs.small import TRAINING, classification, language, numbers, trained, write_table, write_text
from training.toys import Notebook

import regard.training.experiment as experiment
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.training.experiment import begin, resume
from regard.training.log import Log
from regard.training.resuming import changed_sources, keep_sources, sources_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(numbers(), tmp_path_factory.mktemp("runs") / "finished")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of four updates."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def written(run: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(each): (each.stat().st_mtime_ns, each.read_bytes()) for each in run.rglob("*") if each.is_file()
    }


def weights(run: Path) -> bytes:
    return RunFolder(run).weights.read_bytes()


def test_a_finished_run_is_left_as_it_is(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "prepare", None)  # no data is read
    before = written(run)
    again = resume(run, device="cpu")
    assert written(run) == before
    assert again.already
    assert again.outcome.step == 4
    assert {metric.name for metric in again.metrics} == {"bleu", "chrf", "exact"}


def test_what_a_kill_left_half_written_in_a_finished_run_is_removed(run: Path) -> None:
    before = written(run)
    (run / "curves.png.4711.part").write_bytes(b"half")
    assert resume(run, device="cpu").already
    assert written(run) == before


def test_a_finished_run_without_its_checkpoints_is_finished_too(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    assert resume(run, device="cpu").already
    with pytest.raises(RegardError, match=r"is finished and has no checkpoint to go on from"):
        resume(run, device="cpu", changes=["training.steps=8"])


def test_a_finished_run_is_extended_to_what_it_would_have_been(run: Path, tmp_path: Path) -> None:
    whole = trained(numbers(training={**TRAINING, "steps": 8}), tmp_path / "whole")
    said: list[str] = []
    extended = resume(run, device="cpu", changes=["training.steps=8"], say=said.append, observers=logged)
    assert "training.steps: 4 → 8" in said
    assert extended.outcome.step == 8
    assert weights(run) == weights(whole)
    assert (run / "recipe.yaml").read_text() == (whole / "recipe.yaml").read_text()
    assert "- updates: 8" in (run / "README.md").read_text()
    assert resume(run, device="cpu").already


def logged(run: RunFolder) -> list[Log]:
    return [Log(run.log)]


def test_an_extension_that_was_interrupted_is_not_taken_for_finished(run: Path, tmp_path: Path) -> None:
    class Stops(Log):
        def stepped(self, update) -> None:  # type: ignore[no-untyped-def]
            super().stepped(update)
            if update.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)

    stopped = resume(run, device="cpu", changes=["training.steps=8"], observers=lambda run: [Stops(run.log)])
    assert (stopped.outcome.stopped, stopped.outcome.step) == (True, 6)
    assert not (run / "README.md").exists()
    resumed = resume(run, device="cpu")
    assert (resumed.already, resumed.outcome.step) == (False, 8)
    assert weights(run) == weights(trained(numbers(training={**TRAINING, "steps": 8}), tmp_path / "whole"))


def test_decoding_is_changed_without_training_again(run: Path) -> None:
    notes = Notebook()
    before = weights(run)
    changed = resume(run, device="cpu", changes=["decoding.beam=3"], observers=lambda run: [notes])
    assert (changed.already, notes.updates, weights(run) == before) == (False, [], True)
    assert RunFolder(run).load_generation()["num_beams"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "model.width=32",
            "model.width cannot be changed on resuming: train a new run. These can: training.steps, ",
        ),
        ("training.batch=64", "training.batch cannot be changed on resuming"),
        ("training.averaging.ema=0.9", "training.averaging.ema cannot be changed on resuming"),
        ("training.best=bleu", "training.best cannot be changed on resuming"),
        ("data.train=61", "data.train cannot be changed on resuming"),
        ("seed=9", "seed cannot be changed on resuming"),
        ("training.steps=3", "training.steps=3: .*run has made 4 updates already"),
        ("training.stps=8", r"training\.stps: no such setting; did you mean steps"),
    ],
)
def test_what_made_a_run_what_it_is_cannot_be_changed(change: str, said: str, run: Path) -> None:
    before = written(run)
    with pytest.raises(RegardError, match=said):
        resume(run, device="cpu", changes=[change])
    assert written(run) == before


def test_a_change_to_what_is_so_already_is_none(run: Path) -> None:
    assert resume(run, device="cpu", changes=["training.steps=4", "model.width=16"]).already


def test_a_signal_while_data_is_read_leaves_a_folder_that_can_be_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "prepare", lambda *a, **k: os.kill(os.getpid(), signal.SIGTERM))
        stopped = begin(numbers(), tmp_path / "run", device="cpu")
    assert (stopped.outcome.stopped, stopped.outcome.step) == (True, 0)
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["checkpoints"]
    assert begin(numbers(), tmp_path / "run", device="cpu").outcome.step == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_final_test_is_obeyed_and_resuming_tests_again_without_training(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    notes = Notebook()
    with monkeypatch.context() as patch:
        patch.setattr(experiment._Experiment, "_tested", lambda *arguments: os.kill(os.getpid(), number))
        stopped = begin(numbers(), tmp_path / "run", device="cpu")
    assert (stopped.outcome.stopped, stopped.outcome.step, stopped.metrics) == (True, 4, ())
    assert not (tmp_path / "run" / "README.md").exists()
    resumed = resume(tmp_path / "run", device="cpu", observers=lambda run: [notes])
    assert (notes.updates, resumed.outcome.stopped) == ([], False)
    assert weights(tmp_path / "run") == weights(finished)
    assert (tmp_path / "run" / "README.md").exists()


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
