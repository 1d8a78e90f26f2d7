"""`regard cost` and `regard bench`, as a person would use them."""

import json

import pytest
from cli.test_verbs import refused, said

SMALL = ["cost", "--lengths", "8,16,32", "--width", "8", "--repeats", "2"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_cost_prints_tables_and_writes_its_files(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = said(capsys, *SMALL)
    for part in ("self-attention", "n²·d", "by formula", "Peak megabytes", "load at start"):
        assert part in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    files = {file.name: file for file in (tmp_path / "cost").iterdir()}
    assert files.keys() == {f"cost.{kind}" for kind in ("png", "svg", "csv", "json", "md")}
    assert len(json.loads(files["cost.json"].read_text())["costs"]) == 7 * 3


def test_cost_prints_csv_or_json_for_a_pipe(capsys, tmp_path):
    some = [*SMALL, "--layers", "feed-forward, window", "--backward", "--out", tmp_path / "deep" / "er"]
    lines = said(capsys, *some, "--csv").splitlines()
    assert lines == (tmp_path / "deep" / "er" / "cost.csv").read_text().splitlines()
    assert [line.split(",")[:4] for line in lines[1:3]] == [
        ["feed-forward", "8", "8", "1"],
        ["feed-forward", "16", "8", "1"],
    ]
    told = json.loads(said(capsys, *some, "--json"))
    assert {cost["layer"] for cost in told["costs"]} == {"feed-forward", "window"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["cost", "--lengths", "0"], "'0' is no length"),
        (["cost", "--lengths", "12,many"], "'many' is no length"),
        (["cost", "--lengths", ","], "lengths none"),
        (["cost", "--layers", "lstm"], "layer 'lstm'"),
        (["cost", "--width", "0"], "--width"),
        (["cost", "--csv", "--json"], "--csv and --json"),
        (["cost", "--device", "cuda:99"], "cuda:99"),
        (["cost", "--device", "toaster"], "toaster"),
        (["cost", "--out", "taken"], "--out taken"),
        (["cost", "--lengths", "999999999"], "999999999"),
        (["bench", "speed"], "suite 'speed'"),
        (["bench", "attention", "--out", "taken/below"], "--out taken/below"),
        (["bench", "--repeats", "0"], "--repeats"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, arguments, named):
    (tmp_path / "taken").write_text("a file")
    assert named in refused(capsys, *arguments)


def test_a_folder_that_cannot_be_written_to_is_refused_before_measuring(capsys, monkeypatch):
    def denied(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", denied)
    assert "--out somewhere cannot be written to" in refused(capsys, *SMALL, "--out", "somewhere")


def test_a_gpu_that_is_not_there_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "cuda" in refused(capsys, "bench", "--gpu")


def test_bench_prints_a_table_and_writes_its_files(capsys, tmp_path, monkeypatch):
    from regard.bench import attention

    monkeypatch.setattr(attention, "BATCH", 2)
    monkeypatch.setattr(attention, "HEADS", 2)
    monkeypatch.setattr(attention, "WIDTH", 8)
    shown = said(capsys, "bench", "attention", "--quick", "--repeats", "1")
    assert "scaled dot, 128, forward" in shown
    names = {file.name for file in (tmp_path / "bench").iterdir()}
    assert names == {"bench.json", "bench.md", "bench-attention.png", "bench-attention.svg"}
    rows = json.loads((tmp_path / "bench" / "bench.json").read_text())["rows"]
    assert {row["suite"] for row in rows} == {"attention"}
