"""Fusion of two senses: who asks whom, each with a mask of its own, against the blocks written out."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from models.samples import (
    images,
    noisy,
    parameters_without_gradient,
    refilled,
    sequences,
    shaken,
    sounds,
    through_json,
)

from regard import RegardError, watch
from regard.data.batches import Both, Images, Labelled, Sequences, Sounds
from regard.models.fusion import Alike, Fusion, FusionConfig, Standardised, pico
from regard.models.layout import Encoded

SMALL = FusionConfig(
    vocabulary=17,
    channels=2,
    image_size=(6, 10),
    patch=(3, 2),
    rate=800,
    window=23,
    hop=7,
    bands=5,
    width=12,
    heads=2,
    depth=1,
    hidden_width=23,
    dropout=0.0,
    classes=3,
    longest=20,
)
SENSES = ["text", "image", "sound"]
PAIRINGS = [*product(SENSES, SENSES)]
ASKS = ["first", "second", "both"]
SIZES = {"text": 7, "image": 10, "sound": 10}


def made(**changes: Any) -> Fusion:
    return shaken(Fusion(replace(SMALL, **changes)).double())


def sensed(sense: str) -> Sequences | Images | Sounds:
    if sense == "text":
        return sequences(7, 4, 1, vocabulary=17)
    return images() if sense == "image" else sounds(131, 61, 3)


def batch(first: str, second: str) -> Labelled:
    return Labelled(Both(sensed(first), sensed(second)), torch.tensor([2, 0, 1]))


def one(data: Sequences | Images | Sounds, row: int) -> Sequences | Images | Sounds:
    """A row without padding."""
    if isinstance(data, Images):
        return Images(data.pixels[row : row + 1])
    n = data.lengths[row : row + 1]
    if isinstance(data, Sounds):
        return Sounds(data.samples[row : row + 1, : int(n)], n)
    return Sequences(data.tokens[row : row + 1, : int(n)], n)


@pytest.mark.parametrize("asks", ASKS)
def test_one_sense_asks_another(asks: str) -> None:
    model = made(first="sound", second="text", asks=asks, pooling="mean").eval()
    data, answers = batch("sound", "text").inputs, []
    for row in range(3):
        sound, text = (
            encoder(one(side, row)).vectors
            for encoder, side in ((model.first, data.first), (model.second, data.second))
        )
        pooled = []
        for asking, x, memory in ((model.first_asks, sound, text), (model.second_asks, text, sound)):
            if asking is None:
                continue
            for block in asking.blocks:
                x = x + block.attention(block.around_attention.norm(x))
                x = x + block.cross(
                    block.around_cross.norm(x), memory, memory
                )  # Q of one, K and V of the other
                x = x + block.feedforward(block.around_feedforward.norm(x))
            pooled.append(asking.norm(x)[0].mean(0))
        if asks == "both":
            pooled.append(pooled[0] * pooled[1] / (1 + 1e-5))  # μ = 0 and σ² = 1 before any training
        answers.append(model.output(torch.cat(pooled)).log_softmax(-1))
    torch.testing.assert_close(model.predict(data), torch.stack(answers), rtol=0, atol=1e-5)


def test_vectors_are_compared_as_batch_norms_of_torch_would():
    ours, theirs = Alike(5).double(), [torch.nn.BatchNorm1d(5, affine=False).double() for _ in range(2)]
    made = torch.Generator().manual_seed(0)
    for _ in range(40):
        u, v = (3 + 2 * torch.randn(8, 5, dtype=torch.float64, generator=made) for _ in range(2))
        torch.testing.assert_close(ours(u, v), theirs[0](u) * theirs[1](v))
    ours.eval(), [norm.eval() for norm in theirs]
    torch.testing.assert_close(ours.mean[0], theirs[0].running_mean)
    torch.testing.assert_close(ours.variance[1], theirs[1].running_var * 7 / 8, rtol=0.05, atol=0)
    alone = torch.stack([ours(u[row, None], v[row, None])[0] for row in range(8)])
    torch.testing.assert_close(ours(u, v), alone)
    assert ours.train()(u[:1], v[:1]).isfinite().all()  # one row has no deviation


@pytest.mark.parametrize(("first", "second"), PAIRINGS)
@pytest.mark.parametrize("asks", ASKS)
def test_every_pairing_is_answered_seen_and_trained(first: str, second: str, asks: str) -> None:
    model, data = made(first=first, second=second, asks=asks), batch(first, second)
    with watch(model) as seen:
        answer = model.predict(data.inputs)
    assert answer.shape == (3, 3)
    names = [f"{side}.blocks.0.attention" for side in ("first", "second")]
    for side, own, other in (("first", first, second), ("second", second, first)):
        if asks in (side, "both"):
            parts = ("attention", "cross")
            names += [f"{side}_asks.blocks.{n}.{part}" for n in range(2) for part in parts]
            names.append(f"{side}_asks.pooling.attention")
            assert seen[f"{side}_asks.blocks.1.cross"].shape == (3, 2, SIZES[own], SIZES[other])
    assert seen.names == names
    unreached = parameters_without_gradient(model, model.loss(data).total)
    # Who only answers is asked for keys and values alone, so nothing but its own encoder is left out.
    assert unreached == []


@pytest.mark.parametrize(("first", "second"), [("text", "sound"), ("sound", "image"), ("text", "text")])
@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_rows_are_answered_alone_as_in_a_batch(first: str, second: str, pooling: str) -> None:
    model, data = made(first=first, second=second, pooling=pooling).eval(), batch(first, second).inputs
    together = model.predict(data)
    for row in range(3):
        alone = model.predict(Both(one(data.first, row), one(data.second, row)))
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-5)


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_padding_cannot_matter(norm: str, asks: str) -> None:
    model = shaken(Fusion(replace(SMALL, first="sound", second="text", asks=asks, norm=norm)))
    data, found = batch("sound", "text"), []
    with torch.no_grad():
        model.second.embedding.table[0] = float("nan")
    for filling, token in ((0.0, 0), (float("nan"), 5), (1e30, 7)):
        data.inputs.second.tokens[~data.inputs.second.real()] = token
        filled = Labelled(Both(noisy(data.inputs.first, filling), data.inputs.second), data.labels)
        model.zero_grad()
        loss = model.loss(filled).total
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, model.predict(filled.inputs), *grads])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    wider = Both(data.inputs.first, refilled(data.inputs.second, 17))
    torch.testing.assert_close(model.predict(wider), found[0][1], rtol=0, atol=1e-4)


def test_both_senses_matter() -> None:
    model, data = made(first="sound", second="image", asks="first"), batch("sound", "image").inputs
    before = model.predict(data)
    assert (model.predict(Both(data.first, images())) - before).abs().max() > 1e-4
    assert (model.predict(Both(sounds(131, 61, 3), data.second)) - before).abs().max() > 1e-4


def test_two_senses_come_in_equal_numbers_and_move_together() -> None:
    with pytest.raises(RegardError, match="3 of the first sense and 2 of the second"):
        Both(images(3), images(2))
    moved = Both(images(3), sensed("text")).to("cpu")
    assert len(moved) == 3
    assert isinstance(moved.second, Sequences)


def test_configs_survive_json_and_mistakes_are_named() -> None:
    for config in (SMALL, pico()):
        assert through_json(config) == config
        Fusion(config)
    with pytest.raises(RegardError, match="fusion_depth=0"):
        replace(SMALL, fusion_depth=0)
    with pytest.raises(RegardError, match="vocabulary=0"):
        Fusion(replace(SMALL, first="text", vocabulary=0))


def test_vectors_that_ask_are_standardised_as_torch_does_over_real_positions_alone() -> None:
    torch.manual_seed(3)
    ours, theirs = Standardised(5).double(), torch.nn.BatchNorm1d(5, affine=False).double()
    for lengths in ([7, 2, 4], [1, 6, 3]):
        vectors = 3 * torch.randn(3, 7, 5, dtype=torch.float64) + 2
        given = Encoded(vectors, torch.tensor(lengths))
        real = given.real()
        vectors[~real] = torch.nan  # padding cannot matter
        found = ours(given).vectors
        torch.testing.assert_close(found[real], theirs(vectors[real]))
        assert (found[~real] == 0).all()
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    ours.eval()
    alone = Encoded(vectors[:1, :1].clone(), torch.tensor([1]))
    torch.testing.assert_close(ours(alone).vectors, ours(given).vectors[:1, :1])  # whatever its company


def test_a_fusion_may_standardise_what_asks() -> None:
    model = made(first="sound", second="text", asks="first", standardise=True)
    assert not parameters_without_gradient(model, model.loss(batch("sound", "text")).total)
    assert model.first_asks is not None
    assert model.first_asks.standardised is not None
    assert model.first_asks.standardised.mean.abs().max() > 0
    assert made(first="sound", second="text", asks="first").first_asks.standardised is None


def test_statistics_are_saved_under_the_names_and_shapes_of_earlier_runs() -> None:
    shapes = {name: tuple(each.shape) for name, each in made(standardise=True).named_buffers()}
    statistics = {name: shape for name, shape in shapes.items() if name.endswith(("mean", "variance"))}
    assert statistics == {
        "first_asks.standardised.mean": (12,),
        "first_asks.standardised.variance": (12,),
        "second_asks.standardised.mean": (12,),
        "second_asks.standardised.variance": (12,),
        "alike.mean": (2, 12),
        "alike.variance": (2, 12),
    }
