"""What a decoder keeps: grown step by step it is what joining all at once gives."""

import pytest
import torch

from regard.attention.keyvalue import KeyValue


def some(positions: int, rows: int = 3) -> KeyValue:
    return KeyValue(torch.randn(rows, 2, positions, 5), torch.randn(rows, 2, positions, 7))


def joined(*parts: KeyValue) -> KeyValue:
    return KeyValue(torch.cat([p.key for p in parts], -2), torch.cat([p.value for p in parts], -2))


def equal(one: KeyValue, other: KeyValue) -> bool:
    return torch.equal(one.key, other.key) and torch.equal(one.value, other.value)


@pytest.mark.parametrize("sizes", [[1] * 40, [3, 1, 1, 20, 1], [17, 1]], ids=str)
def test_growing_is_joining(sizes: list[int]) -> None:
    parts = [some(size) for size in sizes]
    kept = parts[0]
    for number, part in enumerate(parts[1:], start=2):
        kept = kept.extended(part)
        assert equal(kept, joined(*parts[:number]))
        assert kept.length == sum(sizes[:number])


def test_what_was_handed_out_stays_what_it_was() -> None:
    first, second, third = some(4), some(1), some(1)
    before = first.extended(second)
    copies, versions = KeyValue(before.key.clone(), before.value.clone()), before.key._version
    before.extended(third)
    assert equal(before, copies)
    assert before.key._version == versions  # or whoever watches would take it for overwritten


def test_two_may_go_on_from_one_past() -> None:
    past = some(4).extended(some(1))
    one, other = some(1), some(1)
    left, right = past.extended(one), past.extended(other)
    assert equal(left, joined(past, one))
    assert equal(right, joined(past, other))


def test_rows_are_picked_and_go_on_apart() -> None:
    rows, newer = torch.tensor([2, 0, 0, 1]), some(1, rows=4)
    for past in (some(5), some(15).extended(some(1)), some(16).extended(some(1))):
        picked = past.pick(rows)
        assert equal(picked, KeyValue(past.key[rows], past.value[rows]))
        assert equal(picked.extended(newer), joined(picked, newer))
        assert equal(past.pick(rows), picked)


def test_gradients_pass_through_what_is_kept() -> None:
    first, second = some(2), some(1)
    first.key.requires_grad_()
    first.extended(second).key.sum().backward()
    assert torch.equal(first.key.grad, torch.ones_like(first.key))
