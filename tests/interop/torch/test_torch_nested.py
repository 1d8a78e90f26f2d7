"""Nested tensors go in and come out; what is inside is what each sequence alone would give."""

import pytest
import torch

from regard.interop import torch as ours

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.parametrize("layout", [torch.strided, torch.jagged]),
]
COUNTS = (3, 5, 1)


def sequences(width: int = 8, counts: tuple[int, ...] = COUNTS) -> list[torch.Tensor]:
    return [torch.randn(count, width) for count in counts]


def nested(parts: list[torch.Tensor], layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)


@pytest.mark.parametrize("rows", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_attention_of_nested_sequences(layout, rows):
    module = ours.MultiheadAttention(8, 2, batch_first=True, **rows)
    parts = sequences()
    x = nested(parts, layout)
    output, weights = module(x, x, x)
    assert output.is_nested
    assert output.layout == layout
    for got, part, weight in zip(output.unbind(), parts, weights, strict=True):
        wanted, wanted_weight = module(part, part, part)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(weight[: len(part), : len(part)], wanted_weight[:, : len(part)])
    assert (x + output).is_nested  # a residual can be made of them


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_an_encoder_over_nested_sequences_and_its_gradient(layout, norm_first, train):
    layer = ours.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=norm_first)
    encoder = ours.TransformerEncoder(layer, 2, norm=torch.nn.LayerNorm(8)).train(train)
    parts = sequences()
    x = nested(parts, layout)
    output = encoder(x)
    assert output.is_nested
    alone = [part.clone().requires_grad_() for part in parts]
    loss, wanted = 0.0, 0.0
    for got, part in zip(output.unbind(), alone, strict=True):
        torch.testing.assert_close(got, encoder(part), atol=1e-5, rtol=1e-5)
        loss, wanted = loss + got[:, 0].square().sum(), wanted + encoder(part)[:, 0].square().sum()
    loss.backward()
    wanted.backward()
    for gradient, part in zip(x.grad.unbind(), alone, strict=True):
        torch.testing.assert_close(gradient, part.grad, atol=1e-5, rtol=1e-4)


def test_a_transformer_over_nested_source_and_target(layout):
    model = ours.Transformer(8, 2, 1, 2, 16, 0.0, batch_first=True)
    sources, targets = sequences(), sequences(counts=(2, 2, 6))
    mask = model.generate_square_subsequent_mask(6)
    memory = model.encoder(nested(sources, layout))
    output = model.decoder(nested(targets, layout), memory, tgt_mask=mask)
    for got, source, target in zip(output.unbind(), sources, targets, strict=True):
        wanted = model(source, target, tgt_mask=mask[: len(target), : len(target)])
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_padding_may_be_said_on_top(layout):
    module = ours.MultiheadAttention(8, 2, batch_first=True)
    x = nested(sequences(), layout)
    hidden = torch.zeros(3, 5).bool()
    hidden[1, 2:] = True
    floats = torch.zeros(3, 5).masked_fill(hidden, -torch.inf)
    said, added = (module(x, x, x, key_padding_mask=mask)[0] for mask in (hidden, floats))
    second = x.unbind()[1]
    for output in (said, added):
        torch.testing.assert_close(output.unbind()[1], module(second, second[:2], second[:2])[0])


def test_what_cannot_be_is_refused_as_torch_refuses(layout):
    x = nested(sequences(), layout)
    with pytest.raises(AssertionError, match="batch_first"):
        ours.MultiheadAttention(8, 2)(x, x, x)
    module, empty = ours.MultiheadAttention(8, 2, batch_first=True), torch.nested.nested_tensor([])
    with pytest.raises(AssertionError, match="axes"):
        module(empty, empty, empty)


def test_a_sequence_may_be_empty(layout):
    layer = ours.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    parts = sequences(counts=(0, 3))
    output = layer(nested(parts, layout)).unbind()
    assert output[0].shape == (0, 8)
    torch.testing.assert_close(output[1], layer(parts[1]))
