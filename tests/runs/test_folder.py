"""Run folders and the digests of their files."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
import torch
from runs.small import numbers, trained
from tokenizers import Tokenizer as Plain

from regard import RegardError, RegardWarning
from regard.cli import main
from regard.data.tokenizer import Tokenizer
from regard.runs.folder import SUMS, Digests, RunFolder
from regard.runs.load import load
from regard.runs.settings import Decoding
from regard.training.experiment import resume


def test_a_folder_with_a_run_is_left_alone(tmp_path) -> None:
    RunFolder.new(tmp_path / "run").save_recipe(numbers())
    with pytest.raises(RegardError, match=r"holds a run: go on with it by `regard resume .*--overwrite"):
        RunFolder.new(tmp_path / "run")
    assert RunFolder.existing(tmp_path / "run").load_recipe() == numbers()


def test_overwriting_removes_the_run_and_nothing_else(tmp_path) -> None:
    run = RunFolder.new(tmp_path / "run")
    run.save_recipe(numbers())
    run.save_weights({"w": torch.ones(2)})
    (run.checkpoints / "step-1.safetensors").write_bytes(b"x")
    (run.path / "my notes.txt").write_text("mine")
    RunFolder.new(run.path, overwrite=True)
    assert sorted(file.name for file in run.path.rglob("*") if file.is_file()) == ["my notes.txt"]


def test_a_start_that_was_killed_leaves_a_folder_that_can_be_used(tmp_path) -> None:
    run = RunFolder.new(tmp_path / "run")
    for unfinished in (run.path / "recipe.yaml.123.part", run.checkpoints / "step-1.safetensors.45.part"):
        unfinished.write_bytes(b"half")
    RunFolder.new(run.path)
    assert not [file for file in run.path.rglob("*") if file.is_file()]


def test_a_folder_that_is_no_run_is_never_cleared(tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RegardError, match="not empty and is no run"):
        RunFolder.new(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_run_is_said_to_be_none(tmp_path, name) -> None:
    with pytest.raises(RegardError, match=r"no such run|is not a run"):
        RunFolder.existing(tmp_path / name)


def test_a_place_that_cannot_be_written_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=r"file cannot be written to|file/run cannot be written to"):
        RunFolder.new(tmp_path / "file" / "run")


def test_weights_come_back_to_the_bit(tmp_path) -> None:
    run = RunFolder.new(tmp_path)
    weights = {"a": torch.randn(3, 5), "b": torch.randn(7).to(torch.bfloat16)}
    run.save_weights(weights)
    back = run.load_weights()
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {"model.safetensors", "SHA256SUMS"}


def test_broken_weights_are_named(tmp_path) -> None:
    run = RunFolder.new(tmp_path)
    with pytest.raises(RegardError, match="no model yet: finish it with `regard resume"):
        run.load_weights()
    run.weights.write_bytes(b"\x00" * 20)
    with pytest.raises(RegardError, match=r"model\.safetensors is broken"):
        run.load_weights()


def test_generation_settings_are_in_the_words_others_use(tmp_path) -> None:
    run = RunFolder.new(tmp_path)
    run.save_generation(Decoding(beam=5, penalty=0.6, tokens=99))
    said = json.loads(run.generation.read_text())
    assert (said["num_beams"], said["length_penalty"], said["max_new_tokens"]) == (5, 0.6, 99)
    assert (said["pad_token_id"], said["bos_token_id"], said["eos_token_id"]) == (0, 1, 2)


def test_tokenizers_are_found_by_side_and_read_by_others(tmp_path) -> None:
    run = RunFolder.new(tmp_path)
    source, target = (Tokenizer.train([text], kind="word") for text in ("one two", "un deux trois"))
    run.save_tokenizers({"source": source, "target": target})
    back = run.load_tokenizers()
    assert back["target"].encode("trois un") == target.encode("trois un")
    assert Plain.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size() == source.size


def test_labels_are_kept_in_order(tmp_path) -> None:
    run = RunFolder.new(tmp_path)
    run.save_config(numbers().model, ["b", "a", "c"])
    assert run.load_labels() == ["b", "a", "c"]
    run.save_config(numbers().model)
    assert run.load_labels() is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(numbers(), tmp_path_factory.mktemp("runs") / "made")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_a_run_names_what_it_loads(made: Path) -> None:
    names = ["config.json", "generation_config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"]
    assert list(Digests(made).known()) == names
    for name in names:
        assert Digests(made).known()[name] == [hashlib.sha256((made / name).read_bytes()).hexdigest()]


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_the_tool_that_everybody_has_agrees(made: Path) -> None:
    done = subprocess.run(["sha256sum", "-c", SUMS], cwd=made, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK") == 5


def test_an_untouched_run_is_loaded_without_a_word(made: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(made, device="cpu")


def test_a_bit_flipped_anywhere_in_the_weights_is_refused(run: Path) -> None:
    folder, chance = RunFolder(run), random.Random(5)
    size = 8 * folder.weights.stat().st_size
    for bit in [0, 64, 8 * 100, size - 1, *(chance.randrange(size) for _ in range(200))]:
        flip(folder.weights, bit)
        with pytest.raises(RegardError, match=r"model\.safetensors is not the file that training wrote"):
            folder.load_weights()
        flip(folder.weights, bit)
    folder.load_weights()


def test_damage_is_refused_with_the_ways_out_of_it(run: Path, made: Path) -> None:
    flip(run / "model.safetensors", -10)
    with pytest.raises(RegardError) as told:
        load(run, device="cpu")
    assert str(told.value) == (
        f"{run}/model.safetensors is not the file that training wrote (its SHA-256 is not that in SHA256SUMS): take it "
        f"from a copy, remove it and make it anew with `regard resume {run}`, or, if it was changed on purpose, say "
        f"`regard info {run} --accept-changes`"
    )
    load(run, device="cpu", accept_changes=True)
    (run / "model.safetensors").unlink()
    resume(run, device="cpu")
    assert (run / "model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()


def test_a_tokenizer_that_changed_is_refused_and_settings_are_told(run: Path) -> None:
    generation = run / "generation_config.json"
    generation.write_text(generation.read_text().replace('"num_beams": 1', '"num_beams": 3'))
    with pytest.warns(
        RegardWarning, match=r"generation_config\.json was changed after training wrote it"
    ) as told:
        assert load(run, device="cpu").decoding.beam == 3
    assert len(told) == 1
    flip(run / "tokenizer.json", 8 * 40)
    with pytest.raises(RegardError, match=r"tokenizer\.json is not the file that training wrote"):
        load(run, device="cpu")


def test_changes_made_on_purpose_are_accepted(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = RunFolder(run).load_weights()
    name = next(iter(tensors))
    RunFolder(run).weights.unlink()
    changed = RunFolder(run.with_name("other"))
    changed.path.mkdir()
    changed.save_weights({**tensors, name: torch.zeros_like(tensors[name])})
    shutil.copy(changed.weights, run)
    with pytest.raises(SystemExit) as left:
        main(["info", str(run), "--verify"])
    assert left.value.code == 2
    assert "run: model.safetensors is changed" in " ".join(capsys.readouterr().err.split())
    for said in ("accepted as they are now: model.safetensors\n", "nothing had changed\n"):
        with pytest.raises(SystemExit) as left:
            main(["info", str(run), "--accept-changes"])
        assert (left.value.code, capsys.readouterr().err) == (0, said)
    assert torch.equal(
        load(run, device="cpu", optimise=False).model.state_dict()[name], torch.zeros_like(tensors[name])
    )
    with pytest.raises(SystemExit) as left:
        main(["info", str(run), "--verify"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert shown.count("as written") == 5 + len(list((run / "checkpoints").iterdir()))


def test_runs_without_digests_are_read_without_complaint(run: Path) -> None:
    (run / SUMS).unlink()
    flip(run / "model.safetensors", -10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(run, device="cpu")


def test_a_digest_file_that_is_broken_says_so(run: Path) -> None:
    (run / SUMS).write_text("not a digest\n")
    with pytest.raises(RegardError, match=r"SHA256SUMS:1: not a SHA-256 and a name; .*--accept-changes"):
        load(run, device="cpu")
    assert RunFolder(run).accept() == []
    load(run, device="cpu")


def test_a_write_that_is_cut_short_anywhere_leaves_a_folder_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first, the second and the third rename: the file is the old one or the new one, and known."""

    class Killed(BaseException):
        pass

    replace = os.replace
    for renames in range(6):
        digests, path = Digests(tmp_path), tmp_path / "a"
        digests.write(path, b"old")
        left = [renames]

        def dying(a: Path, b: Path, left: list[int] = left) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            replace(a, b)

        monkeypatch.setattr(os, "replace", dying)
        try:
            digests.write(path, b"new")
            assert renames >= 3
        except Killed:
            assert renames < 3
        monkeypatch.undo()
        assert path.read_bytes() == (b"new" if renames >= 2 else b"old")
        assert digests.as_written(path)
        digests.write(path, b"new")
        assert digests.known() == {"a": [hashlib.sha256(b"new").hexdigest()]}


def test_a_file_that_need_not_change_writes_no_digest_either(made: Path) -> None:
    before = (made / SUMS).stat()
    run = RunFolder(made)
    run.save_recipe(run.load_recipe())
    assert (made / SUMS).stat() == before
