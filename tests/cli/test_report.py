"""How a model was optimised: a line on standard error in a terminal, all of it with --report, nothing in a pipe."""

import sys
from pathlib import Path

import pytest
from PIL import Image
from runs.small import (
    MODEL,
    classification,
    hearing,
    language,
    numbers,
    reader,
    trained,
    write_spoken,
    write_table,
    write_text,
)

from regard.cli import main
from regard.layers.inference_only import PackedLinear, PackedProjection
from regard.runs.load import load


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    spoken = write_spoken(folder)
    trained(numbers(), folder / "numbers")
    trained(language(write_text(folder)), folder / "letters")
    trained(classification(write_table(folder)), folder / "texts")
    trained(reader(), folder / "reader")
    telling = {"kind": "transcriber", "bands": 8, "decoder_depth": 1, **MODEL}
    scribe = hearing(spoken, model=telling, tokens={"kind": "character"}, decoding={"tokens": 6})
    trained(scribe, folder / "scribe")
    Image.new("L", (48, 8), 90).save(folder / "strip.png")
    return folder


def said(capsys: pytest.CaptureFixture[str], place: Path, command: str, *more: str) -> tuple[str, str]:
    """What a command prints on standard output and on standard error."""
    with pytest.raises(SystemExit) as ended:
        main([*(part.format(place=place) for part in command.split()), "--device", "cpu", *more])
    heard = capsys.readouterr()
    assert ended.value.code == 0, heard.err
    return heard.out, heard.err


def in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


COMMANDS = [
    ("numbers", "translate {place}/numbers one"),
    ("numbers", "score {place}/numbers one un"),
    ("numbers", "evaluate {place}/numbers"),
    ("numbers", "look {place}/numbers one --export {place}/page.html"),
    ("letters", "generate {place}/letters line --tokens 3"),
    ("texts", "classify {place}/texts aei"),
    ("reader", "caption {place}/reader {place}/strip.png"),
    ("scribe", "transcribe {place}/scribe {place}/spoken/4_bo_0.wav"),
]
verbs = pytest.mark.parametrize(("run", "command"), COMMANDS, ids=[each.split()[0] for _, each in COMMANDS])


@verbs
def test_a_pipe_is_told_nothing_unless_it_asks(capsys, place: Path, run: str, command: str) -> None:
    out, error = said(capsys, place, command)
    assert "optimised" not in out + error
    asked, report = said(capsys, place, command, "--report")
    assert asked == out
    whole = str(load(place / run, device="cpu").model.optimised)
    assert whole.count("\n") > 3
    assert f"{whole}\n" in report


@verbs
def test_a_terminal_is_told_in_one_line(capsys, monkeypatch, place: Path, run: str, command: str) -> None:
    out, _ = said(capsys, place, command)
    in_a_terminal(monkeypatch)
    shown, error = said(capsys, place, command)
    assert shown == out
    lines = [line for line in error.splitlines() if "optimised" in line]
    rows = [line.split() for line in str(load(place / run, device="cpu").model.optimised).splitlines()[1:]]
    replaced, kept = (sum(int(row[1]) for row in rows if row[0] == word) for word in ("replaced", "kept"))
    summary = load(place / run, device="cpu").model.optimised.summary
    assert lines == [f"{summary}; modules replaced: {replaced}, kept: {kept} (--report lists them)"]
    _, error = said(capsys, place, command, "--report")
    assert error.count("optimised for inference") == 1
    assert "--report lists them" not in error


def test_the_counts_are_those_of_the_modules_that_are_there(capsys, monkeypatch, place: Path) -> None:
    in_a_terminal(monkeypatch)
    _, error = said(capsys, place, "translate {place}/numbers one --precision int8")
    parts = list(load(place / "numbers", precision="int8").model.modules())
    inside = {each for part in parts if isinstance(part, PackedProjection) for each in part.modules()} - {
        part for part in parts if isinstance(part, PackedProjection)
    }
    linear = sum(isinstance(part, PackedLinear) and part not in inside for part in parts)
    projections = sum(isinstance(part, PackedProjection) for part in parts)
    activations = 2  # of the feed-forward maps, one in the encoder and one in the decoder
    assert f"; modules replaced: {linear + projections + activations}, kept: " in error


def test_runs_that_are_compared_are_named(capsys, monkeypatch, place: Path) -> None:
    in_a_terminal(monkeypatch)
    command = (
        "look {place}/numbers one --against {place}/numbers/checkpoints/step-2 --export {place}/page.html"
    )
    _, error = said(capsys, place, command)
    lines = [line for line in error.splitlines() if "optimised" in line]
    assert [line.partition(": optimised")[0] for line in lines] == [
        f"{place}/numbers",
        f"step 2 of {place}/numbers",
    ]
