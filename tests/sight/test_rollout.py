import pytest
import torch
from sight.exact import CAPACITIES, Largest, cases, close, looking_as, visible, written

from regard import Call, RegardError, causal
from regard.sight.rollout import rollout


def written_out(calls, residual=0.5):
    """Layer after layer from the first, as the paper multiplies; a matrix of each."""
    flow = torch.eye(calls[0].extent.keys).double()
    for call in calls:
        weights, looking = written(call), visible(call).any(-1, keepdim=True)
        heads = looking.sum(-3)
        mean = weights.sum(-3) / heads.clamp_min(1)
        eye = torch.eye(weights.shape[-1]).double()
        layer = torch.where(heads > 0, (1 - residual) * mean + residual * eye, eye)
        flow = layer @ flow
    return flow


@pytest.mark.parametrize("capacity", CAPACITIES)
@cases()
def test_rollout_is_the_product_of_the_layers(case, capacity):
    residual = 0.3
    calls = [case.build(seed)[0] for seed in (1, 2, 3)]
    found = rollout(calls, residual=residual, capacity=capacity)
    close(found, written_out(calls, residual), atol=1e-5)
    close(found.sum(-1), torch.ones(3, 11), atol=1e-5)
    some = rollout(calls, residual=residual, queries=[9, 2], capacity=capacity)
    close(some, found[..., [9, 2], :], atol=1e-6)


def test_layers_that_look_at_themselves_are_the_identity():
    layer = looking_as(torch.eye(5).expand(2, 3, 5, 5))
    assert torch.equal(rollout([layer] * 4), torch.eye(5).expand(2, 5, 5))


def test_layers_that_may_look_at_nothing_are_the_identity():
    blind = Call(torch.randn(2, 5, 3), torch.randn(2, 5, 3), causal(offset=-9))
    assert torch.equal(rollout([blind] * 2), torch.eye(5))


def test_the_first_layer_is_nearest_to_the_input():
    first = looking_as([[[0.0, 1.0], [1.0, 0.0]]])  # swaps
    last = looking_as([[[1.0, 0.0], [1.0, 0.0]]])  # both look at the first
    close(rollout([first, last], residual=0.0), torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    # ½ (last + I) · ½ (first + I), by hand
    close(rollout([first, last]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
    close(rollout([last, first], residual=0.25), torch.tensor([[0.8125, 0.1875], [0.9375, 0.0625]]))


def test_float64_layers_give_float64():
    calls = [Call(torch.randn(2, 5, 3).double(), torch.randn(2, 5, 3).double()) for _ in range(2)]
    torch.testing.assert_close(rollout(calls, residual=0.3), written_out(calls, 0.3), rtol=0, atol=1e-14)


def test_a_row_of_it_holds_no_matrix():
    length = 1024
    calls = [Call(torch.randn(2, length, 4), torch.randn(2, length, 4), causal()) for _ in range(2)]
    with Largest() as largest:
        rollout(calls, queries=-1, capacity=8 * length)
    assert largest.size <= 64 * length


@pytest.mark.parametrize(
    ("calls", "options", "named"),
    [
        ([], {}, ["no layers"]),
        ([(5, 5)], {"residual": 1.5}, ["1.5"]),
        ([(5, 5), (5, 6)], {}, ["layer 1", "5 queries", "6 keys"]),
        ([(5, 5), (6, 6)], {}, ["layer 1", "(2, 6, 3)", "(2, 5, 3)"]),
        ([(5, 5)], {"queries": 5}, ["query 5"]),
    ],
)
def test_what_cannot_be_multiplied_is_refused_by_name(calls, options, named):
    with pytest.raises(RegardError) as error:
        rollout([Call(torch.randn(2, q, 3), torch.randn(2, k, 3)) for q, k in calls], **options)
    assert all(name in str(error.value) for name in named), str(error.value)
