"""A run folder holds what people expect to find, and is not overwritten by accident."""

import json

import pytest
import torch
from runs.small import numbers
from tokenizers import Tokenizer as Plain

from regard import RegardError
from regard.data.tokenizer import Tokenizer
from regard.runs.folder import RunFolder
from regard.runs.settings import Decoding


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
