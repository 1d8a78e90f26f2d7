"""A model in a file of the user's is trained, loaded, used, evaluated and explored; no run makes its code be executed."""

from pathlib import Path

import pytest

from regard import RegardError, load
from regard.cli import main

FILE = Path(__file__).parents[2] / "examples" / "own_kind.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    table = folder / "texts.tsv"
    table.write_text("".join(f"{word} {n} times\t{word}\n" for n in range(40) for word in ("yes", "no")))
    (folder / "mine.yaml").write_text(
        f"data: {{kind: labelled, train: {table}, held_out: 0.1}}\n"
        "tokens: {kind: word}\n"
        "model: {kind: one-look, width: 16}\n"
        "training: {steps: 40, batch: 400, warmup: 5, rate: 0.01}\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "train",
                str(folder / "mine.yaml"),
                "--kind",
                str(FILE),
                "--out",
                str(folder / "run"),
                "--device",
                "cpu",
            ]
        )
    assert ended.value.code == 0
    return folder / "run"


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    heard = capsys.readouterr()
    return ended.value.code, heard.out, heard.err


def test_it_classifies(capsys, run: Path) -> None:
    code, out, error = said(
        capsys, "classify", run, "yes 7 times", "no 7 times", "--kind", FILE, "--device", "cpu"
    )
    assert (code, out.split()) == (0, ["yes", "no"]), error
    code, out, error = said(capsys, "classify", run, "yes 7 times", "--kind", f"{FILE}:KIND")
    assert (code, out.split()) == (0, ["yes"]), error


def test_it_is_loaded_in_python_by_its_kind(run: Path) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("mine", FILE)
    assert spec is not None
    assert spec.loader is not None
    mine = module_from_spec(spec)
    spec.loader.exec_module(mine)
    loaded = load(run, kinds=[mine.KIND], device="cpu")
    assert type(loaded.model) is mine.OneLook
    assert loaded.model.config.width == 16
    assert loaded.verbs == ["classify"]
    assert loaded.classify(["no 3 times"]) == ["no"]
    with pytest.raises(RegardError, match="a OneLook cannot translate; it can classify"):
        loaded.translate(["no"])


def test_it_is_evaluated_described_resumed_and_explored(capsys, run: Path, tmp_path: Path) -> None:
    code, out, error = said(capsys, "evaluate", run, "--kind", FILE, "--device", "cpu")
    assert code == 0, error
    assert "accuracy 100.00 %" in out
    code, out, _ = said(capsys, "info", run, "--kind", FILE)
    assert code == 0
    assert "one-look" in out
    assert "classify, evaluate" in out
    code, _, error = said(capsys, "resume", run, "--kind", FILE, "--device", "cpu")
    assert code == 0
    assert "is finished" in error
    page = tmp_path / "page.html"
    code, _, error = said(
        capsys, "look", run, "yes 7 times", "--kind", FILE, "--export", page, "--device", "cpu"
    )
    assert code == 0, error
    assert "OneLook" in page.read_text()
    assert "regard classify" in (run / "README.md").read_text()


def test_it_is_exported_in_int8_and_used_as_before(capsys, run: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    export = ("export", run, "--to", "int8", "--out", small)
    code, _, error = said(capsys, *export)
    assert code == 2
    assert "--kind FILE.py" in error
    assert not small.exists()
    code, _, error = said(capsys, *export, "--kind", FILE)
    assert code == 0, error
    weights, smaller = ((folder / "model.safetensors").stat().st_size for folder in (run, small))
    assert smaller < weights
    code, out, error = said(
        capsys, "classify", small, "yes 7 times", "no 7 times", "--kind", FILE, "--device", "cpu"
    )
    assert (code, out.split()) == (0, ["yes", "no"]), error
    code, _, error = said(
        capsys, "export", run, "--to", "marian", "--out", tmp_path / "marian", "--kind", FILE
    )
    assert code == 2
    assert "is a one-look model: only Transformers that translate are exported to marian" in error


@pytest.mark.parametrize("verb", ["classify", "evaluate", "look"])
def test_without_the_kind_one_line_says_how(capsys, run: Path, verb: str) -> None:
    code, _, error = said(capsys, verb, run, *([] if verb == "evaluate" else ["yes"]))
    assert code == 2
    assert "'one-look' is none of transformer" in error
    assert "--kind FILE.py" in error
    assert error.count("\n") == 1


def test_a_run_never_makes_its_code_be_executed(run: Path, tmp_path: Path) -> None:
    """Not even where its config names a Python file beside it."""
    import json
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\nKIND = None\n")
    for name in ("trap.py", "trap.py:KIND", "trap", str(copy / "trap.py")):
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "kind": name}))
        with pytest.raises(RegardError, match="is none of"):
            load(copy, accept_changes=True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("text", "name", "what"),
    [
        ("KIND = 3", "", "has no `KIND = Kind"),
        ("", ":MINE", "has no `MINE = Kind"),
        (None, "", "no such file"),
        ("KIND = 1\ndef broken(:", "", "own.py:2: SyntaxError: invalid syntax"),
        ("import nothing_of_this_name", "", "own.py:1: ModuleNotFoundError: No module named"),
        ("\n\n1 / 0", "", "own.py:3: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')", "", "own.py:2: JSONDecodeError: "),
        ("raise SystemExit(3)", "", "own.py:1: SystemExit: 3"),
        ("\0", "", "own.py: SyntaxError: source code string cannot contain null bytes"),
    ],
)
def test_a_file_without_a_kind_is_refused_in_one_line(
    capsys, run: Path, tmp_path: Path, text, name, what
) -> None:
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    code, _, error = said(capsys, "classify", run, "yes", "--kind", f"{path}{name}")
    assert code == 2
    assert what in error
    assert error.count("\n") == 1
