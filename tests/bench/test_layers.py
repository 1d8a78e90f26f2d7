"""The kinds of layers: what theory says of them is what they do."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard import RegardError
from regard.bench.layers import KERNEL, WINDOW, DenseOverPositions, Mixing, choose_kinds, heads, kinds


@pytest.mark.parametrize("name", [name for name in kinds() if name != "recurrent"])
@pytest.mark.parametrize(("length", "width"), [(128, 24), (320, 40), (640, 24)])
def test_operations_are_those_that_torch_counts(name, length, width):
    kind = kinds()[name]
    layer = kind.make(length, width).double()  # computed by operators of torch, which the counter sees
    with FlopCounterMode(display=False) as counted, sdpa_kernel(SDPBackend.MATH):
        layer(torch.randn(1, length, width).double())
    assert kind.operations(length, width) == counted.get_total_flops()


def test_operations_of_a_recurrence_are_those_of_its_steps():
    kind, width = kinds()["recurrent"], 24
    recurrence = kind.make(7, width).recurrence
    with FlopCounterMode(display=False) as counted:
        recurrence.step(torch.randn(1, width), torch.zeros(1, 1, 2, width))
    assert kind.operations(7, width) == 7 * counted.get_total_flops()


def test_parameters_by_hand():
    d, n = 24, 11
    four_maps = 4 * (d * d + d)
    expected = {
        "self-attention": four_maps,
        "written out": four_maps,
        "window": four_maps,
        "recurrent": 4 * (2 * d * d + 2 * d),  # four gates: a map of the input, one of the state, two biases
        "convolution": KERNEL * d * d + d,
        "dense over positions": n * d * d + d,
        "feed-forward": d * 4 * d + 4 * d + 4 * d * d + d,
    }
    found = {name: counted(kind.make(n, d)) for name, kind in kinds().items()}
    assert found == expected


@pytest.mark.parametrize("name", list(kinds()))
@pytest.mark.parametrize(("length", "width"), [(7, 5), (30, 8)])
def test_the_formula_of_parameters_is_what_is_counted(name, length, width):
    kind = kinds()[name]
    assert kind.parameters(length, width) == counted(kind.make(length, width))
    order = kind.parameter_order.replace("·", "*").replace("²", "**2")
    assert eval(order, {"n": length, "d": width, "k": KERNEL}) == kind.parameters(length, width)


def counted(layer):
    return sum(each.numel() for each in layer.parameters())


def test_dense_over_positions_is_one_linear_map_of_the_sequence_seen_from_each_position():
    n, d = 7, 5
    layer = DenseOverPositions(n, d).double()
    torch.nn.init.normal_(layer.bias)
    x = torch.randn(2, n, d, dtype=torch.float64)
    linear = torch.nn.Linear(n * d, d).double()
    linear.load_state_dict({"weight": layer.weight.transpose(1, 2).reshape(d, n * d), "bias": layer.bias})
    for i in range(n):
        seen = torch.roll(x, -i, dims=1).flatten(1)
        torch.testing.assert_close(layer(x)[:, i], linear(seen), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", list(kinds()))
def test_the_exponent_is_that_of_the_operations_far_out(name):
    kind = kinds()[name]
    for count, exponent in ((kind.operations, kind.exponent), (kind.held, kind.held_exponent)):
        assert count(2_000_000, 16) / count(1_000_000, 16) == pytest.approx(2**exponent, rel=1e-3)


@pytest.mark.parametrize("name", list(kinds()))
def test_a_layer_maps_a_sequence_to_one_like_it(name):
    x = torch.randn(2, 70, 20)
    assert kinds()[name].make(70, 20)(x).shape == x.shape


def test_written_out_is_the_same_attention():
    x = torch.randn(1, 50, 16, dtype=torch.float64)
    layer = kinds()["written out"].make(50, 16).double()
    assert isinstance(layer, Mixing)
    torch.testing.assert_close(layer(x), layer.attention(x), rtol=0, atol=1e-12)


def test_a_position_reaches_no_farther_than_its_path():
    x = torch.randn(1, 300, 16)
    for name, reach in (("window", WINDOW - 1), ("convolution", KERNEL // 2), ("feed-forward", 0)):
        layer, changed = kinds()[name].make(300, 16), x.clone()
        changed[0, 150] += 1
        moved = (layer(x) != layer(changed)).any(-1)[0].nonzero().flatten().tolist()
        assert (moved[0], moved[-1]) == (150 - reach, 150 + reach), name


def test_kinds_are_chosen_by_name():
    assert [kind.name for kind in choose_kinds(["feed-forward", "window", "feed-forward"])] == [
        "feed-forward",
        "window",
    ]
    assert len(choose_kinds(None)) == len(kinds())
    with pytest.raises(RegardError, match="layer 'lstm': choose from self-attention"):
        choose_kinds(["lstm"])


def test_heads_divide_the_width():
    assert [heads(width) for width in (1, 20, 256, 33)] == [1, 4, 8, 1]
