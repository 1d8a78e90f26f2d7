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
from runs.small import (
    MODEL,
    TRAINING,
    classification,
    counter,
    language,
    numbers,
    trained,
    write_table,
    write_text,
)
from training.toys import Notebook

import regard
import regard.training.experiment as experiment
from regard import RegardError, RegardWarning
from regard.attention.masks import lengths
from regard.data.text_lines import Report
from regard.models.layout import through
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.results import changed_sources, keep_sources, sources_of
from regard.runs.settings import TextData
from regard.runs.tasks.language_modelling import texts_of
from regard.runs.tasks.translation import pairs_of
from regard.training.experiment import begin, prepare, resume
from regard.training.observers import Log

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
    finished = begin(counter(), tmp_path / "run", device="cpu")
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
        ({"kind": "pairs", "train": ""}, "data.train: no pair is left to train on; is the file empty?"),
        ({"kind": "text", "train": ""}, "data.train: no text to train on; is the file empty?"),
        ({"kind": "labelled", "train": ""}, "data.train: no text is left to train on; is the file empty?"),
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(numbers(), tmp_path_factory.mktemp("runs") / "finished")


@pytest.fixture
def ended(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of four updates."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def written(ended: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(each): (each.stat().st_mtime_ns, each.read_bytes()) for each in ended.rglob("*") if each.is_file()
    }


def weights(ended: Path) -> bytes:
    return RunFolder(ended).weights.read_bytes()


def test_a_finished_run_is_left_as_it_is(ended: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "prepare", None)  # no data is read
    before = written(ended)
    again = resume(ended, device="cpu")
    assert written(ended) == before
    assert again.already
    assert again.outcome.step == 4
    assert {metric.name for metric in again.metrics} == {"bleu", "chrf", "exact"}


def test_what_a_kill_left_half_written_in_a_finished_run_is_removed(ended: Path) -> None:
    before = written(ended)
    (ended / "curves.png.4711.part").write_bytes(b"half")
    assert resume(ended, device="cpu").already
    assert written(ended) == before


def test_a_finished_run_without_its_checkpoints_is_finished_too(ended: Path) -> None:
    shutil.rmtree(ended / "checkpoints")
    assert resume(ended, device="cpu").already
    with pytest.raises(RegardError, match=r"is finished and has no checkpoint to go on from"):
        resume(ended, device="cpu", changes=["training.steps=8"])


def test_a_finished_run_is_extended_to_what_it_would_have_been(ended: Path, tmp_path: Path) -> None:
    whole = trained(numbers(training={**TRAINING, "steps": 8}), tmp_path / "whole")
    said: list[str] = []
    extended = resume(ended, device="cpu", changes=["training.steps=8"], say=said.append, observers=logged)
    assert "training.steps: 4 → 8" in said
    assert extended.outcome.step == 8
    assert weights(ended) == weights(whole)
    assert (ended / "recipe.yaml").read_text() == (whole / "recipe.yaml").read_text()
    assert "- updates: 8" in (ended / "README.md").read_text()
    assert resume(ended, device="cpu").already


def logged(ended: RunFolder) -> list[Log]:
    return [Log(ended.log)]


def test_an_extension_that_was_interrupted_is_not_taken_for_finished(ended: Path, tmp_path: Path) -> None:
    class Stops(Log):
        def stepped(self, update) -> None:  # type: ignore[no-untyped-def]
            super().stepped(update)
            if update.step == 5:
                os.kill(os.getpid(), signal.SIGTERM)

    stopped = resume(
        ended, device="cpu", changes=["training.steps=8"], observers=lambda ended: [Stops(ended.log)]
    )
    assert (stopped.outcome.stopped, stopped.outcome.step) == (True, 6)
    assert not (ended / "README.md").exists()
    resumed = resume(ended, device="cpu")
    assert (resumed.already, resumed.outcome.step) == (False, 8)
    assert weights(ended) == weights(trained(numbers(training={**TRAINING, "steps": 8}), tmp_path / "whole"))


def test_decoding_is_changed_without_training_again(ended: Path) -> None:
    notes = Notebook()
    before = weights(ended)
    changed = resume(ended, device="cpu", changes=["decoding.beam=3"], observers=lambda ended: [notes])
    assert (changed.already, notes.updates, weights(ended) == before) == (False, [], True)
    assert RunFolder(ended).load_generation()["num_beams"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "model.width=32",
            "model.width cannot be changed on resuming: train a new run. These can: training.steps, ",
        ),
        ("training.batch=64", "training.batch cannot be changed on resuming"),
        ("training.averaging.ema=0.9", "training.averaging.ema cannot be changed on resuming"),
        ("training.best=bleu", "training.best cannot be changed on resuming"),
        ("data.train=61", "data.train cannot be changed on resuming"),
        ("seed=9", "seed cannot be changed on resuming"),
        ("training.steps=3", "training.steps=3: .*run has made 4 updates already"),
        ("training.stps=8", r"training\.stps: no such setting; did you mean steps"),
    ],
)
def test_what_made_a_run_what_it_is_cannot_be_changed(change: str, said: str, ended: Path) -> None:
    before = written(ended)
    with pytest.raises(RegardError, match=said):
        resume(ended, device="cpu", changes=[change])
    assert written(ended) == before


