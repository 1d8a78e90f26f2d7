import pytest
import torch
from sight.exact import CAPACITIES, Largest, cases, close, looking_as, visible, written

from regard import Call, causal
from regard.sight.similarity import similarity


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("square", [True, False])
def test_similarity_is_the_mean_overlap_of_the_roots(square, capacity):
    for parameters in cases(square=square).args[1]:
        call, _ = parameters.build()
        weights, looking = written(call), visible(call).any(-1)
        expected = torch.zeros(3, 4, 4).double()
        for batch in range(3):
            for a in range(4):
                for b in range(4):
                    both = looking[batch, a] & looking[batch, b]
                    overlap = (weights[batch, a] * weights[batch, b]).sqrt().sum(-1)
                    expected[batch, a, b] = overlap[both].sum() / max(int(both.sum()), 1)
        close(similarity(call, capacity=capacity), expected, atol=1e-5)


def test_it_is_one_for_the_same_head_zero_for_opposite_ones_and_symmetric():
    one = torch.tensor([[0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0]])
    found = similarity(looking_as(torch.stack([one, one, one.flip(-1)])))
    close(found, torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]))


def test_by_hand():
    found = similarity(looking_as(torch.tensor([[[0.36, 0.64]], [[0.64, 0.36]]])))
    close(found, torch.tensor([[1, 0.96], [0.96, 1]]))  # 2 · 0.6 · 0.8


def test_half_of_a_key_and_the_other_half_count_as_the_key():
    whole = torch.tensor([[[0.36, 0.64]], [[0.64, 0.36]]])
    halves = torch.cat([whole[..., :1] / 2, whole[..., :1] / 2, whole[..., 1:]], -1)
    close(similarity(looking_as(halves)), similarity(looking_as(whole)))


def test_a_single_head_and_none_that_looks():
    assert similarity(Call(torch.randn(3, 2), torch.randn(3, 2))).shape == (1, 1)
    blind = Call(torch.randn(2, 3, 2), torch.randn(2, 3, 2), causal(offset=-9))
    assert torch.equal(similarity(blind), torch.zeros(2, 2))


def test_it_holds_no_matrix():
    length = 1024
    call = Call(torch.randn(4, length, 4), torch.randn(4, length, 4), causal())
    with Largest() as largest:
        similarity(call, capacity=8 * length)
    assert largest.size <= 64 * length
