import json

import pytest

from regard.cli import main
from regard.figures import FIGURES


def outcome(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["figure", *arguments])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_without_a_name_it_lists_the_figures(capsys):
    code, said, _ = outcome(capsys)
    assert code == 0
    assert [line.split()[0] for line in said.splitlines() if line[0] != " "] == list(FIGURES)


def test_it_writes_three_files_and_says_what_to_see(capsys, tmp_path):
    code, said, err = outcome(capsys, "four-words", "--seed", "3", "--out", str(tmp_path / "new"))
    assert code == 0
    assert "word 1" in said
    assert "Each answer is a mean of the rows of V" in said
    assert sorted(file.suffix for file in (tmp_path / "new").iterdir()) == [".json", ".png", ".svg"]
    assert json.loads((tmp_path / "new" / "four-words.json").read_text())["seed"] == 3
    assert "four-words.png" in err


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["four-words", "--help"], ["four-words", "-h"]])
def test_it_has_help_and_so_has_each_figure(capsys, arguments):
    code, said, _ = outcome(capsys, *arguments)
    assert code == 0
    assert ("--seed" in said) == (len(arguments) == 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["five-words"], "five-words"),
        (["four-words", "--seed", "x"], "--seed"),
        (["four-words", "--seed", "-1"], "--seed -1"),
        (["four-words", "--nonsense"], "--nonsense"),
        (["four-words", "more"], "more"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, named):
    code, said, err = outcome(capsys, *arguments)
    assert (code, said) == (2, "")
    assert err.startswith("regard: ")
    assert named in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, said, err = outcome(capsys, "four-words", "--out", str(tmp_path / "file" / "below"))
    assert (code, said) == (2, "")
    assert "cannot be written to" in err
