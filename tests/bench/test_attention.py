"""Attention beside others: everyone who claims the same answer gives it."""

import pytest
import torch

from regard.bench import attention as suite
from regard.bench.peers import peer
from regard.bench.record import Setting


@pytest.mark.parametrize("name", list(suite.scores()))
def test_contenders_of_a_score_agree_with_the_truth(name):
    runs, inputs, truth = suite.contenders(suite.scores()[name].double(), 40, dtype=torch.float64)
    assert {"regard", "written out", "torch"} <= runs.keys()
    alike = [who for who in runs if who != "torch"] + (["torch"] if name == "scaled dot" else [])
    for who in alike:
        torch.testing.assert_close(runs[who]()[:1, ..., -16:, :], truth, rtol=0, atol=1e-10, msg=who)
    for backward in (False, True):
        suite.run_once(runs["regard"], inputs, backward)


def test_padded_contenders_agree_where_nothing_is_padded():
    runs, _, truth = suite.masked_contenders(40, dtype=torch.float64)
    for who, run in runs.items():
        torch.testing.assert_close(run()[:1, ..., -16:, :], truth, rtol=0, atol=1e-10, msg=who)


def test_an_answer_that_is_off_is_told():
    runs, _, truth = suite.contenders(suite.scores()["scaled dot"], 20)
    assert float(suite.off(runs["regard"], truth).split()[0]) < 1e-5
    assert suite.off(lambda: runs["regard"]() + 0.5, truth) == "5e-01 off"


def test_the_quick_suite_has_a_row_for_everyone(monkeypatch):
    monkeypatch.setattr(suite, "scores", lambda: {"scaled dot": suite.ScaledDot()})
    rows = list(suite.attention(Setting(rounds=1, quick=True)))
    tasks = dict.fromkeys(row.task for row in rows)
    assert list(tasks)[:2] == ["scaled dot, 128, forward", "scaled dot, 128, backward"]
    assert len(tasks) == 8
    there = {"regard", "torch", "torch, masked", "written out"}
    assert {row.contender for row in rows} == there | (
        {"x-transformers"} if peer("x_transformers") else set()
    )
    assert all(float(row.check.split()[0]) < 1e-5 for row in rows)
