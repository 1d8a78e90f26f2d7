"""Our MultiheadAttention and torch's are one module, on random configurations of everything it takes."""

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.interop import torch as ours

pytestmark = pytest.mark.filterwarnings(
    "ignore:Support for mismatched:UserWarning"
)  # torch's, of masks of two kinds
CONFIGURATIONS = 360


@dataclass(frozen=True)
class Configuration:
    """Arguments for the constructor and for forward, in float64 so that every dtype sees the same numbers."""

    made_with: dict[str, Any]
    inputs: tuple[Tensor, Tensor, Tensor]
    called_with: dict[str, Any] = field(default_factory=dict)
    training: bool = True
    seed: int = 0


def draw(seed: int) -> Configuration:
    choose = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def coins(*shape: int, chance: float = 0.4) -> Tensor:
        return torch.rand(*shape, generator=generator) < chance

    heads, head_width = choose.choice([1, 2, 3, 4]), choose.choice([1, 2, 3, 5, 8])
    width = heads * head_width
    made_with = {
        "embed_dim": width,
        "num_heads": heads,
        "bias": choose.random() < 0.7,
        "add_bias_kv": choose.random() < 0.3,
        "add_zero_attn": choose.random() < 0.3,
        "kdim": choose.choice([None, None, width, 7]),
        "vdim": choose.choice([None, None, width, 5]),
        "batch_first": choose.random() < 0.5,
    }
    batch, queries = choose.randint(1, 4), choose.randint(1, 9)
    alike = made_with["kdim"] in (None, width) and made_with["vdim"] in (None, width)
    itself = alike and choose.random() < 0.4
    keys = queries if itself else choose.randint(1, 11)
    unbatched = choose.random() < 0.2
    batch = 1 if unbatched else batch

    def rows(count: int, features: int) -> Tensor:
        if unbatched:
            return numbers(count, features)
        return (
            numbers(batch, count, features) if made_with["batch_first"] else numbers(count, batch, features)
        )

    query = rows(queries, width)
    key = query if itself else rows(keys, made_with["kdim"] or width)
    value = key if alike and choose.random() < 0.7 else rows(keys, made_with["vdim"] or width)

    called_with: dict[str, Any] = {
        "need_weights": choose.random() < 0.6,
        "average_attn_weights": choose.random() < 0.5,
    }
    seen = choose.randrange(keys)  # by all, so that torch's answer is a number
    kind = choose.choice(["none", "bool", "float", "bool 3-D", "float 3-D", "causal", "causal hint"])
    if kind.startswith("causal"):
        ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        floats = torch.zeros(queries, keys, dtype=torch.float64).masked_fill(ahead, -torch.inf)
        called_with["attn_mask"] = choose.choice([ahead, floats])
        called_with["is_causal"] = kind == "causal hint"
        seen = 0
        # Torch hides the added keys when it takes the hint, and shows them when it is asked for weights.
        extended = made_with["add_bias_kv"] or made_with["add_zero_attn"]
        called_with["need_weights"] |= extended and called_with["is_causal"]
    elif kind != "none":
        shape = (batch * heads, queries, keys) if "3-D" in kind else (queries, keys)
        hidden = coins(*shape)
        hidden[..., seen] = False
        called_with["attn_mask"] = (
            numbers(*shape).masked_fill(hidden, -torch.inf) if "float" in kind else hidden
        )
    padding = choose.choice(["none", "bool", "float"])
    if padding != "none":
        shape = (keys,) if unbatched else (batch, keys)
        hidden = coins(*shape)
        hidden[..., seen] = False
        called_with["key_padding_mask"] = (
            numbers(*shape).masked_fill(hidden, -torch.inf) if padding == "float" else hidden
        )
    return Configuration(made_with, (query, key, value), called_with, choose.random() < 0.6, seed)


def cast(thing: Any, dtype: torch.dtype) -> Any:
    return (
        thing.detach().clone().to(dtype) if isinstance(thing, Tensor) and thing.is_floating_point() else thing
    )


def answers(module: nn.Module, configuration: Configuration, dtype: torch.dtype) -> dict[str, Tensor]:
    """Output, weights, and in training all gradients."""
    module = copy.deepcopy(module).to(dtype).train(configuration.training)
    query, key, value = (cast(part, dtype) for part in configuration.inputs)
    if configuration.inputs[1] is configuration.inputs[2]:
        value = key
    if configuration.inputs[0] is configuration.inputs[1]:
        query = key
    inputs = [part.requires_grad_(configuration.training) for part in (query, key, value)]
    called_with = {name: cast(part, dtype) for name, part in configuration.called_with.items()}
    with torch.set_grad_enabled(configuration.training):
        output, weights = module(*inputs, **called_with)
    found = {"output": output.detach()}
    if weights is not None:
        found["weights"] = weights.detach()
    if not configuration.training:
        return found
    generator = torch.Generator().manual_seed(configuration.seed)
    loss = (output * torch.randn(output.shape, generator=generator, dtype=torch.float64).to(dtype)).sum()
    if weights is not None:
        loss = (
            loss
            + (weights * torch.randn(weights.shape, generator=generator, dtype=torch.float64).to(dtype)).sum()
        )
    loss.backward()
    found |= {
        f"gradient of {name}": part.grad for name, part in module.named_parameters() if part.grad is not None
    }
    found |= {f"gradient of input {i}": part.grad for i, part in enumerate(inputs)}
    return found