def test_a_change_to_what_is_so_already_is_none(ended: Path) -> None:
    assert resume(ended, device="cpu", changes=["training.steps=4", "model.width=16"]).already


def test_a_signal_while_data_is_read_leaves_a_folder_that_can_be_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "prepare", lambda *a, **k: os.kill(os.getpid(), signal.SIGTERM))
        stopped = begin(numbers(), tmp_path / "run", device="cpu")
    assert (stopped.outcome.stopped, stopped.outcome.step) == (True, 0)
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["checkpoints"]
    assert begin(numbers(), tmp_path / "run", device="cpu").outcome.step == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_final_test_is_obeyed_and_resuming_tests_again_without_training(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    notes = Notebook()
    with monkeypatch.context() as patch:
        patch.setattr(experiment._Experiment, "_tested", lambda *arguments: os.kill(os.getpid(), number))
        stopped = begin(numbers(), tmp_path / "run", device="cpu")
    assert (stopped.outcome.stopped, stopped.outcome.step, stopped.metrics) == (True, 4, ())
    assert not (tmp_path / "run" / "README.md").exists()
    resumed = resume(tmp_path / "run", device="cpu", observers=lambda ended: [notes])
    assert (notes.updates, resumed.outcome.stopped) == ([], False)
    assert weights(tmp_path / "run") == weights(finished)
    assert (tmp_path / "run" / "README.md").exists()


def test_a_text_that_changed_is_said_when_its_run_goes_on(tmp_path: Path) -> None:
    text, said = write_text(tmp_path), []
    ended = trained(language(text), tmp_path / "run")
    resume(ended, device="cpu", changes=["training.steps=5"], say=said.append)
    assert not [line for line in said if "changed" in line]
    text.write_text(text.read_text() + "\nand more")
    resume(ended, device="cpu", changes=["training.steps=6"], say=said.append)
    size = text.stat().st_size
    assert (
        f"the data changed since this run began: {text} ({size - 9:,} bytes then, {size:,} now); "
        "it goes on with what is there now"
    ) in said


def kept(tmp_path: Path, recipe) -> RunFolder:  # type: ignore[no-untyped-def]
    ended = RunFolder(tmp_path / "run")
    ended.path.mkdir()
    keep_sources(ended, recipe)
    return ended


def test_other_contents_of_the_same_size_are_noticed_and_a_touch_is_not(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    ended = kept(tmp_path, classification(table))
    table.touch()
    assert changed_sources(ended, classification(table)) is None
    table.write_text(table.read_text().replace("aeiou", "uoiea"))
    assert f"{table} (other contents)" in str(changed_sources(ended, classification(table)))


def test_a_file_that_moved_is_the_same(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    ended = kept(tmp_path, classification(table))
    moved = table.rename(tmp_path / "elsewhere.tsv")
    assert changed_sources(ended, classification(moved)) is None


def test_of_a_folder_names_and_sizes_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    (folder / "cat").mkdir(parents=True)
    (folder / "cat" / "1.png").write_bytes(b"123")
    recipe = numbers(data={"kind": "images", "train": str(folder)}, model={"kind": "vision"})
    ended = kept(tmp_path, recipe)
    assert changed_sources(ended, recipe) is None
    (folder / "cat" / "2.png").write_bytes(b"1")
    assert f"{folder} (1 files then, 2 now)" in str(changed_sources(ended, recipe))


def test_two_files_and_a_folder_that_paths_begin_at(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "b.en", "b.de"):
        (tmp_path / name).write_text(name)
    data = {"kind": "pairs", "folder": str(tmp_path), "train": {"source": "a.en", "target": "a.de"}}
    data["valid"] = {"source": "b.en", "target": "b.de"}
    names = [Path(each["path"]).name for each in sources_of(numbers(data=data))]
    assert names == ["a.en", "a.de", "b.en", "b.de"]


def test_made_data_has_no_files_and_older_runs_know_of_none(tmp_path: Path) -> None:
    ended = kept(tmp_path, numbers())
    assert not ended.data.exists()
    assert changed_sources(ended, classification(write_table(tmp_path))) is None


@pytest.mark.parametrize("written", ['{"files": 3}', "{}"])
def test_what_is_no_list_of_files_is_not_compared(written: str, tmp_path: Path) -> None:
    ended = kept(tmp_path, numbers())
    ended.data.write_text(written)
    assert changed_sources(ended, classification(write_table(tmp_path))) is None
