"""A run that is not finished answers with its best checkpoint, and every verb takes a checkpoint."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from runs.small import TRAINING, numbers, trained
from safetensors.torch import load_file

from regard import RegardWarning
from regard.cli import main
from regard.errors import RegardError
from regard.runs.evaluation import evaluate_run
from regard.runs.load import chosen, load, run_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its best weights are not its last: the rate is far too large."""
    recipe = numbers(
        training={**TRAINING, "steps": 6, "learning_rate": 0.3, "warmup": 0, "schedule": "constant"}
    )
    return trained(recipe, tmp_path_factory.mktemp("runs") / "made")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """The run as it was before its end."""
    copy = Path(shutil.copytree(made, tmp_path / "run"))
    (copy / "model.safetensors").unlink()
    return copy


def test_an_unfinished_run_answers_with_its_best_checkpoint(run: Path) -> None:
    (file,) = (run / "checkpoints").glob("best-*")
    step = int(file.name.split("-")[1])
    with pytest.warns(RegardWarning) as told:
        found = load(run, device="cpu", optimise=False).model.state_dict()
    assert [str(each.message) for each in told] == [
        f"{run} is not finished: taking its best checkpoint, of step {step}; finish it with `regard resume {run}`"
    ]
    kept = load_file(file)
    assert all(torch.equal(found[name], kept[name]) for name in kept)


def test_where_nothing_was_evaluated_the_newest_whole_one_is_taken(run: Path) -> None:
    for file in (run / "checkpoints").glob("best-*"):
        file.unlink()
    with pytest.warns(RegardWarning, match="taking its newest checkpoint, of step 6;"):
        assert chosen(run).path.name.startswith("step-00000006")
    newest = next((run / "checkpoints").glob("step-00000006-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    said = rf"taking its newest checkpoint that is whole \({newest.name} is not\), of step 4;"
    with pytest.warns(RegardWarning, match=said):
        assert chosen(run).path.name.startswith("step-00000004")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RegardError, match="has no model yet: finish it with `regard resume"):
        load(run, device="cpu")


def test_verbs_say_once_that_a_run_is_not_finished(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["translate", str(run), "two", "--precision", "float32"], ["evaluate", str(run)]):
        with pytest.raises(SystemExit) as left:
            main([*verb, "--device", "cpu"])
        said = capsys.readouterr()
        assert left.value.code == 0
        assert re.fullmatch(
            r"regard: \S+ is not finished: taking its best checkpoint, of step \d; .*\n", said.err
        )
        assert said.out


def test_a_checkpoint_is_evaluated_as_it_was_then(made: Path) -> None:
    early = evaluate_run(made / "checkpoints" / "step-4", device="cpu")
    assert [metric.name for metric in early] == ["bleu", "chrf", "exact"]
    assert run_of(made / "checkpoints" / "step-4").path == made
    with pytest.raises(RegardError, match="step-5: there is no such checkpoint; there are step-4, step-6"):
        evaluate_run(made / "checkpoints" / "step-5")


def test_info_tells_of_a_checkpoint(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = sum(tensor.numel() for tensor in load_file(made / "model.safetensors").values())
    best = next((made / "checkpoints").glob("best-*"))
    for path, said in (
        (made / "checkpoints" / "step-4", "step 4 of 6"),
        (best, f"step {int(best.name.split('-')[1])} of 6, the best until then"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["info", str(path)])
        shown = " ".join(capsys.readouterr().out.split())
        assert left.value.code == 0
        assert f"{said} validation loss" in shown
        assert f"parameters {count:,}" in shown
        assert "test bleu" not in shown
