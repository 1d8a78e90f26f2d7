"""Our Transformer and its parts are torch's, on random configurations."""

import copy
import random
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.interop import torch as ours

# Torch's own modules warn of what rules out their fast path.
pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]
CONFIGURATIONS = 150
PARTS = (
    "TransformerEncoderLayer",
    "TransformerEncoder",
    "TransformerDecoderLayer",
    "TransformerDecoder",
    "Transformer",
)


def tanh(x: Tensor) -> Tensor:
    return torch.tanh(x)


def make(library: Any, part: str, options: dict[str, Any], depth: int) -> nn.Module:
    if part == "Transformer":
        return library.Transformer(num_encoder_layers=depth, num_decoder_layers=depth, **options)
    if part.endswith("Layer"):
        return getattr(library, part)(**options)
    layer = getattr(library, f"{part}Layer")(**options)
    norm = nn.LayerNorm(options["d_model"]) if depth == 2 else None
    return getattr(library, part)(layer, depth, norm=norm)


Draw = tuple[str, dict[str, Any], int, list[Tensor], dict[str, Any], bool]


def draw(seed: int) -> Draw:
    choose = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    part = PARTS[seed % len(PARTS)]
    heads = choose.choice([1, 2, 3])
    width = heads * choose.choice([4, 5, 8])  # a norm over two or three numbers enlarges any error
    options: dict[str, Any] = {
        "d_model": width,
        "nhead": heads,
        "dim_feedforward": choose.choice([7, 16]),
        "dropout": 0.0,
        # A copy of torch's decoder layer forgets an activation that is a module, and goes on with ReLU.
        "activation": choose.choice(
            ["relu", "gelu", F.gelu, tanh, nn.GELU() if "Encoder" in part else "gelu"]
        ),
        "layer_norm_eps": choose.choice([1e-5, 1e-3]),
        "batch_first": choose.random() < 0.5,
        "norm_first": choose.random() < 0.5,
        "bias": choose.random() < 0.8,
    }
    unbatched = choose.random() < 0.15
    batch, source, target = (
        1 if unbatched else choose.randint(1, 3),
        choose.randint(1, 7),
        choose.randint(1, 6),
    )

    def sequence(count: int) -> Tensor:
        shape = (count, width) if unbatched else (batch, count, width)
        x = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return x if unbatched or options["batch_first"] else x.transpose(0, 1)

    def mask(queries: int, keys: int, causal: bool) -> Tensor | None:
        """Key 0 is always seen, so that torch's answer is a number."""
        kind = choose.choice(["none", "bool", "float", "per head", *["causal"] * (2 * causal)])
        if kind == "none":
            return None
        shape = (batch * heads, queries, keys) if kind == "per head" else (queries, keys)
        hidden = torch.rand(*shape, generator=generator) < 0.3
        if kind == "causal":
            hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1)
        hidden[..., 0] = False
        floats = torch.zeros(shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)
        return floats if kind == "float" or choose.random() < 0.4 else hidden

    def padding(count: int) -> Tensor | None:
        if choose.random() < 0.4:
            return None
        hidden = torch.rand(batch, count, generator=generator) < 0.4
        hidden[:, 0] = False
        return hidden[0] if unbatched else hidden

    def hint(given: Tensor | None, layer: bool) -> bool | None:
        size = None if given is None else given.shape[-1]
        if given is not None and given.ndim == 2 and given.shape[0] == size:
            hidden = given if given.dtype == torch.bool else given == -torch.inf
            if torch.equal(hidden, torch.ones(size, size, dtype=torch.bool).triu(1)):
                return choose.choice([True, False]) if layer else choose.choice([True, False, None])
        return False if layer else choose.choice([False, None])

    layer = part.endswith("Layer")
    if "Encoder" in part:
        given = mask(source, source, True)
        masks = {"src_key_padding_mask": padding(source), "is_causal": hint(given, layer)}
        masks["src_mask" if layer else "mask"] = given
        return part, options, choose.choice([1, 2]), [sequence(source)], masks, choose.random() < 0.6
    masks = {"tgt_mask": mask(target, target, True), "memory_mask": mask(target, source, False)}
    masks |= {"tgt_key_padding_mask": padding(target), "memory_key_padding_mask": padding(source)}
    masks["tgt_is_causal"] = hint(masks["tgt_mask"], layer)
    inputs = [sequence(target), sequence(source)]
    if part == "Transformer":
        masks |= {"src_mask": mask(source, source, True), "src_key_padding_mask": padding(source)}
        inputs.reverse()
    return part, options, choose.choice([1, 2]), inputs, masks, choose.random() < 0.6


