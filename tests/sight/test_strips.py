"""Strips stay small: what evidence allocates is counted."""

import pytest
import torch
from sight.exact import CAPACITIES, cases, close, visible, written
from torch.profiler import ProfilerActivity, profile

from regard import Additive, Call, causal, documents, prefix, weigh, window
from regard.sight import evidence
from regard.sight.selection import select
from regard.sight.strips import heads_together, strips

LENGTH, WIDTH, HEADS, CAPACITY = 700, 8, 4, 1 << 12


def peak_bytes(run) -> int:  # type: ignore[no-untyped-def]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    held = peak = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("mask", [None, causal(), window(9)], ids=repr)
@pytest.mark.parametrize("additive", [False, True])
def test_peak_memory_is_linear_in_the_length(mask, additive: bool) -> None:  # type: ignore[no-untyped-def]
    score = {"score": Additive(WIDTH, WIDTH, hidden=4)} if additive else {}
    call = Call(torch.randn(1, HEADS, LENGTH, WIDTH), torch.randn(1, HEADS, LENGTH, WIDTH), mask, **score)
    questions = {
        "summarise": lambda: evidence.summarise(call, capacity=CAPACITY),
        "top": lambda: evidence.answer_to(call, evidence.Ranking(call, 4), CAPACITY),
        "map": lambda: evidence.answer_to(call, evidence.Pooling(call, 16, 16), CAPACITY),
        "rectangle": lambda: evidence.rectangle(call, torch.arange(10), torch.arange(10), capacity=CAPACITY),
    }
    whole = HEADS * LENGTH * LENGTH * 4
    inputs = 2 * HEADS * LENGTH * WIDTH * 4
    for name, run in questions.items():
        assert peak_bytes(run) < 6 * inputs + 40 * CAPACITY < whole / 2, name


def test_a_band_leaves_out_the_keys_it_hides() -> None:
    call = Call(torch.randn(64, 4), torch.randn(64, 4), causal() & window(5))
    widths = [strip.columns.stop - strip.columns.start for strip in strips(call, capacity=8 * 64)]
    assert max(widths) == 8 + 4
    assert sum(widths) < 64 * 2


def test_strips_cover_every_row_once() -> None:
    call = Call(torch.randn(3, 2, 13, 4), torch.randn(3, 2, 7, 4))
    for capacity in (1, 7, 50, 200, 10_000):
        seen = torch.zeros(6, 13)
        for strip in strips(call, capacity=capacity):
            seen[strip.entries, strip.rows] += 1
        assert (seen == 1).all()


@pytest.mark.slow
def test_no_mask_is_ever_written_out_whole() -> None:
    ids = torch.arange(LENGTH) // 50
    masks = [documents(ids), causal() | prefix(3), ~window(9), causal() & documents(ids)]
    query = torch.randn(1, HEADS, LENGTH, WIDTH)
    for mask in masks:
        call = Call(query, query, mask)
        assert peak_bytes(lambda call=call: evidence.summarise(call, capacity=CAPACITY)) < LENGTH * LENGTH
        chosen = select(call, heads=[2, 0])
        assert (
            peak_bytes(lambda chosen=chosen: evidence.summarise(chosen, capacity=CAPACITY)) < LENGTH * LENGTH
        )


@pytest.mark.parametrize("capacity", [1, 40, 12 * 12 * 3, 1 << 20])
def test_bands_of_one_height_are_pooled_like_any_other(capacity: int) -> None:
    call = Call(torch.randn(2, 3, 12, 4).double(), torch.randn(2, 3, 12, 4).double(), causal())
    weights = weigh(call)
    expected = weights.unflatten(-1, (3, 4)).sum(-1).unflatten(-2, (4, 3)).mean(-2)
    torch.testing.assert_close(
        evidence.answer_to(call, evidence.Pooling(call, 4, 3), capacity), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_leaves_none_in_its_row_and_all_in_the_others(value: float) -> None:
    """As torch's softmax; a pair that may not look stays at 0, and no cell of a map beyond the row is touched."""
    call = Call(torch.randn(1, 2, 23, 5), torch.randn(1, 2, 23, 5), causal())
    call.key[0, 1, 17, 2] = value
    exact = torch.softmax(
        (call.query @ call.key.mT / 5**0.5).masked_fill(~causal().dense(23, 23), -torch.inf), -1
    )
    exact = exact.masked_fill(~causal().dense(23, 23), 0.0)
    every = torch.arange(23)
    for capacity in (None, 60):
        found = evidence.rectangle(call, every, every, capacity=capacity)
        torch.testing.assert_close(found, exact, equal_nan=True, rtol=0, atol=1e-6)
        summary = evidence.summarise(call, capacity=capacity)
        rows = exact.isnan().any(-1)
        for each in (summary.entropy, summary.peak):
            assert torch.equal(each.isnan(), rows)
        assert torch.equal(summary.received.isnan(), exact.isnan().any(-2))
        assert torch.equal(
            evidence.answer_to(call, evidence.Pooling(call, 7, 5), capacity).isnan(),
            in_cells(exact.isnan(), 7, 5),
        )


def in_cells(flags: torch.Tensor, height: int, width: int) -> torch.Tensor:
    rows, columns = (torch.arange(23) * count // 23 for count in (height, width))
    found = torch.zeros(1, 2, height, width, dtype=torch.bool)
    for _, head, row, column in flags.nonzero().tolist():
        found[0, head, rows[row], columns[column]] = True
    return found


@pytest.mark.parametrize("capacity", [*CAPACITIES, 1, 1500])  # with 1500, strips straddle the batch entries
@cases()
def test_all_heads_of_an_entry_come_together_and_cover_the_weights(case, capacity):
    call, _ = case.build()
    found, looking = torch.zeros(3, 4, 11, 11), torch.zeros(3, 4, 11, dtype=torch.bool)
    for part in heads_together(call, capacity=capacity):
        found[part.entry, :, part.rows, part.columns] += part.weights
        looking[part.entry, :, part.rows] |= part.looking
    close(found, written(call))
    assert torch.equal(looking, visible(call).any(-1))


def test_a_call_without_batch_axes_has_one_head():
    call = Call(torch.randn(3, 2), torch.randn(5, 2))
    (part,) = heads_together(call)
    close(part.weights, written(call)[None])
