import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import regard
from regard import cli
from regard.cli import app, main


def run(*arguments, **environment):
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=900
    )


def outcome(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["gallery", "--help"], ["--version"], ["-h"], []]
)
def test_asking_for_help_does_not_import_torch(arguments):
    script = (
        "import sys\nfrom regard.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "heavy = {'torch', 'numpy', 'PIL'} & set(sys.modules)\nsys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "regard" in done.stdout


VERBS = [
    "demo", "train", "resume", "translate", "score", "generate", "classify", "evaluate", "recipes", "info", "gallery",
    "cost", "bench",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_shows_examples_of_its_verb(verb):
    result = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "Examples" in result.output
    assert f"$ regard {verb}" in result.output


def test_each_verb_is_listed_in_the_help():
    output = CliRunner().invoke(app, ["--help"]).output
    assert all(f" {verb} " in output for verb in VERBS)


def test_the_version_is_that_of_the_package():
    assert CliRunner().invoke(app, ["--version"]).output == f"regard {regard.__version__}\n"
    assert run("--version").stdout == f"regard {regard.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["gallery", "--sentence", ""], "no words"),
        (["gallery", "--sentence", " \n\t "], "no words"),
        (["gallery", "--sentence", "x " * 121], "121"),
        (["gallery", "--sentence"], "--sentence"),
        (["gallery", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["gallery", "nonsense"], "nonsense"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    code, out, err = outcome(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("regard: ")
    assert named in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["a-file", "a-file/inside"])
def test_a_folder_that_cannot_be_written_is_named(capsys, tmp_path, out):
    (tmp_path / "a-file").touch()
    code, said, err = outcome(capsys, "gallery", "--out", str(tmp_path / out))
    assert (code, said) == (2, "")
    assert str(tmp_path / out) in err
    assert err.count("\n") == 1


def test_an_error_deep_inside_is_one_line_too(capsys, monkeypatch, tmp_path):
    def fail(*_):
        raise regard.RegardError("two\nlines")

    monkeypatch.setattr("regard.cli.gallery.show", fail)
    code, _, err = outcome(capsys, "gallery", "--out", str(tmp_path))
    assert (code, err) == (2, "regard: two lines\n")


def test_what_is_no_mistake_of_the_user_is_not_hidden(monkeypatch, tmp_path):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("regard.cli.gallery.show", fail)
    with pytest.raises(ZeroDivisionError):
        main(["gallery", "--out", str(tmp_path)])


def test_an_interruption_ends_quietly_with_130(tmp_path):
    command = [sys.executable, "-m", "regard", "gallery", "--out", str(tmp_path)]
    # A shell that starts the tests in the background has them ignore Ctrl-C, and their children too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        assert process.stdout.readline().startswith("regard")  # it is under way, and about to import torch
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=900)
    assert process.returncode == 130
    assert err.strip() == ""


def test_the_entry_point_and_the_module_are_the_same():
    assert cli.main is main
    assert run("--help").stdout == run("-h").stdout != ""


@pytest.mark.parametrize(
    ("load", "set_to"), [(0.1, {"GOMP_SPINCOUNT": "10000"}), (99.0, {"OMP_WAIT_POLICY": "PASSIVE"})]
)
def test_threads_that_wait_sleep_soon_and_at_once_on_a_busy_machine(monkeypatch, load, set_to):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {"PATH": "here"}
    monkeypatch.setattr(cli.os, "environ", environment)
    monkeypatch.setattr(cli.os, "getloadavg", lambda: (load, load, load))
    cli._wait_briefly()
    assert {name: environment[name] for name in names if name in environment} == set_to
    for name in names:  # what the user has set stays
        environment.clear()
        environment[name] = "mine"
        cli._wait_briefly()
        assert environment == {name: "mine"}


def test_the_library_leaves_the_environment_of_threads_alone():
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    code = f"import os, regard.cli, regard.training; print([name for name in {names} if name in os.environ])"
    found = subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