def cast(thing: Any, dtype: torch.dtype) -> Any:
    return (
        thing.detach().clone().to(dtype) if isinstance(thing, Tensor) and thing.is_floating_point() else thing
    )


def answers(module: nn.Module, inputs: list[Tensor], masks: dict[str, Any], training: bool, dtype: torch.dtype) -> dict[str, Tensor]:  # fmt: skip
    module = copy.deepcopy(module).to(dtype).train(training)
    inputs = [cast(x, dtype).requires_grad_(training) for x in inputs]
    with torch.set_grad_enabled(training):
        output = module(*inputs, **{name: cast(mask, dtype) for name, mask in masks.items()})
    found = {"output": output.detach()}
    if training:
        generator = torch.Generator().manual_seed(7)
        (
            output * torch.randn(output.shape, generator=generator, dtype=torch.float64).to(dtype)
        ).sum().backward()
        found |= {f"gradient of {name}": part.grad for name, part in module.named_parameters()}
        found |= {f"gradient of input {i}": x.grad for i, x in enumerate(inputs)}
    return found


@pytest.mark.parametrize("seed", range(CONFIGURATIONS))
def test_a_random_configuration_gives_what_torch_gives(seed, no_worse):
    part, options, depth, inputs, masks, training = draw(seed)
    modules = []
    for library in (ours, nn):
        torch.manual_seed(seed)
        modules.append(make(library, part, options, depth))
    mine, torchs = modules
    assert list(mine.state_dict()) == list(torchs.state_dict())
    for name, parameter in torchs.named_parameters():
        assert torch.equal(parameter, mine.get_parameter(name)), f"one seed, two initial values of {name}"
    with torch.no_grad():
        for name, parameter in torchs.named_parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
            mine.get_parameter(name).copy_(parameter)
    got, wanted = (answers(module, inputs, masks, training, torch.float32) for module in modules)
    exact = answers(
        mine, inputs, masks, True, torch.float64
    )  # in training torch takes no fast path; ours has none
    torch.testing.assert_close(exact["output"], answers(torchs, inputs, masks, True, torch.float64)["output"])
    if not training and "Transformer" in part and masks.get("src_key_padding_mask") is not None:
        # Torch's fast path puts zeros where the padding is; nobody reads what is there.
        real = ~masks["src_key_padding_mask"]
        if part == "TransformerEncoder" and options["batch_first"] and real.ndim == 2:
            got, wanted, exact = ({"output": part["output"][real]} for part in (got, wanted, exact))
    no_worse(
        got, wanted, {name: exact[name] for name in got}, roundings=16
    )  # every norm divides, so enlarges


@pytest.mark.parametrize("norm_first", [True, False])
def test_at_an_ordinary_size_no_rounding_is_free(norm_first, no_worse):
    options = {"d_model": 64, "nhead": 4, "dim_feedforward": 128, "dropout": 0.0, "norm_first": norm_first}
    mine, torchs = make(ours, "Transformer", options, 2), make(nn, "Transformer", options, 2)
    mine.load_state_dict(torchs.state_dict())
    inputs = [torch.randn(count, 3, 64, dtype=torch.float64) for count in (40, 30)]
    masks = {"tgt_mask": mine.generate_square_subsequent_mask(30), "tgt_is_causal": True}
    got, wanted = (answers(module, inputs, masks, True, torch.float32) for module in (mine, torchs))
    no_worse(got, wanted, answers(torchs, inputs, masks, True, torch.float64), roundings=0)


