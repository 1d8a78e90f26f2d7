import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from rich.cells import cell_len
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.gallery import NEXT, SENTENCE

PICTURES = ["attention.png", "masks.png", "scores.png"]


def gallery(folder, *arguments, **environment):
    environment = {
        "COLUMNS": "80",
        "TERM": "xterm-256color",
        "NO_COLOR": None,
        "FORCE_COLOR": None,
        **environment,
    }
    result = CliRunner().invoke(app, ["gallery", "--out", str(folder), *arguments], env=environment)
    assert result.exit_code == 0, result.exception
    return result.output


def test_it_prints_every_word_score_and_mask_and_writes_three_pictures(tmp_path):
    output = gallery(tmp_path / "new" / "folder")
    for word in [
        *SENTENCE.split(),
        "Nothing here is trained",
        "qᵀk / √d",
        "vᵀ tanh(Wk + Vq)",
        "causal() | prefix(3)",
    ]:
        assert word in output
    for score in ("Dot", "ScaledDot", "Cosine", "Bilinear", "LowRank", "Additive"):
        assert re.search(rf"\b{score}\b", output)
    for mask in ("no mask", "causal()", "window(3)", "lengths(8)", "documents(ids)", "prefix(3)"):
        assert mask in output
    assert "over its range of the keys" in output  # what explain says
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == PICTURES
    for name in PICTURES:
        path = tmp_path / "new" / "folder" / name
        assert str(path) in output
        assert path.stat().st_size < 150_000
        with Image.open(path) as image:
            image.verify()
            assert image.width > 800


def test_piped_output_has_no_escape_codes_and_fits_80_columns(tmp_path):
    lines = gallery(tmp_path).splitlines()
    assert "\x1b" not in "".join(lines)
    # Paths and commands are left whole, to be copied.
    free = (str(tmp_path), *NEXT)
    assert max(cell_len(line) for line in lines if not line.startswith(free)) <= 80


def test_colour_comes_where_it_is_wanted_and_only_there(tmp_path):
    wanted = {"FORCE_COLOR": "1", "COLORTERM": "truecolor"}
    assert "48;2;" in gallery(tmp_path, **wanted)
    bare = gallery(tmp_path, **wanted, NO_COLOR="1")
    assert not re.search(r"[34]8;[25];", bare)
    assert "▓" in bare


@pytest.mark.parametrize(
    "sentence",
    [
        "word",
        "a a",
        " ".join(f"word{number}" for number in range(60)),
        "😀 👩\u200d🚀 日本語 naïve",
        "[red]x[/red] \x1b[31m <b>",
    ],
    ids=["one", "twice", "sixty", "emoji", "hostile"],
)
def test_odd_sentences_are_shown_all_the_same(tmp_path, sentence):
    lines = gallery(tmp_path, "--sentence", sentence).splitlines()
    assert "\x1b" not in "".join(lines)
    assert max(cell_len(line) for line in lines if not line.startswith((str(tmp_path), *NEXT))) <= 80
    assert sorted(path.name for path in tmp_path.iterdir()) == PICTURES


def test_the_same_sentence_gives_the_same_pictures(tmp_path):
    for folder in ("one", "two"):
        gallery(tmp_path / folder)
    for name in PICTURES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("line", NEXT)
def test_what_it_says_to_try_next_works(tmp_path, line):
    words = shlex.split(line)
    words[:1] = [sys.executable, "-m", "regard"] if words[0] == "regard" else [sys.executable]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env={**os.environ}, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error(tmp_path):
    command = (
        f"{shlex.quote(sys.executable)} -m regard gallery --out {shlex.quote(str(tmp_path))} | head -n 1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=900)
    assert done.stdout.startswith("regard")
    assert done.stderr == ""


def test_the_pictures_of_the_documentation_are_pictures():
    folder = Path(__file__).parents[2] / "docs" / "pictures"
    for name in PICTURES:
        with Image.open(folder / name) as image:
            image.verify()
        assert (folder / name).stat().st_size < 150_000
