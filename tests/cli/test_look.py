"""`regard look`: the explorer on runs and on what was saved, served or written to a file."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch
from runs.small import classification, counter, language, numbers, trained, write_table, write_text
from sight.explorer.small import seen_of
from sight.explorer.trained import translator

from regard.cli import main
from regard.cli.look import _draw
from regard.sight.explorer.runs import example_of_run
from regard.sight.pictures import atlas


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    trained(numbers(), folder / "numbers")
    trained(language(write_text(folder)), folder / "letters")
    trained(classification(write_table(folder)), folder / "texts")
    trained(counter(), folder / "counter")
    seen_of(6).save(folder / "saved.safetensors")
    return folder


def ended(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    return int(stopped.value.code or 0)


def manifest_of(path: Path) -> dict:
    found = re.search(r'id="regard-data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])["manifest"]


@pytest.mark.parametrize(
    ("run", "options", "kind"),
    [
        ("numbers", ["twenty one", "--beam", "2"], "translation"),
        ("letters", ["line", "--tokens", "5"], "language"),
        ("texts", ["what a film"], "classes"),
        ("counter", ["1 7 2 0 2 1 3 4 8 6"], "classes"),
        ("saved.safetensors", [], "attention"),
    ],
)
def test_every_kind_of_run_is_written_to_one_file(
    runs: Path, tmp_path: Path, run: str, options: list[str], kind: str
) -> None:
    page = tmp_path / "page.html"
    assert ended("look", runs / run, *options, "--export", page) == 0
    manifest = manifest_of(page)
    assert [example["kind"] for example in manifest["exhibits"]] == [kind]
    assert manifest["title"] == run


def test_two_inputs_and_two_runs_are_four_exhibits(runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    other = runs / "numbers"
    assert ended("look", runs / "numbers", "one", "two", "--against", other, "--export", page) == 0
    assert [example["name"] for example in manifest_of(page)["exhibits"]] == ["one", "two", "one", "two"]


def test_a_run_is_compared_with_its_own_checkpoints(runs: Path, tmp_path: Path) -> None:
    page, kept = tmp_path / "page.html", runs / "numbers" / "checkpoints"
    file = next(kept.glob("step-00000002-*"))
    others = ["--against", kept / "step-2", "--against", file]
    assert ended("look", runs / "numbers", "one", *others, "--export", page) == 0
    abouts = [example["about"].split(" · ")[0] for example in manifest_of(page)["exhibits"]]
    assert abouts == [str(runs / "numbers"), *[f"step 2 of {runs / 'numbers'}"] * 2]
    assert ended("look", file, "one", "--export", page) == 0
    assert manifest_of(page)["exhibits"][0]["about"].startswith("step 2 of ")


def test_all_heads_are_drawn(runs: Path, tmp_path: Path) -> None:
    assert (
        ended("look", runs / "numbers", "one", "--png", tmp_path / "a.png", "--svg", tmp_path / "a.svg") == 0
    )
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
def test_of_a_beam_the_answer_alone_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if that answer had been given as the target, whatever hypotheses are beside it."""
    drawn, draw = [], atlas.overview
    monkeypatch.setattr(
        atlas, "overview", lambda seen, **options: drawn.append(seen) or draw(seen, **options)
    )
    loaded, text = translator(beam=4), "two three one five"
    several = example_of_run(loaded, text, beam=4)
    for seed in range(7, 60):  # until longer hypotheses pad the answer
        if max(len(output.steps) for output in several.outputs) > len(several.outputs[0].steps):
            break
        torch.manual_seed(seed)
        for weight in loaded.model.parameters():
            torch.nn.init.normal_(weight, std=0.5)
        several = example_of_run(loaded, text, beam=4)
    else:
        raise LookupError("all hypotheses are of one length")
    for example in (several, example_of_run(loaded, text, target=several.outputs[0].text)):
        _draw(example, [tmp_path / "a.png"])
    beam, alone = drawn
    assert beam.names == alone.names
    for name in beam.names:
        assert beam[name].shape == alone[name].shape
        torch.testing.assert_close(beam[name].entropy(), alone[name].entropy(), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_it_serves_until_it_is_interrupted(runs: Path) -> None:
    command = [sys.executable, "-m", "regard", "look", str(runs / "saved.safetensors"), "--no-browser"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that started the tests in the background has them, and all that they start, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stderr is not None
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=([\w-]+)", process.stderr.readline())
        assert found
        question = urllib.request.Request(f"{found[1]}/api/manifest", headers={"X-Regard-Token": found[2]})
        with urllib.request.urlopen(question, timeout=600) as answer:
            assert json.load(answer)["exhibits"][0]["name"] == "saved.safetensors"
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 0
    finally:
        process.kill()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["numbers"], "give a text, or the file of a picture or a recording"),
        (["nowhere", "one"], "nowhere"),
        (["saved.safetensors", "one"], "it takes no input"),
        (["texts", "one", "--target", "two"], "only a translator, a captioner or a transcriber has one"),
        (["numbers", "one", "--tokens", "3"], "only a language model"),
        (["texts", "one", "--beam", "3"], "only a model that writes a target"),
        (["numbers/checkpoints/step-3", "one"], "no such checkpoint; there are step-2, step-4"),
        (["texts", "one", "--export", "/nowhere/page.html"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert ended("look", runs / arguments[0], *arguments[1:]) == 2
    heard = capsys.readouterr().err
    assert heard.startswith("regard: ")
    assert message in heard
    assert heard.count("\n") == 1
