"""Hostile files are refused in one line, by a process that may use 200 MB more memory and no more."""

import os
import resource
import shutil
import warnings
from pathlib import Path

import pytest
from runs.hostile_cases import CASES
from runs.hostile_folders import ASKED, outcome, valid_folder

ROOM = 200 << 20  # bytes of memory, beyond what the process has when it begins
SECONDS = 120  # of computing for one case, so that an endless one ends: a safety net and no check


def _limited() -> None:
    """This process, limited for good: to so much more data, and to that much computing."""
    with open("/proc/self/status") as file:
        held = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + ROOM, held + ROOM))
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS))


def _asked(asked: str, folder: Path) -> str:
    """What came of it in a process of its own, with limits."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            _limited()
            warnings.simplefilter("ignore")
            os.write(writes, outcome(asked, folder).encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as said:
        told = said.read().decode()
    _, status = os.waitpid(child, 0)
    return told or f"the process died ({status})"


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Path:
    """A folder of valid files. Asking it everything once imports whatever a limited process will need."""
    folder = tmp_path_factory.mktemp("hostile") / "valid"
    valid_folder(folder)
    for asked in ("load", "info", "recipe", "resume", "seen", "tokenizer", "sound", "lines"):
        assert outcome(asked, folder) == "answered"
        assert _asked(asked, folder) == "answered", "the limits leave room for what is valid"
    return folder


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="limits of memory are set as Linux has them"
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_file_is_refused_in_one_line(case, valid, tmp_path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(valid, folder, symlinks=True)
    case.change(folder)
    told = _asked(case.asked, folder)
    shutil.rmtree(folder)
    assert told == "answered" if case.asked == "info" else told.startswith("refused: "), told
    assert len(told) < 3000


def test_there_are_more_than_150_cases_of_every_kind() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 150
    assert {case.asked for case in CASES} == ASKED.keys()
