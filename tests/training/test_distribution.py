"""Several processes train the model that one would."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from training.toys import Words, same

from regard.errors import RegardError
from regard.training.distribution import batch_order, share_of

TESTS = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    done = subprocess.run(
        [sys.executable, TESTS / "training" / "processes.py", folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return folder


def told(folder: Path, name: str, rank: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"{name}-{rank}.json").read_text())


@pytest.mark.parametrize(
    ("several", "size", "alone"),
    [
        ("pair", 2, "alone"),
        ("pair-in-parts", 2, "alone"),
        ("three", 3, "alone-last"),  # with weights that take no part
        ("pair-best", 2, "alone-best"),
        ("pair-single-rows", 2, "alone-single-rows"),
        ("resumed", 3, "alone"),
    ],
)
def test_several_processes_are_as_one(several: str, size: int, alone: str, trained: Path) -> None:
    expected = load_file(trained / f"{alone}-0.safetensors")
    found = [load_file(trained / f"{several}-{rank}.safetensors") for rank in range(size)]
    for name, weight in expected.items():
        torch.testing.assert_close(found[0][name], weight, rtol=0, atol=1e-12)
    assert all(same(each, found[0]) for each in found)
    one, many = told(trained, alone), told(trained, several)
    assert (one["step"], one["kind"]) == (many["step"], many["kind"])
    assert many["metrics"] == pytest.approx(one["metrics"], abs=1e-12)
    first = len(one["updates"]) - len(many["updates"])
    for ours, theirs in zip(many["updates"], one["updates"][first:], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_what_is_compared_has_learned_something(trained: Path) -> None:
    losses = [total / count for _, _, total, count, _, _ in told(trained, "alone")["updates"]]
    assert losses[-1] < 0.8 * losses[0]
    assert told(trained, "alone-best")["step"] < 12


def test_each_sample_is_seen_once_an_epoch(trained: Path) -> None:
    taken = [told(trained, "pair", rank)["taken"] for rank in range(2)]
    order = [samples for epoch in range(3) for samples in Words(23, size=5).order(epoch)][:12]
    # Each process also tries out its first batch, which is one it takes anyway: the feed is asked for it once.
    assert sorted(taken[0] + taken[1]) == sorted(sample for samples in order for sample in samples)
    assert len(taken[0]) > 20
    assert len(taken[1]) > 20


def test_one_process_that_is_asked_to_stop_stops_all_at_the_same_update(trained: Path) -> None:
    assert [told(trained, "stopped", rank)["stopped"] for rank in range(2)] == [True, True]
    assert [told(trained, "stopped", rank)["step"] for rank in range(2)] == [5, 5]
    assert [line[0] for line in told(trained, "resumed")["updates"]] == list(range(6, 13))


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_with_dropout_are_resumed_to_the_bit(size: int, trained: Path) -> None:
    assert told(trained, f"noisy-{size}-stopped")["step"] == 5
    for rank in range(size):
        whole, resumed = (
            load_file(trained / f"{name}-{rank}.safetensors")
            for name in (f"noisy-{size}", f"noisy-{size}-resumed")
        )
        assert same(whole, resumed)
        assert whole["batches"] == 2 * 12  # the parts of twelve updates: what was tried out is not counted
    whole, resumed = (told(trained, name)["updates"] for name in (f"noisy-{size}", f"noisy-{size}-resumed"))
    assert whole[5:] == resumed


def test_a_loss_that_is_not_finite_in_one_process_stops_all(trained: Path) -> None:
    errors = [(trained / f"poisoned-{rank}.error").read_text() for rank in range(2)]
    assert errors[0] == errors[1]
    assert "step 1 stops before its update: the loss is nan" in errors[0]


@given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 4))
def test_every_sample_goes_to_one_part_of_one_process(count: int, size: int, parts: int) -> None:
    samples = list(range(100, 100 + count))
    shares = [share_of(samples, rank=rank, size=size, parts=parts) for rank in range(size)]
    assert sorted(sample for share in shares for part in share for sample in part) == samples
    sizes = [len(part) for share in shares for part in share]
    assert all(sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_rows_are_dealt_like_cards() -> None:
    assert share_of([7, 8, 9, 10, 11], rank=1, size=2, parts=2) == [[9], [10]]


def test_turns_go_on_from_any_place() -> None:
    feed = Words(12, size=5)
    whole = list(islice(batch_order(feed, epoch=0, position=0), 10))
    assert [(place.epoch, place.position) for place in whole[:4]] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert whole[4].samples == feed.order(1)[1]
    for done in range(8):
        before = whole[done]
        later = batch_order(feed, epoch=before.epoch, position=before.position + 1)
        assert next(later) == whole[done + 1]


def test_an_epoch_of_nothing_is_an_error() -> None:
    with pytest.raises(RegardError, match="epoch 0 has no batches"):
        next(batch_order(Words(0), epoch=0, position=0))
