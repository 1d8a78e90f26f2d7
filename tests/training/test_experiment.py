"""From a recipe to a run folder that answers, for every task."""

import errno
import json
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest
import torch
from runs.small import MODEL, TRAINING, classification, language, numbers, trained, write_table, write_text

import regard
from regard import RegardError, RegardWarning
from regard.attention.masks import lengths
from regard.data.text_lines import Report
from regard.models.layout import through
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.settings import TextData
from regard.runs.tasks import prepare
from regard.runs.tasks.language_modelling import texts_of
from regard.runs.tasks.translation import pairs_of
from regard.training.experiment import begin, resume
from regard.training.log import Log

RECURRENT = {"kind": "recurrent", "width": 16, "embedding_width": 8, "attention": "additive"}


def test_a_run_folder_holds_what_people_expect(tmp_path) -> None:
    path = trained(numbers(), tmp_path / "run")
    names = {file.name for file in path.iterdir()}
    assert names >= {
        "config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md", "recipe.yaml",
        "checkpoints", "metrics.json",
    }  # fmt: skip
    assert not [file for file in path.rglob("*") if file.suffix in (".pt", ".pkl", ".bin", ".pth")]
    card = (path / "README.md").read_text()
    assert "regard translate" in card
    assert r"| bleu | 0.00 | nrefs:1\|case:mixed\|" in card
    assert "regard train" in card
    assert {each["name"] for each in json.loads((path / "metrics.json").read_text())} == {
        "bleu",
        "chrf",
        "exact",
    }


@pytest.mark.parametrize("changes", [{}, {"model": RECURRENT}])
def test_a_loaded_translator_gives_what_the_model_gave_when_it_was_trained(tmp_path, changes) -> None:
    finished = begin(numbers(**changes), tmp_path / "run", device="cpu")
    translator = load(finished.run.path, device="cpu")
    texts = ["one", "twenty-two", ""]
    answers = translator.translate(texts)
    assert len(answers) == 3
    assert answers[2] == ""
    test = list(pairs_of(numbers(), "test")())
    exact = sum(
        answer == target
        for answer, (_, target) in zip(translator.translate([s for s, _ in test]), test, strict=True)
    )
    assert {m.name: m.value for m in finished.metrics}["exact"] == exact / len(test)
    scores = translator.score(["one", "two"], ["un", "deux"])
    assert all(score < 0 for score in scores)
    best = translator.hypotheses(["twenty"], count=3)[0]
    assert [one.ranking for one in best] == sorted((one.ranking for one in best), reverse=True)


def test_a_language_model_writes_streams_and_scores(tmp_path) -> None:
    writer = load(trained(language(write_text(tmp_path)), tmp_path / "run"), device="cpu")
    whole = writer.generate(["line "], seed=3)[0]
    assert "".join(writer.stream("line ", seed=3)) == whole
    assert writer.generate(["line ", "line "], seed=3)[0] == whole
    assert writer.score(["line 1"])[0] < 0
    assert isinstance(writer.generate([""], temperature=0.0)[0], str)


def test_a_language_model_of_lines_begins_them_all_alike(tmp_path) -> None:
    text = write_text(tmp_path)
    recipe = language(text, data={"kind": "text", "train": str(text), "unit": "lines"})
    writer = load(trained(recipe, tmp_path / "run"), device="cpu")
    assert writer.lines
    assert writer.prompts(["l"]).tokens[0, 0] == 1


def test_a_classifier_names_the_labels_of_its_texts(tmp_path) -> None:
    sorter = load(trained(classification(write_table(tmp_path)), tmp_path / "run"), device="cpu")
    assert set(sorter.classify(["aeiou", "bcd"])) <= {"vowels", "consonants"}
    for likely in sorter.probabilities(["aeiou", "bcd"]):
        assert sum(likely.values()) == pytest.approx(1, abs=1e-5)


def test_a_counter_counts(tmp_path) -> None:
    recipe = numbers(
        data={"kind": "counting", "train": 500, "valid": 100, "test": 100}, model={"kind": "counter"}
    )
    finished = begin(recipe, tmp_path / "run", device="cpu")
    assert {metric.name for metric in finished.metrics} == {"loss", "perplexity", "accuracy"}