def test_the_configurations_cover_every_option():
    drawn = [draw(seed) for seed in range(CONFIGURATIONS)]
    for option in ("batch_first", "norm_first", "bias"):
        assert {options[option] for _, options, *_ in drawn} == {True, False}
    hints = [masks.get("is_causal", masks.get("tgt_is_causal")) for *_, masks, _ in drawn]
    assert {True, False, None} == set(hints)
    assert {training for *_, training in drawn} == {True, False}
    assert {inputs[0].ndim for *_, inputs, _, _ in drawn} == {2, 3}


@pytest.mark.parametrize("part", PARTS)
def test_state_goes_both_ways(part):
    options = {"d_model": 12, "nhead": 3, "dim_feedforward": 7, "dropout": 0.0}
    mine, torchs = make(ours, part, options, 2), make(nn, part, options, 2)
    inputs = [torch.randn(4, 2, 12)] * (1 if "Encoder" in part else 2)
    mine.load_state_dict(torchs.state_dict())
    torch.testing.assert_close(mine(*inputs), torchs(*inputs))
    again = make(nn, part, options, 2)
    again.load_state_dict(mine.state_dict())
    torch.testing.assert_close(again(*inputs), torchs(*inputs))
    assert torch.equal(copy.deepcopy(mine)(*inputs), mine(*inputs))


@pytest.mark.parametrize("part", PARTS)
def test_the_attributes_people_read_are_torchs(part):
    options = {"d_model": 12, "nhead": 3, "dim_feedforward": 7, "batch_first": True}
    mine, torchs = make(ours, part, options, 2), make(nn, part, options, 2)
    fast_path = {"activation_relu_or_gelu", "use_nested_tensor"}  # what only torch's fast path reads
    for name in {name for name in vars(torchs) if not name.startswith("_")} - fast_path:
        assert getattr(mine, name) == getattr(torchs, name), name
    assert [name for name, _ in mine.named_modules()] == [name for name, _ in torchs.named_modules()]


@pytest.mark.parametrize("part", [part for part in PARTS if part.endswith("Layer")])
def test_a_layer_from_before_activations_could_be_chosen_has_relu(part):
    layer = getattr(ours, part)(8, 2, 16, 0.0, "gelu")
    state = {name: value for name, value in vars(layer).items() if name != "activation"}
    layer.__dict__.pop("activation")
    layer.__setstate__(state)
    assert layer.activation is F.relu


@pytest.mark.parametrize("part", [part for part in PARTS if part.endswith("Layer")])
def test_a_copy_keeps_an_activation_that_is_a_module(part):
    layer = getattr(ours, part)(8, 2, 16, 0.0, nn.GELU())
    x = torch.randn(5, 2, 8)
    inputs = (x,) if "Encoder" in part else (x, x)
    assert torch.equal(copy.deepcopy(layer)(*inputs), layer(*inputs))


def test_dropout_is_where_torch_has_it():
    """With dropout 1 in training nothing but the residuals is left."""
    x = torch.randn(5, 2, 8)
    for kind in (ours.TransformerEncoderLayer, nn.TransformerEncoderLayer):
        assert torch.equal(kind(8, 2, 16, 1.0, norm_first=True)(x), x)
    for kind in (ours.TransformerDecoderLayer, nn.TransformerDecoderLayer):
        assert torch.equal(kind(8, 2, 16, 1.0, norm_first=True)(x, x), x)


def test_a_layer_is_changed_by_overriding_its_blocks():
    class Louder(ours.TransformerEncoderLayer):
        def _sa_block(self, *args: Any, **options: Any) -> Tensor:
            return 2 * super()._sa_block(*args, **options)

    x = torch.randn(5, 2, 8)
    louder, plain = (
        Louder(8, 2, 16, 0.0, norm_first=True),
        ours.TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=True),
    )
    plain.load_state_dict(louder.state_dict())
    assert not torch.allclose(louder(x), plain(x))


