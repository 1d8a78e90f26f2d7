"""A memory is shared by the rows of a source, and copied only when the sources change."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.kv_cache import KeyValue
from regard.models.memory import Memory


def memory(sources: int = 3, group: int = 1) -> Memory:
    layers = tuple(KeyValue(torch.randn(sources, 2, 7, 5), torch.randn(sources, 2, 7, 3)) for _ in range(2))
    return Memory(layers, torch.randint(1, 8, (sources,)), group)


def per_row(memory: Memory) -> list[torch.Tensor]:
    """What each row sees, spelled out."""
    parts = [memory.lengths, *(part for layer in memory.layers for part in (layer.key, layer.value))]
    return [part.repeat_interleave(memory.group, 0) for part in parts]


def shares(a: Memory, b: Memory) -> bool:
    return all(
        x.key.data_ptr() == y.key.data_ptr() and x.value.data_ptr() == y.value.data_ptr()
        for x, y in zip(a.layers, b.layers, strict=True)
    )


@given(st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(0, 10**6), max_size=9))
def test_a_picked_memory_is_the_memory_of_the_picked_rows(sources: int, group: int, drawn: list[int]) -> None:
    before = memory(sources, group)
    rows = torch.tensor([row % (sources * group) for row in drawn], dtype=torch.long)
    after = before.pick(rows)
    assert after.rows == len(rows)
    for found, expected in zip(per_row(after), per_row(before), strict=True):
        assert torch.equal(found, expected[rows])


def test_beams_share_the_memory_of_their_source() -> None:
    whole = memory()
    beams = whole.pick(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert beams.group == 2
    assert shares(beams, whole)
    mixed = beams.pick(torch.tensor([1, 0, 2, 2, 5, 4]))
    assert shares(mixed, whole)
    assert shares(mixed.pick(torch.tensor([0, 2, 4])), whole)


def test_sources_that_are_finished_are_left_behind_once() -> None:
    beams = memory().pick(torch.tensor([0, 0, 1, 1, 2, 2]))
    fewer = beams.pick(torch.tensor([1, 0, 5, 5]))
    assert (fewer.group, fewer.lengths.shape[0]) == (2, 2)
    assert fewer.layers[0].key.shape[0] == 2
    assert shares(fewer.pick(torch.tensor([0, 1, 3, 2])), fewer)


def test_unequal_groups_get_a_memory_a_row() -> None:
    uneven = memory().pick(torch.tensor([0, 0, 1]))
    assert (uneven.group, uneven.layers[0].key.shape[0]) == (1, 3)