def test_a_finished_run_resumed_ends_with_the_same_bits(tmp_path) -> None:
    path = trained(numbers(), tmp_path / "run")
    before = RunFolder(path).load_weights()
    resume(path, device="cpu")
    after = RunFolder(path).load_weights()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_stopped_half_way_and_resumed_is_the_whole_run(tmp_path) -> None:
    whole = RunFolder(trained(numbers(), tmp_path / "whole")).load_weights()

    class Stops(Log):
        def stepped(self, update) -> None:
            if update.step == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    finished = begin(numbers(), tmp_path / "run", device="cpu", observers=lambda run: [Stops(run.log)])
    assert finished.outcome.stopped
    with pytest.warns(
        RegardWarning, match=r"is not finished: taking its (newest|best) checkpoint, of step 2; finish it"
    ):
        load(tmp_path / "run")
    resume(tmp_path / "run", device="cpu")
    halves = RunFolder(tmp_path / "run").load_weights()
    assert all(torch.equal(whole[name], halves[name]) for name in whole)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Path:
    """A run that was stopped after its first update."""

    class Stops(Log):
        def stepped(self, update) -> None:
            super().stepped(update)
            if update.step == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    path = tmp_path_factory.mktemp("runs") / "interrupted"
    assert begin(numbers(), path, device="cpu", observers=lambda run: [Stops(run.log)]).outcome.stopped
    return path


