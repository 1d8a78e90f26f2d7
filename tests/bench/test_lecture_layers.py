"""The layers of the lecture's table do what they say, and cost what the formulas say."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard import weigh
from regard.bench.layers import KERNEL
from regard.bench.lecture_layers import OneHead, lecture_kinds

KINDS = {kind.name: kind for kind in lecture_kinds()}


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize(("length", "width"), [(7, 8), (30, 24)])
def test_the_formula_of_parameters_is_what_is_counted(name, length, width):
    kind = KINDS[name]
    counted = sum(each.numel() for each in kind.make(length, width).parameters())
    assert kind.parameters(length, width) == counted
    order = kind.parameter_order.replace("·", "*").replace("²", "**2")
    key = width // 8 if "d/8" in name else width
    assert eval(order, {"L": length, "d": width, "d_k": key, "d_v": width, "k": KERNEL}) == counted


@pytest.mark.parametrize("name", [name for name in KINDS if name != "recurrent"])
@pytest.mark.parametrize(("length", "width"), [(40, 24), (96, 16)])
def test_operations_are_those_that_torch_counts(name, length, width):
    with FlopCounterMode(display=False) as counted, sdpa_kernel(SDPBackend.MATH):
        layer, x = KINDS[name].make(length, width), torch.randn(1, length, width)
        if isinstance(
            layer, OneHead
        ):  # written out: the fused kernel fills narrow keys up to the width of the values
            query, key, value = layer.input.together(x)
            layer.output(weigh(query, key) @ value)
        else:
            layer(x)
    assert KINDS[name].operations(length, width) == counted.get_total_flops()


@pytest.mark.parametrize("name", list(KINDS))
def test_the_exponent_is_that_of_the_operations_far_out(name):
    kind = KINDS[name]
    for count, exponent in ((kind.operations, kind.exponent), (kind.held, kind.held_exponent)):
        assert count(2_000_000, 16) / count(1_000_000, 16) == pytest.approx(2**exponent, rel=1e-3)
    assert ("L²" in kind.order) == (kind.exponent == 2)


@pytest.mark.parametrize("output", [False, True])
def test_one_head_is_attention_written_out(output):
    torch.manual_seed(0)
    layer = OneHead(16, 3, output=output).double()
    x = torch.randn(1, 7, 16, dtype=torch.float64)
    query, key, value = layer.input.all.weight.split([3, 3, 16])
    scores = (x @ query.T) @ (x @ key.T).mT / 3**0.5
    expected = torch.softmax(scores, -1) @ (x @ value.T)
    if output:
        expected = expected @ layer.output.weight.T
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_the_recurrent_layer_is_its_equation_step_by_step():
    torch.manual_seed(0)
    layer = KINDS["recurrent"].make(7, 5).double()
    w, u = layer.recurrence.weight_ih_l0, layer.recurrence.weight_hh_l0
    x = torch.randn(1, 7, 5, dtype=torch.float64)
    state = torch.zeros(5, dtype=torch.float64)
    for place in range(7):
        state = torch.tanh(w @ x[0, place] + u @ state)
        torch.testing.assert_close(layer(x)[0, place], state, rtol=0, atol=1e-12)
    assert KINDS["recurrent"].operations(7, 5) == 7 * 2 * (w.numel() + u.numel())
