"""The runs that come with the package: found by name, and as good as their card says on sentences read by a person."""

import csv
from itertools import pairwise
from pathlib import Path

import pytest
from runs.small import numbers

from regard import RegardError, load
from regard.cli import main
from regard.runs.describing import describe_run, verify_run
from regard.runs.evaluation import evaluate_run
from regard.runs.folder import SHIPPED, RunFolder, located_run, shipped_names
from regard.training.experiment import begin, resume

SENTENCES = (
    Path(__file__).parent / "french_sentences.tsv"
)  # of 1 to 25 words; `mistake` is what a reader found


def sentences() -> list[dict[str, str]]:
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_a_shipped_run_is_found_by_its_name_from_anywhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped_names() == ["french"]
    assert located_run("french") == SHIPPED / "french"
    assert located_run(Path("french")) == SHIPPED / "french"
    assert located_run("runs/french") == Path("runs/french")
    with pytest.raises(RegardError, match=r"nowhere: no such run; .* or comes with regard \(french\)"):
        load("nowhere")


def test_a_run_of_that_name_goes_first_and_a_folder_that_is_no_run_does_not(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("french").mkdir()
    assert located_run("french") == SHIPPED / "french"
    begin(numbers(training={"steps": 1, "evaluate": 1, "batch": 64}), Path("french"), overwrite=True)
    assert RunFolder.existing("french").path == Path("french")


def test_its_files_are_those_that_were_shipped_and_it_is_described() -> None:
    assert {state for _, state in verify_run("french")} == {"as written"}
    described = dict(describe_run("french"))
    assert described["training"] == "finished, 14,500 updates"
    assert sum(each.stat().st_size for each in (SHIPPED / "french").iterdir()) < 12e6


def test_nothing_is_written_into_a_shipped_run() -> None:
    before = sorted(each.name for each in (SHIPPED / "french").iterdir())
    with pytest.raises(
        RegardError, match=r"french comes with regard and is not trained further; .*init.run=french"
    ):
        resume(Path("french"))
    with pytest.raises(RegardError, match="install regard anew"):
        RunFolder.existing("french").accept()
    assert sorted(each.name for each in (SHIPPED / "french").iterdir()) == before


def test_a_training_begins_with_its_weights_by_name_from_any_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("french").mkdir()  # in the way, and no run
    Path("texts.tsv").write_text(
        "".join(f"I see {n} birds.\tyes\nNo, {n}.\tno\n" for n in range(60)), "utf-8"
    )
    few = ["training.steps=1", "training.evaluate=1", "data.train=texts.tsv", "data.held_out=0.2"]
    options = [part for each in few for part in ("--set", each)]
    with pytest.raises(SystemExit) as ended:
        main(["train", "classify", "--from", "french", *options, "--out", "sorted", "--device", "cpu"])
    assert ended.value.code == 0
    given, taken = load("french", device="cpu", optimise=False), load("sorted", device="cpu", optimise=False)
    assert taken.reader.tokenizer.to_json() == given.source.to_json()
    weight = "encoder.0.attention.input.all.weight"
    apart = taken.model.get_parameter(weight) - given.model.get_parameter(weight)
    assert float(apart.detach().abs().max()) < 2e-3  # one update away


def test_without_a_file_it_cannot_be_evaluated_and_says_what_to_give() -> None:
    with pytest.raises(RegardError, match=r"without its test data: give a file, --on FILE"):
        evaluate_run("french")


def test_a_path_to_it_is_the_shipped_run_too() -> None:
    assert RunFolder.existing(SHIPPED / ".." / "shipped" / "french").is_shipped
    assert located_run("french/") == SHIPPED / "french"


def test_it_translates_whatever_the_sentence_is_written_like() -> None:
    french = load("french", device="cpu")
    written = ["Where is the station?", "where is the station", "WHERE IS THE STATION?"]
    assert french.translate(written) == ["Où est la gare\u202f?"] * 3  # a narrow space that does not break
    assert french.translate(["", "  ", " \t\r", "\u00a0"]) == [""] * 4


def test_without_standard_error_it_answers_all_the_same(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with pytest.raises(SystemExit) as ended:
        main(["translate", "french", "Hello.", "--device", "cpu"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == ["Salut", "!"]


def repeats(text: str, words: int) -> bool:
    """Whether a row of so many words comes twice."""
    parts = text.lower().rstrip(".!? ").split()
    rows = [tuple(parts[start : start + words]) for start in range(len(parts) - words + 1)]
    return len({*rows}) < len(rows)


def test_the_sentences_are_ordinary_ones_of_1_to_25_words() -> None:
    lengths = [len(each["english"].split()) for each in sentences()]
    assert len(lengths) >= 50
    assert {*lengths} == {*range(1, 26)}
    assert repeats("un chapeau noir et un chapeau noir", 3)  # what the tests below look for


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_it_neither_repeats_itself_nor_stops_short(precision: str) -> None:
    french, given = load("french", device="cpu", precision=precision), sentences()
    found = [best[0] for best in french.hypotheses([each["english"] for each in given])]
    read = 0
    for each, one in zip(given, found, strict=True):
        source, text = each["english"], one.text
        assert text[-1] in ".!?", (source, text)
        assert not repeats(text, 3), (source, text)
        words = [word for word in text.split() if word not in ("nous", "vous")]  # "nous nous lavons"
        assert all(left != right for left, right in pairwise(words)), (source, text)
        # About as long as the translation that was read, which leaves nothing out.
        assert 0.8 <= len(text) / len(each["french"]) <= 1.25, (source, text)
        read += text == each["french"]
    assert read >= 0.8 * len(given)  # the translations that were read; another CPU may round to another word
