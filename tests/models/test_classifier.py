"""The sequence classifier: its pooling, its loss, and that padding cannot matter."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from models.samples import parameters_without_gradient, refilled, sequences, shaken

from regard import watch, weigh
from regard.data.batches import PAD, Labelled, Sequences
from regard.models.classifier import Classifier, ClassifierConfig

SMALL = ClassifierConfig(vocabulary=17, classes=3, width=12, heads=2, depth=2, hidden_width=23, dropout=0.0)
POOLINGS = ["attention", "mean", "first"]


def small(**changes: Any) -> Classifier:
    return shaken(Classifier(replace(SMALL, **changes)).double())


def batch() -> Labelled:
    return Labelled(sequences(7, 4, 1, 5, vocabulary=17), torch.tensor([2, 0, 1, 2]))


def encoded(model: Classifier, tokens: list[int]) -> torch.Tensor:
    """The vectors of one sequence without padding."""
    x = model.embedding(torch.tensor([tokens]))
    for block in model.encoder:
        x = block(x)
    return model.norm(x)[0]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_sequence_is_pooled_as_it_says(pooling: str) -> None:
    model, data = small(pooling=pooling), batch().inputs
    found = model.predict(data)
    for row, n in enumerate(data.lengths.tolist()):
        x = encoded(model, data.tokens[row, :n].tolist())
        if pooling == "attention":
            attention = model.pooling.attention
            weights = weigh(attention.call(model.pooling.queries[None], x[None]))[0, :, 0]
            values = attention.input.values(x).unflatten(-1, (2, 6))
            pooled = attention.output(torch.einsum("hk,khd->hd", weights, values).flatten())
        else:
            pooled = x.mean(0) if pooling == "mean" else x[0]
        expected = torch.log_softmax(model.output(pooled), -1)
        torch.testing.assert_close(found[row], expected, rtol=0, atol=1e-10)


def test_the_loss_is_that_of_the_predictions() -> None:
    model, data = small(), batch()
    predicted, loss = model.predict(data.inputs), model.loss(data)
    torch.testing.assert_close(loss.total, -predicted[torch.arange(4), data.labels].sum(), rtol=0, atol=1e-12)
    assert loss.count.item() == 4
    assert loss.metrics["correct"].item() == (predicted.argmax(-1) == data.labels).sum().item()


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_padding_cannot_matter_to_the_bit(pooling: str, norm: str) -> None:
    model = shaken(Classifier(replace(SMALL, pooling=pooling, norm=norm)))
    data, found = batch(), []
    with torch.no_grad():
        model.embedding.table[PAD] = float("nan")
    for filling in (PAD, 5):
        data.inputs.tokens[~data.inputs.real()] = filling
        loss = model.loss(data).total
        model.zero_grad()
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, model.predict(data.inputs), *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_more_padding_changes_nothing(pooling: str) -> None:
    model, data = small(pooling=pooling), batch().inputs
    torch.testing.assert_close(model.predict(refilled(data, 17)), model.predict(data), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_gradient_reaches_every_parameter(pooling: str) -> None:
    model = small(pooling=pooling)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_every_attention_is_seen_by_name() -> None:
    model = small()
    with watch(model) as seen:
        model.predict(Sequences.of([[5, 6, 2]]))
    assert seen.names == ["encoder.0.attention", "encoder.1.attention", "pooling.attention"]


def test_a_config_survives_json() -> None:
    assert ClassifierConfig(**json.loads(json.dumps(asdict(SMALL)))) == SMALL
