"""Packed sequences: where everything lies, against counting by hand."""

import pytest
import torch

from regard.attention.packing import Packing, Packs
from regard.errors import RegardError

LENGTHS = torch.tensor([3, 1, 0, 5])


def test_every_position_knows_its_sequence_and_its_place() -> None:
    packing = Packing.of(LENGTHS)
    assert packing.starts.tolist() == [0, 3, 4, 4]
    assert packing.owners.tolist() == [0, 0, 0, 1, 3, 3, 3, 3, 3]
    assert packing.places.tolist() == [0, 1, 2, 0, 0, 1, 2, 3, 4]
    assert (packing.longest, packing.shortest, packing.filled) == (5, 0, False)


def test_filling_belongs_to_nobody() -> None:
    packing = Packing.of(LENGTHS, size=11)
    assert packing.owners.tolist()[-3:] == [3, 4, 4]
    assert packing.places.tolist()[-2:] == [0, 0]
    assert packing.real.tolist() == [True] * 9 + [False] * 2


@pytest.mark.parametrize("size", [9, 12])
def test_rows_hold_each_sequence_and_zeros_and_the_way_back_is_exact(size: int) -> None:
    packing = Packing.of(LENGTHS, size=size)
    x = torch.randn(size, 2, dtype=torch.float64)
    rows = packing.in_rows(x)
    assert rows.shape == (4, 5, 2)
    assert torch.equal(rows[3], x[4:9])
    assert torch.equal(rows[0, :3], x[:3])
    assert not rows[0, 3:].any()
    assert not rows[2].any()
    back = packing.row_groups.gathered([rows])
    assert torch.equal(back[:9], x[:9])
    assert not back[9:].any()


@pytest.mark.parametrize("size", [9, 12])
def test_the_way_there_and_back_has_the_gradient_of_copying(size: int) -> None:
    packing = Packing.of(LENGTHS, size=size)
    x = torch.randn(size, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(packing.in_rows, x)
    rows = torch.randn(4, 5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: packing.row_groups.gathered([x]), rows)


def test_groups_take_every_sequence_once_and_shorter_ones_have_shorter_rows() -> None:
    lengths = torch.randint(1, 40, (64,))
    packing = Packing.of(lengths)
    packs = Packs(packing, packing)
    assert sorted(row for group in packs.groups for row in group) == list(range(64))
    widths = [width for _, width in packs.row_groups[0].shapes]
    assert widths == sorted(widths)
    assert widths[-1] == packing.longest
    assert widths[0] < widths[-1]
    x = torch.randn(packing.size, 3)
    groups = packs.row_groups[0]
    assert torch.equal(groups.gathered(groups.spread(x)), x)


def test_stretches_are_the_keys_of_each_query() -> None:
    packs = Packs(Packing.of(torch.tensor([2, 0, 1]), size=4), Packing.of(torch.tensor([1, 3, 2])))
    assert packs.first.tolist() == [0, 0, 4, 0]
    assert packs.last.tolist() == [1, 1, 6, 0]
    assert packs.turned.first.tolist() == [0, 2, 2, 2, 2, 2]
    assert packs.turned.last.tolist() == [2, 2, 2, 2, 3, 3]
    assert packs.seen is not None
    assert packs.seen.tolist() == [True, False, False, False, True, True]


def test_looking_back_ends_at_oneself() -> None:
    packing = Packing.of(torch.tensor([3, 2]), size=6)
    packs = Packs(packing, packing)
    assert packs.until.tolist() == [1, 2, 3, 4, 5, 0]
    assert packs.since.tolist() == [0, 1, 2, 3, 4, 5]


def test_what_cannot_be_packed_is_refused(as_a_user: None) -> None:
    with pytest.raises(RegardError, match=r"float32\[2\]"):
        Packing.of(torch.ones(2))
    with pytest.raises(RegardError, match="9 positions, the shortest of 0, in a row of 8"):
        Packing.of(LENGTHS, size=8)
    with pytest.raises(RegardError, match="4 packed sequences ask 2"):
        Packs(Packing.of(LENGTHS), Packing.of(torch.tensor([1, 1])))


def test_what_is_readied_is_what_is_found_when_asked() -> None:
    packing = Packing.of(LENGTHS, size=11)
    readied, plain = Packs(packing, packing).readied(), Packs(packing, packing)
    for name in ("first", "last", "until", "since", "looking", "seen"):
        assert name in vars(readied)
        assert torch.equal(getattr(readied, name), getattr(plain, name))