def pair(made_with: dict[str, Any], seed: int = 0) -> tuple[nn.Module, nn.Module]:
    modules = []
    for kind in (ours.MultiheadAttention, nn.MultiheadAttention):
        torch.manual_seed(seed)
        module = kind(**made_with)
        with torch.no_grad():
            for parameter in module.parameters():  # biases start at 0, where a missing one would not be seen
                parameter.add_(0.1 * torch.randn(parameter.shape))
        modules.append(module)
    return modules[0], modules[1]


@pytest.mark.parametrize("seed", range(CONFIGURATIONS))
def test_a_random_configuration_gives_what_torch_gives(seed, no_worse):
    configuration = draw(seed)
    mine, torchs = pair(configuration.made_with, seed)
    for (name, parameter), (other_name, other) in zip(
        mine.named_parameters(), torchs.named_parameters(), strict=True
    ):
        assert name == other_name
        assert torch.equal(parameter, other), f"one seed, two initial values of {name}"
    got, wanted = (answers(module, configuration, torch.float32) for module in (mine, torchs))
    exact = answers(torchs, configuration, torch.float64)
    no_worse(got, wanted, exact, roundings=4)


def test_the_configurations_cover_every_option():
    drawn = [draw(seed) for seed in range(CONFIGURATIONS)]
    for option in ("bias", "add_bias_kv", "add_zero_attn", "batch_first"):
        assert {c.made_with[option] for c in drawn} == {True, False}
    for option in ("need_weights", "average_attn_weights"):
        assert {c.called_with[option] for c in drawn} == {True, False}
    assert {c.training for c in drawn} == {True, False}
    assert {c.inputs[0].ndim for c in drawn} == {2, 3}
    masks = [c.called_with["attn_mask"] for c in drawn if "attn_mask" in c.called_with]
    assert {(mask.ndim, mask.dtype) for mask in masks} == {
        (axes, dtype) for axes in (2, 3) for dtype in (torch.bool, torch.float64)
    }
    assert sum(c.called_with.get("is_causal", False) for c in drawn) > 20
    assert sum("key_padding_mask" in c.called_with for c in drawn) > 100


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_at_an_ordinary_size_no_rounding_is_free(need_weights, masked, no_worse):
    mine, torchs = pair({"embed_dim": 64, "num_heads": 4, "batch_first": True})
    x = torch.randn(4, 48, 64, dtype=torch.float64)
    masks = {"key_padding_mask": torch.arange(48) >= torch.tensor([48, 30, 7, 1])[:, None]} if masked else {}
    configuration = Configuration({}, (x, x, x), {"need_weights": need_weights, **masks})
    got, wanted = (answers(module, configuration, torch.float32) for module in (mine, torchs))
    # The gradient of the bias of the keys is 0: what one adds to all scores, softmax takes away.
    exact = answers(torchs, configuration, torch.float64)
    no_worse(got, wanted, exact, roundings=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_no_farther_from_float64_than_twice_torch(dtype):
    """Summed over configurations, as two roundings of a few numbers say little."""
    errors = {"output": [0.0, 0.0], "weights": [0.0, 0.0]}
    for seed in range(60):
        configuration = draw(seed)
        modules = [module.to(dtype) for module in pair(configuration.made_with, seed)]
        exact = answers(modules[1], configuration, torch.float64)
        for i, module in enumerate(modules):
            for name, answer in answers(module, configuration, dtype).items():
                if name in errors:
                    errors[name][i] += (answer.double() - exact[name]).square().sum().item()
    for name, (mine, torchs) in errors.items():
        assert mine <= 4 * torchs, f"{name}: {mine} against {torchs}"  # squares: twice is four times


@pytest.mark.parametrize("seed", range(0, CONFIGURATIONS, 3))
def test_asking_for_weights_changes_no_bit_of_the_output(seed):
    configuration = draw(seed)
    module = ours.MultiheadAttention(**configuration.made_with).double()
    called_with = {name: part for name, part in configuration.called_with.items() if name != "need_weights"}
    watched, weights = module(*configuration.inputs, **called_with, need_weights=True)
    alone, nothing = module(*configuration.inputs, **called_with, need_weights=False)
    assert nothing is None
    assert weights is not None
    assert torch.equal(watched, alone)
    assert torch.allclose(weights.sum(-1), torch.ones(()).double())


def test_one_tensor_given_thrice_is_no_other_case_than_three_equal_ones():
    module = ours.MultiheadAttention(12, 3, batch_first=True).eval()
    x = torch.randn(2, 5, 12)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert torch.equal(module(x, x, x)[0], module(x, x.clone(), x.clone())[0])
    assert torch.equal(module.eval()(x, x, x)[0], module.train()(x, x, x)[0])


def test_packed_weights_have_the_shape_torch_gives_them():
    module = ours.MultiheadAttention(50, 5)
    assert module.in_proj_weight.shape == (150, 50)
    assert module.in_proj_bias.shape == (150,)
    assert module.q_proj_weight is None
    separate = ours.MultiheadAttention(50, 5, kdim=30, vdim=40)
    assert separate.in_proj_weight is None
    assert separate.q_proj_weight.shape == (50, 50)
    assert separate.k_proj_weight.shape == (50, 30)
    assert separate.v_proj_weight.shape == (50, 40)


@pytest.mark.parametrize("options", [{}, {"kdim": 30, "vdim": 40}, {"add_bias_kv": True}, {"bias": False}])
def test_state_goes_both_ways(options):
    mine, torchs = ours.MultiheadAttention(50, 5, **options), nn.MultiheadAttention(50, 5, **options)
    assert list(mine.state_dict()) == list(torchs.state_dict())
    query, key, value = torch.randn(4, 2, 50), torch.randn(3, 2, mine.kdim), torch.randn(3, 2, mine.vdim)
    mine.load_state_dict(torchs.state_dict())
    torch.testing.assert_close(mine(query, key, value), torchs(query, key, value))
    again = nn.MultiheadAttention(50, 5, **options)
    again.load_state_dict(mine.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), torchs.parameters(), strict=True))