def test_the_stacks_tell_their_layers_that_a_mask_is_causal():
    told = []

    class Listening(ours.TransformerEncoderLayer):
        def forward(self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Tensor:  # fmt: skip
            told.append(is_causal)
            return src

    encoder = ours.TransformerEncoder(Listening(8, 2), 1)
    causal = ours.Transformer.generate_square_subsequent_mask(5)
    x = torch.randn(5, 2, 8)
    for mask, hint in (
        (causal, None),
        (causal == 0, None),
        (causal != 0, None),
        (causal, False),
        (None, None),
    ):
        encoder(x, mask=mask, is_causal=hint)
    assert told == [True, False, True, False, False]
    assert torch.equal(causal, nn.Transformer.generate_square_subsequent_mask(5))


def test_evaluation_and_training_are_one_path():
    layer = ours.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    encoder = ours.TransformerEncoder(layer, 2, enable_nested_tensor=True, mask_check=False)
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False, False, True, True, True]])
    trained = encoder.train()(x, src_key_padding_mask=padding)
    with torch.no_grad():
        assert torch.equal(encoder.eval()(x, src_key_padding_mask=padding), trained)


@pytest.mark.parametrize("library", [ours, nn])
def test_a_mistake_raises_what_torch_raises(library, as_a_user):
    model = library.Transformer(8, 2, 1, 1, 16)
    x = torch.randn(5, 2, 8)
    with pytest.raises(RuntimeError, match="batch"):
        model(x, x[:, :1])
    with pytest.raises(RuntimeError, match="d_model"):
        model(torch.randn(5, 2, 7), x)
    with pytest.raises(RuntimeError):
        library.TransformerEncoderLayer(8, 2, activation="swish")
    with pytest.raises(AssertionError):
        model(x, x, src_key_padding_mask=torch.zeros(2, 5).long())
    with pytest.raises(AssertionError):
        model(x, x, memory_key_padding_mask=torch.zeros(5, 2).bool())
    with pytest.raises(RuntimeError):
        model(x, x, tgt_mask=torch.zeros(4, 4).bool())
    with pytest.raises(AssertionError):
        library.Transformer(9, 2)


def test_custom_parts_are_taken_as_they_are():
    class Same(nn.Module):
        def forward(self, x: Tensor, *_: Any, **__: Any) -> Tensor:
            return x

    model = ours.Transformer(8, 2, custom_encoder=Same(), custom_decoder=Same())
    x = torch.randn(5, 2, 8)
    assert torch.equal(model(x, x), x)
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1, enable_nested_tensor=False)
    model = ours.Transformer(8, 2, 1, 1, 12, custom_encoder=theirs)
    assert type(theirs) is nn.TransformerEncoder
    assert type(theirs.layers[0].self_attn) is nn.MultiheadAttention  # type: ignore[union-attr]
    assert type(model.decoder.layers[0].self_attn) is ours.MultiheadAttention  # type: ignore[union-attr]


def test_making_a_model_warns_of_no_fast_path():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.Transformer(8, 2, 1, 1, 12)
        ours.TransformerEncoder(ours.TransformerEncoderLayer(9, 3, norm_first=True), 2)


@pytest.mark.parametrize(
    "sizes", [(0, 5, 3), (0, 0, 0), (0, 13, 7), (2, 0, 3), (2, 5, 0), (2, 0, 0)], ids=str
)
@pytest.mark.parametrize("part", PARTS)
def test_an_empty_input_gives_every_parameter_the_gradient_that_torch_gives(part, sizes):
    batch, memory, length = sizes
    options = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "dropout": 0.0, "batch_first": True}
    theirs, mine = make(nn, part, options, depth=2), make(ours, part, options, depth=2)
    mine.load_state_dict(theirs.state_dict())
    inputs = [torch.randn(batch, length, 8)]
    if "Encoder" not in part:
        inputs.append(torch.randn(batch, memory, 8))
    for model in (theirs, mine):
        model(*inputs).sum().backward()
    wanted = dict(theirs.named_parameters())
    for name, parameter in mine.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name].grad, msg=lambda m, n=name: f"{n}: {m}")
