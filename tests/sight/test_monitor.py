"""The monitor writes what the weights say, when it should, and changes nothing."""

import json

import pytest
import torch
from runs.small import numbers, trained
from torch import nn

from regard import MultiHeadAttention, RegardError, causal, weigh
from regard.runs.folder import RunFolder
from regard.sight.monitor import AttentionLog, HeadRecord, Monitor
from regard.training.experiment import begin


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, mask=causal()), mask=causal()).square().sum()


def test_records_are_of_the_chosen_steps_and_true() -> None:
    model, x, records = Model(), torch.randn(3, 6, 8), list[HeadRecord]()
    monitor = Monitor(model, every=2, write=records.append)
    losses = []
    for step in range(4):
        with monitor.at(step):
            losses.append(model(x))
    assert torch.equal(torch.stack(losses), losses[0].expand(4))
    assert [(r.step, r.module, r.head) for r in records] == [
        (step, module, head) for step in (0, 2) for module in ("first", "second") for head in (0, 1)
    ]
    weights = weigh(model.first.call(x, mask=causal())).double()
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    assert records[1].entropy == pytest.approx(entropy[:, 1].mean().item(), abs=1e-5)
    share = weights[:, 1].sum(-2) / 6
    assert records[1].sink == pytest.approx(share.amax(-1).mean().item(), abs=1e-5)


def test_gradients_under_the_monitor_are_the_same() -> None:
    model, x = Model(), torch.randn(3, 6, 8)
    plain = torch.autograd.grad(model(x), list(model.parameters()))
    with Monitor(model, every=1, write=lambda record: None).at(0):
        loss = model(x)
    for mine, theirs in zip(torch.autograd.grad(loss, list(model.parameters())), plain, strict=True):
        assert torch.equal(mine, theirs)


def test_every_is_at_least_one() -> None:
    with pytest.raises(RegardError, match="every=0"):
        Monitor(Model(), every=0, write=lambda record: None)


def test_a_training_logs_its_heads_and_ends_with_the_same_weights(tmp_path) -> None:
    quiet = RunFolder(trained(numbers(), tmp_path / "quiet")).load_weights()
    begin(
        numbers(),
        tmp_path / "run",
        device="cpu",
        observers=lambda run: [AttentionLog(run.path / "a.jsonl", every=2)],
    )
    records = [json.loads(line) for line in (tmp_path / "run" / "a.jsonl").read_text().splitlines()]
    assert {record["step"] for record in records} == {2, 4}
    assert {record["module"] for record in records} >= {"encoder.0.attention", "decoder.0.cross"}
    watched = RunFolder(tmp_path / "run").load_weights()
    assert all(torch.equal(quiet[name], watched[name]) for name in quiet)


def test_a_log_that_goes_on_forgets_what_is_done_again(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"step": 2}\n{"step": 4}\n{"st')
    AttentionLog(path, every=2).started(Model(), step=3, steps=9)
    assert path.read_text() == '{"step": 2}\n'


def test_nothing_stays_watched_when_a_training_breaks_off(tmp_path) -> None:
    model = Model()
    log = AttentionLog(tmp_path / "a.jsonl", every=1)
    log.started(model, step=0, steps=9)
    log.stepping(1)
    log.close()
    model(torch.randn(3, 6, 8))
    assert not log.path.exists()
