"""A run is evaluated on any file that holds what it was trained on, whatever its layout."""

import json

import pytest
from runs.small import classification, numbers, trained, write_table
from typer.testing import CliRunner

from regard import RegardError
from regard.cli import app
from regard.runs.evaluation import evaluate_run

PAIRS = [("one", "un"), ("two", "deux"), ("twenty", "vingt")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(numbers(), tmp_path_factory.mktemp("evaluating") / "run")


def write(folder, layout: str) -> tuple[str, list[str | int] | None]:
    rows = [(str(n), *pair) for n, pair in enumerate(PAIRS)]
    objects = [{"id": n, "translation": {"en": en, "fr": fr}} for n, (en, fr) in enumerate(PAIRS)]
    texts = {
        "pairs.tsv": ("".join(f"{en}\t{fr}\n" for en, fr in PAIRS), None),
        "pairs.txt": ("".join(f"{en}\t{fr}\n" for en, fr in PAIRS), None),
        "named.csv": (
            "id;english;french\n" + "".join(";".join(row) + "\n" for row in rows),
            ["english", "french"],
        ),
        "numbered.csv": ("".join(",".join(row) + "\n" for row in rows), [2, 3]),
        "nested.jsonl": ("\n".join(map(json.dumps, objects)), ["en", "fr"]),
    }
    text, columns = texts[layout]
    (folder / layout).write_text(text)
    return str(folder / layout), columns


@pytest.mark.parametrize("layout", ["pairs.tsv", "pairs.txt", "named.csv", "numbered.csv", "nested.jsonl"])
def test_every_layout_gives_the_same_metrics(run, tmp_path, layout):
    (tmp_path / "en").write_text("".join(f"{en}\n" for en, _ in PAIRS))
    (tmp_path / "fr").write_text("".join(f"{fr}\n" for _, fr in PAIRS))
    expected = evaluate_run(run, on=f"{tmp_path}/en,{tmp_path}/fr", device="cpu")
    path, columns = write(tmp_path, layout)
    assert evaluate_run(run, on=path, columns=columns, device="cpu") == expected
    if columns is not None:
        with pytest.raises(RegardError, match=f"--columns {columns[0]}|--columns translation.en"):
            evaluate_run(run, on=path, device="cpu")


def test_which_columns_were_read_is_said_and_the_run_is_shown_before_it_answers(run, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("source,target\none,un\n ,deux\n")
    heard: list[str] = []
    with pytest.raises(RegardError, match="source: empty, stopped there"):
        evaluate_run(run, on=str(path), device="cpu", say=heard.append)
    path.write_text("source,target\none,un\n")
    shown: list[str] = []
    evaluate_run(
        run,
        on=str(path),
        device="cpu",
        say=heard.append,
        on_load=lambda loaded: shown.append(f"{loaded.model.optimised.summary} {len(heard)}"),
    )
    assert len(shown) == 1
    assert shown[0].startswith("optimised for inference: float32")
    assert shown[0].endswith(" 0")
    assert heard == [f"{path}: columns 'source' and 'target'; the first line is a header"]


def test_columns_are_given_on_the_command_line(run, tmp_path):
    path, _ = write(tmp_path, "numbered.csv")
    result = CliRunner().invoke(
        app, ["evaluate", str(run), "--on", path, "--columns", "2,3", "--device", "cpu"]
    )
    assert result.exit_code == 0
    assert "bleu" in result.output


@pytest.mark.parametrize(
    ("on", "columns", "message"),
    [
        (None, [1, 2], "--columns 1,2: of which file"),
        ("a,b", [1, 2], "two parallel files have no columns"),
        ("a.tsv", [1], "give two"),
    ],
)
def test_columns_that_make_no_sense_are_refused(run, on, columns, message):
    with pytest.raises(RegardError, match=message):
        evaluate_run(run, on=on, columns=columns, device="cpu")


def test_a_classifier_is_evaluated_on_other_columns_and_reads_the_file_once(tmp_path):
    folder = trained(classification(write_table(tmp_path)), tmp_path / "run")
    (tmp_path / "other.csv").write_text("id,class,review\n1,vowels,aei\n2,consonants,bcd\n")
    heard: list[str] = []
    on = str(tmp_path / "other.csv")
    metrics = evaluate_run(folder, on=on, columns=["review", "class"], device="cpu", say=heard.append)
    assert {metric.name for metric in metrics} == {"loss", "perplexity", "accuracy"}
    assert heard == [f"{on}: columns 'review' and 'class'; the first line is a header"]
