"""A checkpoint of a run is loaded as the run itself is, with the weights of its step."""

from pathlib import Path

import pytest
import torch
from runs.small import numbers, trained
from safetensors.torch import load_file

from regard.errors import RegardError
from regard.runs.load import load
from regard.runs.tensor_file import called


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(numbers(), tmp_path_factory.mktemp("runs") / "numbers")


def test_it_has_the_weights_of_its_step(run: Path) -> None:
    file = next((run / "checkpoints").glob("step-00000002-*"))
    kept = load_file(file)
    for path in (file, run / "checkpoints" / "step-2", run / "checkpoints" / "step-00000002"):
        found = load(path, device="cpu", optimise=False).model.state_dict()
        assert set(found) == {name.removeprefix("weights/") for name in kept if name.startswith("weights/")}
        for name, tensor in found.items():
            assert torch.equal(tensor, kept[f"weights/{name}"])
    last = load(run, device="cpu", optimise=False).model.state_dict()
    assert any(not torch.equal(last[name], tensor) for name, tensor in found.items())


def test_the_best_weights_are_a_checkpoint_too(run: Path) -> None:
    (file,) = (run / "checkpoints").glob("best-*")
    found, kept = load(file, device="cpu", optimise=False).model.state_dict(), load_file(file)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in found.items())


def test_other_paths_are_no_checkpoints(run: Path) -> None:
    for path in (
        run,
        run / "model.safetensors",
        run / "checkpoints",
        "step-2",
        "runs/step-00000002-0123456789abcdef",
    ):
        assert called(path) is None


@pytest.mark.usefixtures("as_a_user")
def test_one_that_is_missing_or_broken_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        RegardError, match=r"step-7: there is no such checkpoint; there are step-2, step-4, best-\d"
    ):
        load(run / "checkpoints" / "step-7")
    with pytest.raises(RegardError, match="there are none"):
        load(tmp_path / "checkpoints" / "step-7")
    file = next((run / "checkpoints").glob("step-00000004-*"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(RegardError, match="is broken: its contents are not those its name was given for"):
        load(file)
