"""The suites by name, and the peers that are not there."""

import importlib.util
import json
import os

import pytest
from bench.test_contest import rows

from regard import RegardError, bench
from regard.bench import peers
from regard.bench.suites import SUITES, check_suites, record_of, run_suite


def test_suites_are_chosen_by_name():
    assert check_suites([]) == list(SUITES)
    assert check_suites(["decoding", "attention", "decoding"]) == ["decoding", "attention"]
    with pytest.raises(RegardError, match="suite 'speed': choose from attention, training, decoding"):
        check_suites(["attention", "speed"])


def test_every_suite_can_be_run():
    for name in SUITES:
        assert callable(getattr(importlib.import_module(f"regard.bench.{name}"), name))
    assert run_suite.__doc__


def test_missing_peers_are_named_with_how_to_install_them(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in peers.PEERS else find(name))
    assert peers.missing() == (
        "left out, not installed: x-transformers, transformers, ctranslate2 (pip install 'regard[bench]')"
    )
    assert peers.peer("x_transformers.attend") is None
    assert peers.version("ctranslate2") == "not installed"


def test_the_record_has_rows_tables_and_pictures(tmp_path):
    record = record_of({"training": rows()}, {"command": "regard bench training", "threads": 2})
    files = record.write(tmp_path)
    assert {file.name for file in files} == {
        "bench.json", "bench.md", "bench-training.png", "bench-training.svg",
    }  # fmt: skip
    assert all(file.stat().st_size > 100 for file in files)
    told = json.loads((tmp_path / "bench.json").read_text())
    assert [row["ratio"] for row in told["rows"]] == [1.0, 2.0]
    assert told["about"]["threads"] == 2
    assert {"load at end", "ctranslate2"} <= told["about"].keys()
    assert "![bench-training](bench-training.png)" in (tmp_path / "bench.md").read_text()


def test_importing_the_package_sets_no_variable_of_torch(monkeypatch):
    names = ("KINETO_LOG_LEVEL", "TORCH_CPP_LOG_LEVEL")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    importlib.reload(bench)
    assert not set(names) & set(os.environ)
