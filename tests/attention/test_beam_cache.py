"""Rows that share a cache, against rows with copies of their own."""

import pytest
import torch
from models.samples import sequences, shaken
from torch import Tensor

from regard.attention.beam_cache import BeamCache, GrowingSlots
from regard.attention.keyvalue import KeyValue
from regard.data.batches import START
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.writing import WritingState
from regard.sight.watch import watch

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
    state = WritingState(state.memory, state.pasts, shares=shares)
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
