"""`regard.train`, from files to a run that is loaded."""

import pytest

import regard
from regard.errors import RegardError
from regard.training.from_files import data_changes

QUICK = [
    "data.largest=99", "data.train=50", "data.valid=4", "data.test=4", "model.width=16", "model.heads=2", "model.depth=1",
    "model.decoder_depth=1", "training.steps=2", "training.batch=128", "training.evaluate=2", "training.save=2",
]  # fmt: skip


def test_it_trains_loads_and_shows_its_progress(tmp_path, capsys):
    run = regard.train("demo", change=QUICK, out=tmp_path / "run", device="cpu")
    assert len(run.translate(["seven"])) == 1
    assert "step 2/2" in capsys.readouterr().err
    assert (tmp_path / "run" / "log.jsonl").exists()
    with pytest.raises(RegardError, match="holds a run"):
        regard.train("demo", change=QUICK, out=tmp_path / "run", device="cpu")


def test_told_to_be_quiet_it_says_nothing(tmp_path, capsys):
    regard.train("demo", change=QUICK, out=tmp_path / "run", device="cpu", progress=False)
    heard = capsys.readouterr()
    assert (heard.out, heard.err) == ("", "")


def test_files_become_settings():
    assert data_changes(["a b.tsv"]) == ['data.train="a b.tsv"']
    assert data_changes(["a.en", "a.de"]) == ['data.train.source="a.en"', 'data.train.target="a.de"']
    with pytest.raises(RegardError, match=r"a, b, c: give one file or folder"):
        data_changes(["a", "b", "c"])
