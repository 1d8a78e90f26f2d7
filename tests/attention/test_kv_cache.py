"""What a decoder keeps: grown step by step it is what joining all at once gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models.samples import sequences, shaken
from torch import Tensor

from regard.attention.kv_cache import BeamCache, GrowingSlots, KeyValue, Memory
from regard.data.batches import START
from regard.models.transformer import EncoderDecoderState, Transformer, TransformerConfig
from regard.sight.watch import watch


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


WORDS = 17
# Picks after each step, from three sources: one row each at first, then groups that change, shrink and part.
PICKS = [
    [0, 0, 1, 1, 2, 2],
    [1, 0, 2, 2, 5, 4],
    [1, 1, 3, 2, 4, 4],
    [0, 1, 4, 5],
    [1, 0, 3, 3],
    [0, 0, 1, 2],
    [2, 0, 1],
    [0, 0, 1, 1, 2, 2],
]


def model(positions: str) -> Transformer:
    config = TransformerConfig(
        width=24,
        heads=4,
        kv_heads=2,
        depth=1,
        decoder_depth=2,
        hidden_width=32,
        source_vocabulary=WORDS,
        target_vocabulary=WORDS,
        positions=positions,  # type: ignore[arg-type]
    )
    return shaken(Transformer(config)).eval()


def written(model: Transformer, *, shares: bool) -> tuple[list[Tensor], list[bool]]:
    """The logits of every step, and whether rows shared a cache at it."""
    state = model.start(sequences(7, 4, 2, vocabulary=WORDS))
    state = EncoderDecoderState(state.memory, state.pasts, shares=shares)
    tokens, found, shared = torch.full((3,), START), [], []
    for step, rows in enumerate([*PICKS, None]):
        shared.append(isinstance(state.pasts[0], BeamCache))
        logits, state = model.step(tokens, state)
        found.append(logits)
        if rows is not None:
            state = state.pick(torch.tensor(rows))
            tokens = torch.tensor([4 + (3 * row + step + place) % 13 for place, row in enumerate(rows)])
    return found, shared


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_shared_cache_gives_what_copies_give(positions: str) -> None:
    plain = model(positions)
    with torch.no_grad():
        torch.manual_seed(3)
        together, shared = written(plain, shares=True)
        torch.manual_seed(3)
        apart, alone = written(plain, shares=False)
    assert shared == [False, True, True, True, True, True, False, False, True]
    assert not any(alone)
    for a, b in zip(together, apart, strict=True):
        assert torch.allclose(a, b, atol=2e-6)


def test_watching_sees_the_keys_of_every_row_and_changes_no_bit() -> None:
    plain = model("rotary")
    with torch.no_grad():
        torch.manual_seed(3)
        unseen, _ = written(plain, shares=True)
        torch.manual_seed(3)
        with watch(plain) as seen:
            looked, _ = written(plain, shares=True)
        torch.manual_seed(3)
        with watch(plain) as copies:
            written(plain, shares=False)
    assert all(torch.equal(a, b) for a, b in zip(unseen, looked, strict=True))
    name = "decoder.1.attention"
    for one, other in zip(seen.calls(name), copies.calls(name), strict=True):
        ours, theirs = one.call, other.call
        assert ours is not None
        assert theirs is not None
        assert ours.query.shape == theirs.query.shape
        assert torch.allclose(ours.query, theirs.query, atol=2e-6)
        assert torch.allclose(ours.key, theirs.key, atol=2e-6)


def test_a_bias_that_counts_positions_is_not_shared() -> None:
    state = model("alibi").start(sequences(7, 4, 2, vocabulary=WORDS))
    assert not state.shares


def test_the_slots_of_a_line_are_those_it_came_through() -> None:
    slots = GrowingSlots.of(2, 2, 1, device=torch.device("cpu")).grown()  # slots 1 and 2 are of rows 0 and 1
    slots = slots.pick(torch.tensor([1, 0, 3, 3]), torch.tensor([0, 1])).grown()
    assert slots.slots.tolist() == [[[0, 2, 3], [0, 1, 4]], [[0, 2, 3], [0, 2, 4]]]
    kept = torch.arange(5.0).expand(2, 1, 5)[..., None]
    apart = BeamCache(KeyValue(kept, kept), slots).apart()
    assert apart.key[:, 0, :, 0].tolist() == [[0, 2, 3], [0, 1, 4], [0, 2, 3], [0, 2, 4]]
    allowed = slots.reach.matrix()
    assert allowed is not None
    assert allowed[0, 0].tolist() == [[True, False, True, True, False], [True, True, False, False, True]]


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