def test_the_attributes_people_read_are_torchs():
    made_with = {"embed_dim": 12, "num_heads": 3, "dropout": 0.2, "kdim": 5, "batch_first": True}
    mine, torchs = ours.MultiheadAttention(**made_with), nn.MultiheadAttention(**made_with)
    names = {name for name in vars(torchs) if not name.startswith("_")}
    names |= {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj"}
    for name in names:
        theirs, own = getattr(torchs, name), getattr(mine, name)
        assert type(own) is type(theirs), name
        if not isinstance(theirs, Tensor | nn.Module):
            assert own == theirs, name
    assert mine._qkv_same_embed_dim is False


def test_a_copy_and_a_restored_module_answer_alike():
    module = ours.MultiheadAttention(12, 3, add_bias_kv=True)
    x = torch.randn(5, 2, 12)
    restored = ours.MultiheadAttention(12, 3, add_bias_kv=True)
    restored.__setstate__(copy.deepcopy(vars(module)))
    for other in (copy.deepcopy(module), restored):
        assert torch.equal(other(x, x, x)[0], module(x, x, x)[0])
        assert other.in_proj_weight is not module.in_proj_weight


def test_a_state_without_the_flag_of_packed_weights_has_packed_ones():
    module = ours.MultiheadAttention(12, 3)
    state = {name: part for name, part in vars(module).items() if name != "_qkv_same_embed_dim"}
    other = ours.MultiheadAttention.__new__(ours.MultiheadAttention)
    nn.Module.__init__(other)
    other.__setstate__(state)
    x = torch.randn(5, 2, 12)
    assert torch.equal(other(x, x, x)[0], module(x, x, x)[0])


def test_dropout_is_applied_in_training_only():
    module = ours.MultiheadAttention(16, 2, dropout=0.5)
    x = torch.randn(6, 2, 16)
    torch.manual_seed(0)
    once, weights = module(x, x, x)
    assert not torch.equal(once, module(x, x, x)[0])
    torch.manual_seed(0)
    assert torch.equal(once, module(x, x, x, need_weights=False)[0])
    assert torch.allclose(weights.sum(-1), torch.ones(()))  # the weights are those before dropout
    module.eval()
    assert torch.equal(module(x, x, x)[0], module(x, x, x)[0])
    nothing = ours.MultiheadAttention(16, 2, dropout=1.0, bias=False)
    assert torch.equal(nothing(x, x, x)[0], torch.zeros_like(x))


@pytest.mark.parametrize("shape", [(0, 3, 8), (4, 0, 8), (0, 0, 8)])
def test_nothing_to_attend_from_or_to(shape):
    """No queries, no batch, or no keys: torch's shapes and torch's numbers."""
    mine, torchs = pair({"embed_dim": 8, "num_heads": 2})
    empty = torch.randn(shape)
    some = torch.randn(5, shape[1], 8)
    for query, key in ((empty, empty), (empty, some), (some, empty)):
        torch.testing.assert_close(mine(query, key, key), torchs(query, key, key))


def test_autocast_works_with_every_kind_of_key():
    module = ours.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    x = torch.randn(5, 2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, weights = module(x, x, x, attn_mask=ours.Transformer.generate_square_subsequent_mask(5))
    assert output.dtype == torch.bfloat16
    assert torch.isfinite(weights).all()


def test_what_is_in_the_padding_reaches_no_output_and_no_gradient():
    module = ours.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    query, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 6)
    padding = torch.tensor([[False, False, False, True, True], [False] * 5])
    found = []
    for filling in (0.0, torch.nan, torch.inf, 1e30):
        filled = memory.masked_fill(padding[..., None], filling)
        module.zero_grad()
        output, weights = module(query, filled, filled, key_padding_mask=padding)
        (output.square().sum() + weights.square().sum()).backward()
        found.append([output.detach(), weights.detach(), *(p.grad.clone() for p in module.parameters())])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
