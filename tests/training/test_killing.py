"""kill -9 at any moment, then resume: the weights and the log of a run that was never killed, to the bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killing")
    done = subprocess.run(
        [sys.executable, TESTS / "training" / "killing.py", folder, "4"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    (folder / "told.json").write_text(done.stdout)
    return folder


def test_it_was_killed_often_enough(runs: Path) -> None:
    told = json.loads((runs / "told.json").read_text())
    assert told["kills"] >= 10
    assert told["left_overs"] == 6  # killed halfway, before flushing and before renaming, twice each


@pytest.mark.parametrize("when", ["random", "saving"])
def test_a_killed_training_ends_as_if_it_had_not_been(when: str, runs: Path) -> None:
    whole, killed = runs / when / "whole", sorted((runs / when).glob("killed*"))
    assert killed
    for each in killed:
        for name in ("final.safetensors", "log.jsonl"):
            assert (each / name).read_bytes() == (whole / name).read_bytes()
        assert files(each) == files(whole)


@pytest.mark.parametrize("when", ["random", "saving"])
def test_the_log_tells_of_one_run(when: str, runs: Path) -> None:
    lines = [json.loads(line) for line in (runs / when / "whole" / "log.jsonl").open()]
    assert [line["step"] for line in lines if line["event"] == "update"] == list(range(1, 51))
    assert [line["event"] for line in lines].count("end") == 1
    assert lines[0]["loss"] > 1.2 * lines[-3]["loss"]


def files(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())
