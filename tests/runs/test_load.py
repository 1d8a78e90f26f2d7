"""A run that is not finished answers with its best checkpoint, and every verb takes a checkpoint."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs.small import TRAINING, numbers, trained
from safetensors.torch import load_file, save_file

import regard.runs.load as loading
from regard import RegardError, RegardWarning
from regard.cli import main
from regard.models.classifier import ClassifierConfig
from regard.models.counter import CounterConfig
from regard.models.kinds import KINDS
from regard.models.language import LanguageConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.transformer import TransformerConfig
from regard.runs.checkpoints import Described, Header, load_tensors, read_header
from regard.runs.evaluation import evaluate_run
from regard.runs.load import build_model, check_fit, check_size, chosen, load, run_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its best weights are not its last: the rate is far too large."""
    recipe = numbers(
        training={**TRAINING, "steps": 6, "learning_rate": 0.3, "warmup": 0, "schedule": "constant"}
    )
    return trained(recipe, tmp_path_factory.mktemp("runs") / "made")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """The run as it was before its end."""
    copy = Path(shutil.copytree(made, tmp_path / "run"))
    (copy / "model.safetensors").unlink()
    return copy


def test_an_unfinished_run_answers_with_its_best_checkpoint(run: Path) -> None:
    (file,) = (run / "checkpoints").glob("best-*")
    step = int(file.name.split("-")[1])
    with pytest.warns(RegardWarning) as told:
        found = load(run, device="cpu", optimise=False).model.state_dict()
    assert [str(each.message) for each in told] == [
        f"{run} is not finished: taking its best checkpoint, of step {step}; finish it with `regard resume {run}`"
    ]
    kept = load_file(file)
    assert all(torch.equal(found[name], kept[name]) for name in kept)


