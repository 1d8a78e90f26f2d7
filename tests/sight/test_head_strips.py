import pytest
import torch
from sight.exact import CAPACITIES, cases, close, visible, written

from regard import Call
from regard.sight.head_strips import heads_together


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
