"""docs/sentence.md names the files that a sentence meets, all of them and no other."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "sentence.md").read_text("utf-8")
COMPILED = "attention/kernels/native.py"  # met only where the C kernels were compiled


def named() -> list[str]:
    """The files of the list, in its order."""
    return re.findall(r"^\d+\. \[([\w/]+\.py)\]", PAGE, flags=re.MULTILINE)


def test_every_file_that_the_page_names_is_there_and_named_once() -> None:
    links = re.findall(r"\]\(\.\./(src/regard/[\w/]+\.py)\)", PAGE)
    assert [link for link in links if not (ROOT / link).is_file()] == []
    assert named()
    assert len(named()) == len(set(named()))
    assert "TODO" not in PAGE


@pytest.mark.slow
def test_the_page_names_the_files_of_a_walk(tmp_path: Path) -> None:
    walks = runpy.run_path(str(ROOT / "benchmarks" / "walks.py"))
    met = walks["walk_greedily"](walks["train_on_pairs"](tmp_path)).files
    missing = [file for file in met if file not in named()]
    gone = [file for file in named() if file not in met and file != COMPILED]
    assert (missing, gone) == ([], []), f"docs/sentence.md; in the order of the walk: {list(met)}"
