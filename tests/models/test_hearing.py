"""The encoder of sounds and the classifier over it: padding, positions, and torch's encoder."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from layers.test_blocks import copy_attention
from models.samples import noisy, parameters_without_gradient, shaken, sounds, through_json
from torch import nn

from regard import RegardError, watch
from regard.data.batches import Labelled, Sounds
from regard.layers.embedding import Sinusoidal
from regard.models.hearing import Hearing, HearingConfig, pico

SMALL = HearingConfig(
    rate=800,
    window=23,
    hop=7,
    bands=5,
    width=12,
    heads=2,
    depth=2,
    hidden_width=23,
    dropout=0.0,
    classes=3,
    longest=20,
)
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"]


def made(**changes: Any) -> Hearing:
    return shaken(Hearing(replace(SMALL, **changes)).double())


def batch() -> Labelled:
    return Labelled(sounds(131, 61, 23, 3), torch.tensor([2, 0, 1, 1]))


def test_it_is_torchs_encoder_over_frames() -> None:
    ours, heard = made(pooling="mean"), batch().inputs
    settings: Any = {"dropout": 0.0, "batch_first": True, "norm_first": True, "dtype": torch.float64}
    end = nn.LayerNorm(12, dtype=torch.float64)
    layer = nn.TransformerEncoderLayer(12, 2, 23, **settings)
    theirs = nn.TransformerEncoder(layer, 2, end, enable_nested_tensor=False)
    for mine, other in zip(ours.encoder.blocks, theirs.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        mine.feedforward.inner.load_state_dict(other.linear1.state_dict())
        mine.feedforward.outer.load_state_dict(other.linear2.state_dict())
        mine.around_attention.norm.load_state_dict(other.norm1.state_dict())
        mine.around_feedforward.norm.load_state_dict(other.norm2.state_dict())
    ours.encoder.norm.load_state_dict(end.state_dict())
    x, count = ours.encoder.frames(heard.samples, heard.lengths)
    x = x + Sinusoidal(12)(torch.arange(x.shape[1]))
    y = theirs(x, src_key_padding_mask=torch.arange(x.shape[1]) >= count[:, None])
    pooled = torch.stack([row[:n].mean(0) for row, n in zip(y, count.tolist(), strict=True)])
    expected = ours.output(pooled).log_softmax(-1)
    torch.testing.assert_close(ours.predict(heard), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("pooling", ["attention", "mean"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_recording_is_answered_alone_as_in_a_batch(positions: str, pooling: str) -> None:
    model, heard = made(positions=positions, pooling=pooling), batch().inputs
    together = model.predict(heard)
    for row, n in enumerate(heard.lengths.tolist()):
        alone = model.predict(Sounds(heard.samples[row : row + 1, :n], heard.lengths[row : row + 1]))
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pooling", ["attention", "mean"])
@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_padding_cannot_matter_to_the_bit(norm: str, pooling: str) -> None:
    model, data, found = shaken(Hearing(replace(SMALL, norm=norm, pooling=pooling))), batch(), []
    for filling in (0.0, float("nan"), 1e30):
        model.zero_grad()
        filled = noisy(data.inputs, filling)
        loss = model.loss(Labelled(filled, data.labels)).total
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, model.predict(filled), *grads])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_gradient_reaches_every_parameter(positions: str) -> None:
    # Of a learned or relative position only what the recordings reach is trained.
    model = made(positions=positions)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_every_attention_is_seen_by_name() -> None:
    model = made()
    with watch(model) as seen:
        model.predict(batch().inputs)
    assert seen.names == ["encoder.blocks.0.attention", "encoder.blocks.1.attention", "pooling.attention"]
    assert seen["encoder.blocks.1.attention"].shape == (4, 2, 10, 10)


def test_order_matters_with_positions() -> None:
    heard = sounds(140)
    backwards = Sounds(torch.where(heard.samples != 0, heard.samples.flip(1), 0.0), heard.lengths)
    model = made(pooling="mean")
    assert (model.predict(heard) - model.predict(backwards)).abs().max() > 1e-4


def test_configs_survive_json_and_mistakes_are_named() -> None:
    for config in (SMALL, pico()):
        assert through_json(config) == config
        Hearing(config)
    with pytest.raises(RegardError, match="bands=80"):
        replace(SMALL, bands=80)
    with pytest.raises(RegardError, match="classes=0"):
        replace(SMALL, classes=0)