def test_where_nothing_was_evaluated_the_newest_whole_one_is_taken(run: Path) -> None:
    for file in (run / "checkpoints").glob("best-*"):
        file.unlink()
    with pytest.warns(RegardWarning, match="taking its newest checkpoint, of step 6;"):
        assert chosen(run).path.name.startswith("step-00000006")
    newest = next((run / "checkpoints").glob("step-00000006-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    said = rf"taking its newest checkpoint that is whole \({newest.name} is not\), of step 4;"
    with pytest.warns(RegardWarning, match=said):
        assert chosen(run).path.name.startswith("step-00000004")
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RegardError, match="has no model yet: finish it with `regard resume"):
        load(run, device="cpu")


def test_verbs_say_once_that_a_run_is_not_finished(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["translate", str(run), "two", "--precision", "float32"], ["evaluate", str(run)]):
        with pytest.raises(SystemExit) as left:
            main([*verb, "--device", "cpu"])
        said = capsys.readouterr()
        assert left.value.code == 0
        line = r"regard: \S+ is not finished: taking its best checkpoint, of step \d; .*\n"
        assert re.match(line, said.err)
        assert said.err.count("is not finished") == 1
        assert said.out


def test_a_checkpoint_is_evaluated_as_it_was_then(made: Path) -> None:
    early = evaluate_run(made / "checkpoints" / "step-4", device="cpu")
    assert [metric.name for metric in early] == ["bleu", "chrf", "exact"]
    assert run_of(made / "checkpoints" / "step-4").path == made
    with pytest.raises(RegardError, match="step-5: there is no such checkpoint; there are step-4, step-6"):
        evaluate_run(made / "checkpoints" / "step-5")


def test_info_tells_of_a_checkpoint(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = sum(tensor.numel() for tensor in load_file(made / "model.safetensors").values())
    best = next((made / "checkpoints").glob("best-*"))
    for path, said in (
        (made / "checkpoints" / "step-4", "step 4 of 6"),
        (best, f"step {int(best.name.split('-')[1])} of 6, the best until then"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["info", str(path)])
        shown = " ".join(capsys.readouterr().out.split())
        assert left.value.code == 0
        assert f"{said} validation loss" in shown
        assert f"parameters {count:,}" in shown
        assert "test bleu" not in shown


WORDS = {"source_vocabulary": 11, "target_vocabulary": 11, "vocabulary": 11}
SMALL = LanguageConfig(width=8, heads=2, depth=2, hidden_width=12, vocabulary=11)
CONFIGS = [
    TransformerConfig(width=8, heads=2, depth=1, decoder_depth=2, hidden_width=12, positions="learned"),
    TransformerConfig(width=8, heads=2, depth=1, decoder_depth=1, hidden_width=12, positions="relative"),
    RecurrentConfig(width=8, embedding_width=6, attention="additive"),
    RecurrentConfig(width=8, embedding_width=6, attention="low-rank", depth=2, cell="gru"),
    ClassifierConfig(width=8, heads=2, depth=1, hidden_width=12, positions="alibi"),
    replace(SMALL, feedforward="swiglu", positions="rotary"),
    CounterConfig(),
    *(kind.presets[min(kind.presets, key=len)]() for kind in KINDS if kind.presets),
]


def header_of(model: torch.nn.Module) -> Header:
    return Header(
        tensors={name: Described(each.dtype, tuple(each.shape)) for name, each in model.state_dict().items()}
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.KIND)
def test_the_outline_of_every_kind_is_that_of_the_model(config) -> None:
    config = replace(config, **{name: size for name, size in WORDS.items() if hasattr(config, name)})
    check_fit(config, header_of(build_model(config)), weights="weights", described="config")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"depth": 10**9}, "depth=1000000000, more than"),
        ({"depth": 3}, "without blocks.2"),
        ({"depth": 1}, "with blocks.1"),
        ({"width": 2**20, "hidden_width": 2**20}, r"is \[.*8\] in the one and \[.*1048576\] by the other"),
        ({"width": 2**40}, "width=1099511627776, more than"),
        ({"vocabulary": 10**7}, r"is \[11, 8\] in the one and \[10000000, 8\] by the other"),
        ({"heads": 3}, "width"),
        ({"positions": "learned"}, "without .*table"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_built(changes, what, monkeypatch) -> None:
    header = header_of(build_model(SMALL))
    made = []
    monkeypatch.setattr(loading, "build_model", lambda *given: made.append(build_model(*given)) or made[-1])
    with pytest.raises(RegardError, match=f"weights does not fit config|config: .*{what}") as refused:
        check_fit(replace(SMALL, **changes), header, weights="weights", described="config")
    assert "\n" not in str(refused.value)
    assert all(each.is_meta for model in made for each in model.parameters()), "nothing has contents"


def test_an_outline_imports_no_compiler_and_counts_nothing(monkeypatch) -> None:
    before = torch.random.get_rng_state()
    check_fit(SMALL, header_of(build_model(SMALL)), weights="weights", described="config")
    torch.random.set_rng_state(before)
    build_model(SMALL)
    once = torch.random.get_rng_state()
    check_size(SMALL)
    assert torch.equal(torch.random.get_rng_state(), once), "no random numbers are drawn for it"


def test_numbers_of_another_kind_are_refused() -> None:
    header = header_of(build_model(SMALL))
    name = next(iter(header.tensors))
    odd = {**header.tensors, name: Described(torch.int64, header.tensors[name].shape)}
    with pytest.raises(RegardError, match=r"is torch\.int64, and torch\.float32 is wanted"):
        check_fit(SMALL, Header(tensors=odd), weights="weights", described="config")
    half = {name: Described(torch.bfloat16, each.shape) for name, each in header.tensors.items()}
    check_fit(SMALL, Header(tensors=half), weights="weights", described="config")


def test_a_model_to_be_trained_fits_this_machine(monkeypatch) -> None:
    check_size(SMALL)
    monkeypatch.setattr(loading, "_memory", lambda: 1000)
    with pytest.raises(RegardError, match=r"model: 0\.0 GiB of weights, and this machine has"):
        check_size(SMALL)
    with pytest.raises(RegardError, match="depth=1001, more than 1,000"):
        check_size(replace(SMALL, depth=1001))


def test_tensors_come_back_by_the_rest_of_their_names(tmp_path: Path) -> None:
    tensors = {"a/x": torch.randn(3, 5), "a/y": torch.ones(2, dtype=torch.bool), "b/x": torch.zeros(0, 7)}
    save_file(tensors, tmp_path / "t", metadata={"about": "me"})
    header = read_header(tmp_path / "t")
    assert header.about == {"about": "me"}
    assert header.tensors["b/x"] == Described(torch.float32, (0, 7))
    assert header.within("a/").tensors.keys() == {"x", "y"}
    back = load_tensors(tmp_path / "t", prefix="a/")
    assert back.keys() == {"x", "y"}
    assert torch.equal(back["x"], tensors["a/x"])


def test_a_loaded_model_is_optimised_unless_asked_not_to(made: Path) -> None:
    quick, plain = load(made, device="cpu", precision="int8"), load(made, device="cpu", optimise=False)
    assert "optimised for inference: int8" in repr(quick)
    assert not any(weight.requires_grad for weight in quick.model.parameters())
    assert "as it was trained, for gradients too" in repr(plain)
    assert all(weight.requires_grad for weight in plain.model.parameters())
    with pytest.raises(RegardError, match=r"optimise=False with precision='bf16': .* give one of the two"):
        load(made, device="cpu", optimise=False, precision="bf16")
