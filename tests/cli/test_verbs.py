"""Every verb, as a person or a pipe would use it, on runs that are small but whole."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
import yaml
from runs.small import classification, counter, language, numbers, trained, write_table, write_text
from typer.testing import CliRunner

import regard.training.experiment as experiment
from regard.cli import app, main
from regard.cli.classify import bars
from regard.runs.load import load
from regard.runs.recipe import written


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    trained(numbers(), folder / "numbers")
    trained(language(write_text(folder)), folder / "letters")
    trained(classification(write_table(folder)), folder / "texts")
    trained(counter(), folder / "counter")
    return folder


def said(capsys, *arguments):
    """What a verb prints, and that it ends well."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    heard = capsys.readouterr()
    assert ended.value.code == 0, heard.err
    return heard.out


def refused(capsys, *arguments):
    """The one line that a verb refuses with."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    heard = capsys.readouterr()
    assert ended.value.code == 2
    assert heard.out == ""
    assert heard.err.startswith("regard: ")
    assert heard.err.count("\n") == 1
    return heard.err


def piped(text, *arguments):
    command = [sys.executable, "-m", "regard", *(str(each) for each in arguments)]
    return subprocess.run(command, input=text, capture_output=True, timeout=900)


def test_translate_answers_each_argument_with_a_line(capsys, runs):
    lines = said(capsys, "translate", runs / "numbers", "one", "", "two", "--device", "cpu").split("\n")
    expected = load(runs / "numbers", device="cpu").translate(["one", "", "two"])
    assert lines == [*expected, ""]


@pytest.mark.slow
def test_translate_answers_standard_input_line_by_line(runs):
    done = piped("\ufeffone\r\n\ntwo".encode(), "translate", runs / "numbers")
    assert done.stdout.decode().split("\n") == [*load(runs / "numbers").translate(["one", "", "two"]), ""]
    wrong = piped(b"one\n\xff\n", "translate", runs / "numbers")
    assert wrong.returncode == 2
    assert wrong.stderr.decode() == "regard: standard input:2: not UTF-8 (byte 1)\n"


def test_translate_gives_the_best_few_with_scores(capsys, runs):
    rows = [
        line.split("\t")
        for line in said(capsys, "translate", runs / "numbers", "ten", "--n-best", "3").splitlines()
    ]
    assert len(rows) == 3
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)


def test_translate_speaks_json(capsys, runs):
    told = json.loads(said(capsys, "translate", runs / "numbers", "ten", "--json", "--beam", "2"))
    assert told["source"] == "ten"
    assert told["translations"][0].keys() == {"text", "ranking", "log_probability"}


@pytest.mark.parametrize("name", ["looked.png", "looked.svg"])
def test_translate_draws_where_it_looked(capsys, runs, tmp_path, name):
    said(capsys, "translate", runs / "numbers", "twenty-one", "--picture", tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.slow
def test_score_is_what_the_model_says(capsys, runs):
    expected = load(runs / "numbers").score(["one", "two"], ["un", "deux"])
    assert float(said(capsys, "score", runs / "numbers", "one", "un")) == pytest.approx(expected[0], abs=1e-3)
    done = piped(b"one\tun\ntwo\tdeux\n", "score", runs / "numbers", "--json")
    assert [json.loads(line)["log_probability"] for line in done.stdout.splitlines()] == pytest.approx(
        expected, abs=1e-3
    )
    assert float(said(capsys, "score", runs / "letters", "line 1")) < 0


def test_generate_writes_the_same_text_for_the_same_seed(capsys, runs):
    first = said(capsys, "generate", runs / "letters", "line ", "--seed", "4", "--tokens", "5")
    assert first == said(capsys, "generate", runs / "letters", "line ", "--seed", "4", "--tokens", "5")
    assert first.startswith("line ")
    several = said(capsys, "generate", runs / "letters", "line ", "--count", "2", "--json")
    assert [json.loads(line)["prompt"] for line in several.splitlines()] == ["line ", "line "]


def test_classify_names_a_class_for_every_text(capsys, runs):
    assert set(said(capsys, "classify", runs / "texts", "aei", "bcd").split()) <= {"vowels", "consonants"}
    told = json.loads(said(capsys, "classify", runs / "texts", "aei", "--json"))
    assert sum(told["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert told["label"] == max(told["probabilities"], key=told["probabilities"].get)


def test_classify_answers_rows_of_ten_digits(capsys, runs, tmp_path):
    row = "1 7 2 0 2 1 3 4 8 6"
    told = json.loads(said(capsys, "classify", runs / "counter", row, "--json"))
    assert told["digits"] == row
    assert told["probabilities"].keys() == {"no", "yes"}
    picture = tmp_path / "looked.png"
    assert said(capsys, "classify", runs / "counter", row, "--picture", picture).strip() == told["label"]
    assert picture.exists()
    assert "has 3 digits: give 10" in refused(capsys, "classify", runs / "counter", "1 7 2")
    assert f'regard classify {runs / "counter"} "{row}"' in (runs / "counter" / "README.md").read_text()


def test_evaluate_says_again_what_training_found(capsys, runs):
    for name in ("numbers", "letters", "texts", "counter"):
        known = json.loads((runs / name / "metrics.json").read_text())
        again = json.loads(said(capsys, "evaluate", runs / name, "--json", "--device", "cpu"))
        assert [each["name"] for each in again] == [each["name"] for each in known]
        assert [each["value"] for each in again] == pytest.approx([each["value"] for each in known], rel=1e-4)


def test_evaluate_on_another_file(capsys, runs, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one\tun\ntwo\tdeux\n")
    told = said(
        capsys, "evaluate", runs / "numbers", "--on", tmp_path / "pairs.tsv", "--answers", tmp_path / "a.tsv"
    )
    assert "exact" in told
    assert (tmp_path / "a.tsv").read_text().splitlines()[0] == "source\treference\ttranslation"
    assert len((tmp_path / "a.tsv").read_text().splitlines()) == 3
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    both = f"{tmp_path / 'a.en'},{tmp_path / 'a.fr'}"
    assert said(capsys, "evaluate", runs / "numbers", "--on", both) == told
    assert "perplexity" in said(capsys, "evaluate", runs / "letters", "--on", tmp_path / "a.en")


def test_info_tells_what_a_run_is(capsys, runs):
    told = said(capsys, "info", runs / "numbers")
    assert "step 4 of 4, finished" in told
    assert "translate, score, evaluate" in told


def test_names_with_brackets_are_shown_as_they_are(capsys, tmp_path):
    run = trained(numbers(about="a [bold] try"), tmp_path / "p[x]")
    told = said(capsys, "info", run)
    assert "p[x]" in "".join(told.split())
    assert "a [bold] try" in told


def test_recipes_are_listed_and_printed(capsys):
    assert "multi30k-en-de" in said(capsys, "recipes")
    assert yaml.safe_load(said(capsys, "recipes", "numbers"))["data"]["kind"] == "numbers"


def test_train_writes_a_run_and_resume_finds_it_finished(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(written(numbers()))
    said(capsys, "train", "mine.yaml", "--set", "training.steps=2", "--device", "cpu")
    assert (tmp_path / "runs" / "mine" / "curves.png").exists()
    with pytest.raises(SystemExit) as ended:
        main(["resume", "runs/mine"])
    assert ended.value.code == 0
    assert capsys.readouterr().err == (
        "runs/mine is finished, after 2 updates: nothing to do. To train it further: "
        "regard resume runs/mine --set training.steps=…\n"
    )
    said(capsys, "resume", "runs/mine", "--set", "training.steps=3")
    assert "model.width cannot be changed" in refused(capsys, "resume", "runs/mine", "--set", "model.width=8")
    assert "holds a run" in refused(capsys, "train", "mine.yaml")
    said(capsys, "train", "mine.yaml", "--overwrite", "--set", "training.steps=2")


def test_training_a_counter_leaves_a_picture_of_what_it_looks_at(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text(written(counter()))
    with pytest.raises(SystemExit) as ended:
        main(["train", str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert ended.value.code == 0
    assert {"curves.png", "counting.png"} <= {file.name for file in (tmp_path / "run").iterdir()}
    assert "counting.png  where it looks in 1 7 2 0 2 1 3 4 8 6" in capsys.readouterr().err


@pytest.mark.parametrize(("where", "code"), [("prepare", 75), ("write_card", 0)])
def test_a_signal_before_or_after_training_ends_a_command_as_documented(
    where, code, capsys, tmp_path, monkeypatch
):
    inside = getattr(experiment, where)

    def signalled(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return inside(*arguments, **options)

    monkeypatch.setattr(experiment, where, signalled)
    (tmp_path / "mine.yaml").write_text(written(numbers()))
    with pytest.raises(SystemExit) as ended:
        main(["train", str(tmp_path / "mine.yaml"), "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert ended.value.code == code
    assert ("with nothing written yet: start it again" in capsys.readouterr().err) == (code == 75)


def test_train_and_resume_take_as_many_threads_as_they_are_told(capsys, tmp_path, monkeypatch):
    counts = []
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    (tmp_path / "mine.yaml").write_text(written(numbers()))
    run = tmp_path / "run"
    said(capsys, "train", tmp_path / "mine.yaml", "--out", run, "--set", "training.steps=2", "--threads", "1")
    said(capsys, "resume", run, "--threads", "3", "--set", "training.steps=4")
    assert counts == [1, 3]
    assert "--threads" in refused(capsys, "resume", run, "--threads", "0")


@pytest.mark.slow
def test_the_demo_translates_draws_and_says_what_next(capsys, tmp_path):
    small = [
        "training.steps=2",
        "training.evaluate=2",
        "training.decode=2",
        "data.train=50",
        "data.test=6",
        "model.width=16",
    ]
    changes = [part for change in small for part in ("--set", change)]
    told = said(capsys, "demo", "--out", tmp_path / "demo", *changes)
    assert "of 6 unseen numbers" in told
    assert "What to try next" in told
    assert (tmp_path / "demo" / "attention.png").exists()
    said(capsys, "demo", "--out", tmp_path / "demo", *changes)  # an earlier demo is replaced without asking


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["translate", "nowhere", "x"], "nowhere: no such run"),
        (["translate", ".", "x"], "is not a run"),
        (["translate", "{numbers}", "x", "--beam", "0"], "--beam"),
        (["translate", "{numbers}", "x", "y", "--picture", "p.png"], "draws one; 2 were given"),
        (["translate", "{numbers}", "x", "--picture", "p.gif"], "p.gif"),
        (["translate", "{letters}", "x"], "cannot translate; it can generate and score"),
        (["generate", "{numbers}"], "cannot generate; it can translate and score"),
        (["classify", "{numbers}", "x"], "cannot classify"),
        (["generate", "{letters}", "--top-p", "2"], "top_p"),
        (["score", "{numbers}", "one"], "1 texts were given"),
        (["evaluate", "{numbers}", "--on", "nowhere.tsv"], "nowhere.tsv"),
        (["evaluate", "{numbers}", "--on", "nowhere.docx"], "nowhere.docx"),
        (["evaluate", "{numbers}", "--bleu", "14a"], "bleu: '14a' is none of 13a"),
        (["evaluate", "{letters}", "--beam", "2"], "only for translators"),
        (["translate", "{numbers}", "x", "--device", "tpu9"], "tpu9"),
        (["translate", "{numbers}", "x", "--device", "cuda:99"], "cuda:99"),
        (["train", "numbrs"], "did you mean numbers?"),
        (["train", "numbers", "--set", "model.wdth=3"], "did you mean width (a whole number)?"),
        (["train", "numbers", "--out", "/proc/nowhere"], "cannot be written to"),
        (["train", "multi30k-en-de", "--set", "data.folder=nowhere", "--out", "{new}"], "nowhere"),
        (["resume", "nowhere"], "no such run"),
        (["info", "nowhere"], "no such run"),
        (["recipes", "nowhere"], "no recipe of this name"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys, runs, tmp_path, monkeypatch, as_a_user, arguments, named
):
    monkeypatch.chdir(tmp_path)
    places = {name: runs / name for name in ("numbers", "letters", "texts")} | {"new": tmp_path / "new"}
    with pytest.raises(SystemExit) as ended:
        main([each.format(**places) for each in arguments])
    heard = capsys.readouterr()
    assert ended.value.code == 2
    assert named in heard.err.splitlines()[-1]
    assert "Traceback" not in heard.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("regard train num", "numbers-recurrent"),
        ("regard tra", "translate"),
        ("regard recipes sh", "shakespeare"),
    ],
)
def test_the_shell_completes_verbs_and_recipes(words, offered):
    environment = {
        "_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1),
    }  # fmt: skip
    script = "from regard.cli import app; app(prog_name='regard')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=900,
        env={**environment, "PATH": "/usr/bin"},
    )
    assert offered in done.stdout.split()


def test_completion_can_be_installed():
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


def test_likely_classes_are_shown_as_bars():
    lines = bars({"cat": 0.75, "a dog": 0.25, "none": 0.0}, most=2, length=4)
    assert lines == ["cat     75.0 %  ███", "a dog   25.0 %  █"]
