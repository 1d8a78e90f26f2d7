import pytest
import torch
from sight.exact import CAPACITIES, Largest, cases, close, written

from regard import Call, RegardError, attend, causal, lengths
from regard.sight.gradients import attributed, attributed_to_keys


def written_out(call, value, gradient):
    value = value.double().repeat_interleave(gradient.shape[-3] // value.shape[-3], -3)
    return written(call) * (gradient.double() @ value.mT)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("square", [True, False])
def test_each_look_is_weight_times_gradient_times_value(square, capacity):
    for parameters in cases(square=square).args[1]:
        call, value = parameters.build()
        gradient = torch.randn(*call.query.shape[:-1], value.shape[-1])
        expected = written_out(call, value, gradient)
        close(attributed(call, value, gradient, capacity=capacity), expected, atol=1e-5)
        close(
            attributed(call, value, gradient, queries=[3, 1], keys=slice(2, 9, 3), capacity=capacity),
            expected[..., [3, 1], :][..., 2:9:3],
            atol=1e-5,
        )
        close(attributed_to_keys(call, value, gradient, capacity=capacity), expected.sum(-2), atol=1e-5)


def test_it_is_the_weight_times_what_autograd_says_of_the_weight():
    call = Call(torch.randn(2, 5, 3), torch.randn(2, 7, 3))
    value, weights = torch.randn(2, 7, 4), written(call).requires_grad_()
    output = weights @ value.double()
    output.tanh().sum().backward()
    gradient = 1 - output.detach().tanh() ** 2
    close(attributed(call, value, gradient.float()), weights.detach() * weights.grad)


def test_the_gradient_may_come_from_a_graph_and_the_answer_is_in_none():
    query, key, value = (torch.randn(2, 5, 3, requires_grad=True) for _ in range(3))
    output = attend(query, key, value)
    (gradient,) = torch.autograd.grad(output.square().sum(), output)
    call = Call(query, key)
    found = attributed_to_keys(call, value, gradient)
    assert not found.requires_grad
    assert not attributed(call, value, gradient).requires_grad
    close(found.sum(-1), 2 * output.detach().square().sum((-1, -2)), atol=1e-5)  # Σ g · o, and g = 2 o


def test_what_is_masked_cannot_matter():
    mask = causal() & lengths(torch.tensor([5, 3]))
    query, key, value, gradient = (torch.randn(2, 2, 5, 3) for _ in range(4))
    clean = attributed(Call(query, key, mask), value, gradient)
    keys = attributed_to_keys(Call(query, key, mask), value, gradient)
    for tensor in (query, key, value, gradient):
        tensor[1, :, 3:] = float("nan")
    dirty = Call(query, key, mask)
    assert torch.equal(attributed(dirty, value, gradient), clean)
    assert torch.equal(attributed_to_keys(dirty, value, gradient), keys)


def test_half_precision_is_summed_in_float32():
    call, value = cases(dtype="bf16").args[1][3].build()
    gradient = torch.randn(*call.query.shape[:-1], value.shape[-1]).bfloat16()
    found = attributed_to_keys(call, value, gradient)
    assert found.dtype == torch.float32
    close(found, written_out(call, value, gradient).sum(-2), atol=1e-5)


def test_the_sums_hold_no_matrix():
    length = 1024
    call = Call(torch.randn(2, length, 4), torch.randn(2, length, 4), causal())
    with Largest() as largest:
        attributed_to_keys(call, torch.randn(2, length, 4), torch.randn(2, length, 4), capacity=8 * length)
    assert largest.size <= 64 * length


@pytest.mark.parametrize(
    ("value", "gradient", "named"),
    [((2, 6, 4), (2, 5, 4), ["(2, 6, 4)", "(2, 7, 3)"]), ((2, 7, 4), (2, 5, 3), ["(2, 5, 3)", "(2, 5, 4)"])],
)
def test_what_does_not_fit_is_refused_by_name(as_a_user, value, gradient, named):
    call = Call(torch.randn(2, 5, 3), torch.randn(2, 7, 3))
    for ask in (attributed, attributed_to_keys):
        with pytest.raises(RegardError) as error:
            ask(call, torch.randn(value), torch.randn(gradient))
        assert all(name in str(error.value) for name in named), str(error.value)