@pytest.fixture
def run(interrupted, tmp_path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(interrupted, tmp_path / "run"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The weights of an uninterrupted run."""
    return (trained(numbers(), tmp_path_factory.mktemp("runs") / "whole") / "model.safetensors").read_bytes()


def test_resuming_leaves_the_files_it_reads_as_they_are(run) -> None:
    names = ("recipe.yaml", "tokenizer.json", "generation_config.json", "config.json")
    generation = run / "generation_config.json"
    generation.write_text(generation.read_text().replace('"num_beams": 1', '"num_beams": 3'))
    before = {name: ((run / name).stat().st_ino, (run / name).stat().st_mtime_ns) for name in names}
    resume(run, device="cpu")
    assert {name: ((run / name).stat().st_ino, (run / name).stat().st_mtime_ns) for name in names} == before
    assert load(run, device="cpu").decoding.beam == 3


def test_a_disk_that_takes_nothing_costs_nothing_of_a_run(run, whole) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(RegardError, match=r"run cannot be written to \(File too large\)"):
            resume(run, device="cpu", observers=lambda run: [Log(run.log)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    resume(run, device="cpu", observers=lambda run: [Log(run.log)])
    assert (run / "model.safetensors").read_bytes() == whole


@pytest.mark.parametrize("name", ["recipe.yaml", "tokenizer.json", "generation_config.json", "config.json"])
@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_start_that_ends_in_any_of_its_writes_can_be_taken_up(
    tmp_path, monkeypatch, whole, name, how
) -> None:
    class Killed(BaseException):
        pass

    replace = os.replace

    def refused(a, b) -> None:
        if Path(b).name == name:
            if how == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # who is killed does not tidy up
            raise Killed("killed")
        replace(a, b)

    monkeypatch.setattr(os, "replace", refused)
    said = f"{name} cannot be written .No space" if how == "full" else "killed"
    with pytest.raises((RegardError, Killed), match=said):
        begin(numbers(), tmp_path / "run", device="cpu")
    monkeypatch.undo()
    if name == "recipe.yaml":  # a folder without it is no run yet
        begin(numbers(), tmp_path / "run", device="cpu")
    else:
        with pytest.raises(RegardError, match="go on with it by `regard resume"):
            begin(numbers(), tmp_path / "run", device="cpu")
        resume(tmp_path / "run", device="cpu")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole
    assert not list(tmp_path.rglob("*.part"))


def test_an_earlier_run_lends_its_encoder(tmp_path) -> None:
    first = trained(numbers(seed=5), tmp_path / "first")
    init = {"run": str(first), "parts": ["encoder"], "freeze": True}
    second = trained(numbers(init=init), tmp_path / "second")
    lent, now = RunFolder(first).load_weights(), RunFolder(second).load_weights()
    encoder = [name for name in lent if name.startswith("encoder.")]
    assert encoder
    assert all(torch.equal(lent[name], now[name]) for name in encoder)
    assert not torch.equal(lent["target_embedding.table"], now["target_embedding.table"])


@pytest.mark.parametrize("tied", ["all", "output"])
def test_the_encoder_of_a_translator_serves_a_classifier_with_its_embedding_and_tokenizer(
    tmp_path, tied
) -> None:
    model = {"kind": "transformer", "decoder_depth": 1, "tied": tied, **MODEL}
    first = trained(numbers(model=model), tmp_path / "first")
    parts = ["source_embedding", "encoder", "encoder_norm"]
    recipe = classification(
        write_table(tmp_path),
        init={"run": str(first), "parts": parts, "freeze": True},
        tokens={"kind": "word"},
    )
    heard: list[str] = []
    second = begin(recipe, tmp_path / "second", device="cpu", say=heard.append).run.path
    assert (second / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()
    table = "target_embedding" if tied == "all" else "source_embedding"
    assert any(
        f"{table} as embedding, encoder, encoder_norm as norm, and kept as they are" in each for each in heard
    )
    assert "init: begins with new weights: pooling, output" in heard
    assert any("the tokenizer is that of" in each for each in heard)
    sorter, translator = load(second, device="cpu"), load(first, device="cpu")
    assert set(sorter.classify(["aeiou", "twenty-one"])) <= {"vowels", "consonants"}
    texts = sorter.reader.batch(["twenty-one", "two hundred"])
    with torch.no_grad():
        read = translator.model.read(texts)
        blocks, norm = sorter.model.encoder, sorter.model.norm
        own = norm(through(blocks, sorter.model.embedding(texts.tokens), lengths(keys=texts.lengths)))
    for row, other, length in zip(own, read.vectors, texts.lengths, strict=True):
        torch.testing.assert_close(row[:length], other[:length])


def test_separate_vocabularies_are_two_tokenizers(tmp_path) -> None:
    path = trained(numbers(tokens={"kind": "word", "joint": False}), tmp_path / "run")
    assert (path / "tokenizer.target.json").exists()
    translator = load(path, device="cpu")
    assert translator.source.size != translator.target.size or translator.source is not translator.target
    assert len(translator.translate(["one"])) == 1


def test_pairs_that_are_held_out_are_never_trained_on(tmp_path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"source {i % 50}\ttarget {i}\n" for i in range(200)), "utf-8")
    recipe = numbers(data={"kind": "pairs", "train": str(table), "held_out": 0.2})
    splits = {
        split: {source for source, _ in pairs_of(recipe, split)()} for split in ("train", "valid", "test")
    }
    assert all(splits.values())
    assert splits["train"].isdisjoint(splits["valid"] | splits["test"])
    assert splits["valid"].isdisjoint(splits["test"])
    assert len(set.union(*splits.values())) == 50


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"kind": "language"}}, "a language model reads text"),
        ({"data": {"kind": "text", "train": "x.txt"}}, "text holds no pairs to translate"),
        ({"data": {"kind": "pairs", "train": "nowhere.tsv"}}, "nowhere.tsv"),
        ({"data": {"kind": "counting"}}, "counting holds no pairs to translate"),
        ({"model": {"kind": "counter"}}, "its data is counting"),
        ({"training": {"best": "bleu"}}, "training.best=bleu: nothing is translated"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(changes, said) -> None:
    with pytest.raises(RegardError) as error:
        prepare(numbers(**changes), Report())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_weights_of_another_model_are_refused_in_one_line(tmp_path) -> None:
    path = trained(numbers(), tmp_path / "run")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "hidden_width": 24}))
    with pytest.raises(RegardError, match=r"does not fit .*config\.json") as error:
        regard.load(path)
    assert "\n" not in str(error.value)


def test_decoding_can_be_changed_by_hand_in_the_folder(tmp_path) -> None:
    path = trained(numbers(), tmp_path / "run")
    changed = json.loads((path / "generation_config.json").read_text()) | {"num_beams": 3}
    (path / "generation_config.json").write_text(json.dumps(changed))
    assert load(path).decoding.beam == 3
    (path / "generation_config.json").write_text(json.dumps({**changed, "num_beams": "many"}))
    with pytest.raises(RegardError, match=r"beam: 'many' is not a whole number"):
        load(path)


def test_validation_can_decode(tmp_path) -> None:
    said: list[dict[str, float]] = []

    class Hears(Log):
        def evaluated(self, step, metrics) -> None:
            said.append(dict(metrics))

    recipe = numbers(training={**TRAINING, "decode": 3})
    begin(recipe, tmp_path / "run", device="cpu", observers=lambda run: [Hears(run.log)])
    assert len(said) == 2
    assert {"loss", "bleu", "exact"} <= said[0].keys()


def test_a_start_that_fails_leaves_a_folder_that_can_be_used_again(tmp_path) -> None:
    wrong = numbers(data={"kind": "pairs", "train": "nowhere.tsv"})
    with pytest.raises(RegardError, match="nowhere"):
        begin(wrong, tmp_path / "run", device="cpu")
    assert trained(numbers(), tmp_path / "run").exists()


def test_data_too_small_to_hold_any_out_says_so(tmp_path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("one\tun\ntwo\tdeux\n")
    recipe = numbers(data={"kind": "pairs", "train": str(table), "held_out": 0.001})
    with pytest.raises(
        RegardError, match=r"data\.valid: no pair is there; give a file with some, or a larger"
    ):
        prepare(recipe, Report())


def test_a_run_that_takes_embeddings_takes_the_tokenizer_they_belong_to(tmp_path) -> None:
    first = trained(numbers(), tmp_path / "first")
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"source {i}\ttarget {i}\n" for i in range(60)), "utf-8")
    data = {"kind": "pairs", "train": str(table), "held_out": 0.2}
    second = trained(numbers(data=data, init={"run": str(first)}), tmp_path / "second")
    assert (second / "tokenizer.json").read_bytes() == (first / "tokenizer.json").read_bytes()
    third = trained(numbers(data=data, init={"run": str(first), "parts": ["encoder"]}), tmp_path / "third")
    assert (third / "tokenizer.json").read_bytes() != (first / "tokenizer.json").read_bytes()


def test_a_bad_line_of_a_stream_is_dealt_with_by_the_policy(tmp_path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"a good line\n" * 50 + b"\xff\n" + b"another\n" * 50)
    data = {"kind": "text", "train": str(text), "context": 8}
    with pytest.raises(RegardError, match=r"text\.txt:51"):
        prepare(language(text, data=data), Report())
    report = Report()
    prepare(language(text, data={**data, "policy": "skip"}), report)
    assert report.total == 1


def test_one_text_and_a_wrong_setting_are_refused_by_name(tmp_path) -> None:
    translator = load(trained(numbers(), tmp_path / "run"))
    with pytest.raises(RegardError, match=r"put it in brackets, \['one'\]"):
        translator.translate("one")
    with pytest.raises(RegardError, match=r"translate\.beams: no such setting; did you mean beam"):
        translator.translate(["one"], beams=3)


def test_a_log_that_cannot_be_written_is_one_line(tmp_path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.started(torch.nn.Linear(1, 1), step=0, steps=1)
    log._file.close()
    log._file = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(RegardError, match=r"log\.jsonl cannot be written \(No space left on device\)"):
        log.evaluated(1, {"loss": 1.0})
    log.close()


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5])
def test_the_end_of_a_stream_is_held_out_to_the_letter(tmp_path, share) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{i}: {'abc' * (i % 50)}\n" for i in range(2000)), "utf-8")
    whole = text.read_text("utf-8")
    data = TextData(train=str(text), held_out=share)
    texts = texts_of(data, Report())
    at = round(len(whole) * (1 - share))
    assert "".join(texts["train"]()) == whole[:at]
    assert "".join(texts["valid"]()) == whole[at:]
    assert max(map(len, texts["train"]())) < 11_000


def test_the_last_texts_are_held_out_where_a_line_is_one(tmp_path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"text {i}\n\n" for i in range(10)), "utf-8")
    texts = texts_of(TextData(train=str(text), unit="lines", held_out=0.2), Report())
    assert [*texts["train"](), *texts["valid"]()] == [f"text {i}" for i in range(10)]
    assert list(texts["test"]()) == ["text 8", "text 9"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"kind": "pairs", "train": ""}, "data.train: no pair is left to train on"),
        ({"kind": "text", "train": ""}, "data.train: no text to train on; is the file empty?"),
        ({"kind": "labelled", "train": ""}, "data.train: no text is left to train on"),
    ],
)
def test_an_empty_file_is_said_to_be_empty(tmp_path, data, said) -> None:
    (tmp_path / "none.tsv").write_bytes(b"")
    data = {**data, "train": str(tmp_path / "none.tsv")}
    model = {"pairs": "transformer", "text": "language", "labelled": "classifier"}[data["kind"]]
    with pytest.raises(RegardError) as error:
        prepare(numbers(data=data, model={"kind": model}), Report())
    assert str(error.value) == said


def test_a_source_too_long_to_wait_for_is_refused(tmp_path) -> None:
    translator = load(trained(numbers(), tmp_path / "run"))
    with pytest.raises(
        RegardError, match=r"tokens long, and a source has at most 2,048: cut it, or set decoding\.most"
    ):
        translator.translate(["one", "two " * 5000])
    assert len(translator.translate(["two " * 30], most=1000, extra=1, longest=0.1)) == 1
