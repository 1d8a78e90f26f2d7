"""Random numbers, learning rate and precision of an update."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from training.toys import Notebook, Toy, Words, copied, plan, same, toy

from regard.data.batches import Sequences
from regard.errors import RegardError
from regard.models.protocols import Loss
from regard.runs.settings import Training
from regard.training.distribution import deterministic
from regard.training.loop import train
from regard.training.update import chosen_precision, constant, cosine, inverse_square_root, rate_at, seed_of


def test_every_update_of_every_process_has_a_seed_of_its_own() -> None:
    seeds = {
        seed_of(seed, step, rank) % 2**32 for seed in range(5) for step in range(50) for rank in range(4)
    }
    assert len(seeds) == 1000
    assert seed_of(1, 2, 3) == seed_of(1, 2, 3)


def test_dropout_depends_on_the_seed_and_on_nothing_that_was_drawn_before(tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate([1, 1, 2]):
        model = toy(dropout=0.5)
        torch.rand(number)
        train(model, Words(), plan(steps=3), folder=tmp_path / str(number), seed=seed)
        found.append(copied(model))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_dropout_differs_between_updates(tmp_path: Path) -> None:
    drawn = []

    class Drawing(Toy):
        def loss(self, batch: Sequences) -> Loss:
            drawn.append(float(torch.rand(())))
            return super().loss(batch)

    train(Drawing(), Words(), plan(steps=6), folder=tmp_path, seed=1)
    assert len(set(drawn)) == 6


def test_an_update_that_counts_nothing_changes_nothing(tmp_path: Path) -> None:
    class Mute(Toy):
        def loss(self, batch: Sequences) -> Loss:
            loss = super().loss(batch)
            return Loss(loss.total * 0, loss.count * 0, {})

    model, notes = Mute(), Notebook()
    before = copied(model)
    train(model, Words(), plan(steps=2), folder=tmp_path, seed=1, observers=[notes])
    assert same(copied(model), before)
    assert [update.count for update in notes.updates] == [0, 0]


def test_the_inverse_square_root_is_the_papers_up_to_its_scale() -> None:
    """lrate = d^-0.5 · min(t^-0.5, t · w^-1.5) (Vaswani 2017, eq. 3)."""
    paper = [min(t**-0.5, t * 400**-1.5) for t in range(1, 5000)]
    ours = [inverse_square_root(t, rate=2e-3, warmup=400) for t in range(1, 5000)]
    assert ours == pytest.approx([each * 2e-3 / paper[399] for each in paper], rel=1e-12)
    assert max(ours) == ours[399] == 2e-3
    assert ours[1599] == pytest.approx(1e-3)


def test_the_cosine_falls_to_almost_nothing_at_the_last_update() -> None:
    rates = [cosine(t, rate=1.0, warmup=10, steps=109) for t in range(1, 110)]
    assert rates[:10] == pytest.approx([t / 10 for t in range(1, 11)])
    assert rates[9] == 1.0
    assert rates[59] == pytest.approx(0.5)  # halfway from 10 to 110
    assert rates[34] == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert 0 < rates[-1] < 1e-3
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_constant_is_level_after_warming_up() -> None:
    assert [constant(t, rate=3.0, warmup=3) for t in (1, 2, 3, 4, 900)] == [1.0, 2.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_without_warming_up_the_first_update_has_the_whole_rate(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=0, learning_rate=0.5, steps=100)  # type: ignore[arg-type]
    assert rate_at(1, settings) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_a_run_shorter_than_its_warming_up_only_rises(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=50, learning_rate=1.0, steps=10)  # type: ignore[arg-type]
    assert [rate_at(t, settings) for t in range(1, 11)] == pytest.approx([t / 50 for t in range(1, 11)])


def test_a_training_gets_the_schedule_it_names() -> None:
    rates = {
        name: rate_at(400, Training(schedule=name, warmup=100, learning_rate=1.0, steps=999))  # type: ignore[arg-type]
        for name in ("inverse-square-root", "cosine", "constant")
    }
    assert rates["inverse-square-root"] == 0.5
    assert rates["constant"] == 1.0
    assert rates["cosine"] == pytest.approx((1 + math.cos(math.pi * 300 / 900)) / 2)


@pytest.mark.parametrize(
    ("precision", "expected"), [("auto", "float32"), ("float32", "float32"), ("bfloat16", "bf16")]
)
def test_a_small_model_on_a_cpu_computes_in_bfloat16_only_when_asked(precision: str, expected: str) -> None:
    small = nn.Linear(8, 2000)
    assert chosen_precision(plan(precision=precision), torch.device("cpu"), small) == expected


@pytest.mark.parametrize("able", [True, False])
def test_a_wide_model_on_a_cpu_computes_in_bfloat16_where_the_cpu_can(
    able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    wide = nn.Sequential(nn.Linear(512, 2000), nn.Linear(2000, 512))
    chosen = chosen_precision(plan(precision="auto"), torch.device("cpu"), wide)
    assert chosen == ("bf16" if able else "float32")


class Recurrent(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.LSTM(6, 6, batch_first=True)

    def loss(self, batch: Sequences) -> Loss:
        loss = super().loss(batch)
        return Loss(
            loss.total + self.reader(self.table(batch.tokens))[0].square().sum(), loss.count, loss.metrics
        )


def test_an_lstm_is_not_trained_in_bfloat16_where_the_cpu_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False, raising=False)
    model, notes = Recurrent(), Notebook()
    before = copied(model)
    with pytest.raises(
        RegardError,
        match=r"^training\.precision=bfloat16 for an LSTM \(reader\) needs a CPU .*=float32$",
    ) as refused:
        train(model, Words(), plan(precision="bfloat16"), folder=tmp_path / "a", seed=1, observers=[notes])
    assert "\n" not in str(refused.value)
    assert not notes.updates
    assert same(copied(model), before)
    for precision in ("float32", "auto"):
        train(model, Words(), plan(precision=precision, steps=1), folder=tmp_path / precision, seed=1)
    train(toy(), Words(), plan(precision="bfloat16", steps=1), folder=tmp_path / "b", seed=1)  # no recurrence


@pytest.fixture
def as_before() -> Iterator[None]:
    known = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    flags = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = flags
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    if known is not None:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = known


@pytest.mark.usefixtures("as_before")
def test_what_torch_cannot_do_the_same_way_twice_is_refused() -> None:
    deterministic()
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in {":4096:8", ":16:8"}


@pytest.mark.usefixtures("as_before")
def test_a_workspace_set_by_the_user_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    deterministic()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
