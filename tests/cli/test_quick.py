"""Precision, threads and export, as a person would say them."""

import pytest
import torch
from runs.small import language, numbers, trained, write_text
from safetensors.torch import load_file, save_file

from regard.cli import main
from regard.errors import RegardError
from regard.layers.inference_only import Int8Linear
from regard.runs.load import load


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    trained(numbers(), folder / "numbers")
    trained(language(write_text(folder)), folder / "letters")
    return folder


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    heard = capsys.readouterr()
    return ended.value.code, heard.out, heard.err


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_every_precision_answers(capsys, runs, precision):
    threads = torch.get_num_threads()
    for verb, run, text in (("translate", "numbers", "seven"), ("generate", "letters", "a")):
        code, out, error = said(
            capsys, verb, runs / run, text, "--precision", precision, "--threads", threads
        )
        if precision == "bf16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            assert (code, out) == (2, "")
            assert error.startswith("regard: precision='bf16' needs a CPU that multiplies 16-bit numbers")
        else:
            assert code == 0, error
            assert out.strip()


def test_a_packed_run_answers_as_the_plain_one(runs):
    texts = ["seven", "two hundred and one", "nineteen", "eighty"]
    plain = load(runs / "numbers", device="cpu", optimise=False)
    fast = load(runs / "numbers", device="cpu")
    assert fast.translate(texts) == plain.translate(texts)
    assert "optimised for inference: float32" in repr(fast)
    assert "as it was trained" in repr(plain)
    assert all(weight.requires_grad for weight in plain.model.parameters())
    with pytest.raises(RegardError, match=r"optimise=False with precision='int8'"):
        load(runs / "numbers", device="cpu", optimise=False, precision="int8")
    quick = load(runs / "numbers", precision="int8")
    assert any(isinstance(part, Int8Linear) for part in quick.model.modules())
    together = quick.translate(texts)
    assert [quick.translate([text])[0] for text in texts] == together


def test_an_unknown_precision_is_refused_in_one_line(capsys, runs):
    code, _, error = said(capsys, "translate", runs / "numbers", "seven", "--precision", "int4")
    assert code == 2
    assert error.strip() == "regard: precision='int4' on the CPU: give 'float32', 'bf16', 'int8'"


def test_threads_are_set(capsys, runs):
    before = torch.get_num_threads()
    try:
        said(capsys, "translate", runs / "numbers", "seven", "--threads", "1")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_info_says_what_is_picked(capsys, runs):
    _, out, _ = said(capsys, "info", runs / "numbers")
    assert "float32" in out
    assert "int8" in out


def test_export_says_what_cannot_go(capsys, runs, tmp_path):
    code, _, error = said(capsys, "export", runs / "letters", "--to", "marian", "--out", tmp_path / "a")
    assert code == 2
    assert "language model: only Transformers" in error
    code, _, error = said(capsys, "export", runs / "numbers", "--to", "marian", "--out", tmp_path / "b")
    assert code == 2
    assert "norm='before'" in error
    assert not (tmp_path / "b").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, _, error = said(capsys, "export", runs / "numbers", "--to", "marian", "--out", tmp_path / "full")
    assert code == 2
    assert "not empty" in error


def test_an_exported_run_translates_elsewhere(capsys, runs, tmp_path):
    library = pytest.importorskip("ctranslate2")
    code, _, error = said(
        capsys, "export", runs / "numbers", "--to", "ctranslate2", "--out", tmp_path / "out"
    )
    assert code == 0, error
    translator = load(runs / "numbers", device="cpu")
    tokens = translator.source.encode("two hundred and one")
    words = [translator.source.name(token) for token in [*tokens, 2]]
    found = library.Translator(str(tmp_path / "out"), device="cpu").translate_batch([words], beam_size=1)
    names = [translator.target.name(token) for token in range(translator.target.size)]
    ours = translator.hypotheses(["two hundred and one"], beam=1)[0][0]
    theirs = [names.index(word) for word in found[0].hypotheses[0]]
    assert theirs[: len(ours.tokens)] == ours.tokens[: len(theirs)]


def test_the_option_of_old_is_answered_in_one_line(capsys, runs):
    _, plain, _ = said(capsys, "translate", runs / "numbers", "seven", "--precision", "int8")
    found = said(capsys, "translate", runs / "numbers", "seven", "--precision", "int8", "--compile")
    assert found == (0, plain, "--compile: it is the default now\n")


def test_half_precision_is_refused_on_the_cpu(capsys, runs):
    code, _, error = said(
        capsys, "translate", runs / "numbers", "seven", "--precision", "fp16", "--device", "cpu"
    )
    assert code != 0
    assert error.strip() == "regard: precision='fp16' on the CPU: give 'float32', 'bf16', 'int8'"


@pytest.mark.parametrize(
    ("run", "verb", "text"), [("numbers", "translate", "seven"), ("letters", "generate", "a")]
)
def test_a_run_is_exported_in_int8_and_used_as_any_other(capsys, runs, tmp_path, run, verb, text):
    code, _, error = said(capsys, "export", runs / run, "--to", "int8", "--out", tmp_path / "small")
    assert code == 0, error
    whole, small = (
        (folder / "model.safetensors").stat().st_size for folder in (runs / run, tmp_path / "small")
    )
    assert small < 0.6 * whole  # norms, biases and scales of models this small take more than their share
    code, out, error = said(capsys, verb, tmp_path / "small", text)
    assert (code, error) == (0, "")
    assert out.strip()
    # In int8 both hold the same integers, so they answer the same.
    answers = [load(folder, precision="int8") for folder in (runs / run, tmp_path / "small")]
    bytes_ = [
        [part.whole for part in each.model.modules() if isinstance(part, Int8Linear)] for each in answers
    ]
    assert bytes_[0]
    assert all(torch.equal(a, b) for a, b in zip(*bytes_, strict=True))
    code, _, error = said(capsys, "info", tmp_path / "small")
    assert code == 0, error


def test_an_int8_run_with_a_wrong_scale_is_refused_in_one_line(capsys, runs, tmp_path):
    said(capsys, "export", runs / "numbers", "--to", "int8", "--out", tmp_path / "small")
    weights = tmp_path / "small" / "model.safetensors"
    tensors = load_file(weights)
    name = next(name for name in tensors if name.endswith(".int8_scale"))
    save_file({**tensors, name: tensors[name][1:].clone()}, weights)
    code, out, error = said(capsys, "translate", tmp_path / "small", "seven")
    assert (code, out) == (2, "")
    assert name in error
    assert error.count("\n") == 1
