"""The Vision Transformer against torch's encoder, and in every setting."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from layers.test_blocks import copy_attention
from models.samples import images, parameters_without_gradient, shaken, through_json
from torch import nn
from torch.nn import functional as F

from regard import RegardError, watch
from regard.data.batches import Images, Labelled
from regard.models.vision import Vision, VisionConfig, base, pico, small, tiny

SMALL = VisionConfig(
    channels=2,
    image_size=(6, 10),
    patch=(3, 2),
    widths=(5, 6),
    strides=(2, 1),
    units=1,
    width=16,
    heads=2,
    depth=2,
    hidden_width=23,
    dropout=0.0,
    classes=3,
)
POOLINGS = ["class-token", "attention", "mean"]
POSITIONS = ["learned", "sinusoidal", "gaussian", "rotary", "none"]
KINDS = ["patches", "convolutional"]


def made(**changes: Any) -> Vision:
    return shaken(Vision(replace(SMALL, **changes)).double())


def batch() -> Labelled:
    return Labelled(images(5), torch.tensor([2, 0, 1, 1, 2]))


@pytest.mark.parametrize("pooling", ["class-token", "mean"])
@pytest.mark.parametrize("before", [True, False])
def test_it_is_torchs_encoder_over_a_convolution(before: bool, pooling: str) -> None:
    ours = made(pooling=pooling, norm="before" if before else "after")
    settings: Any = {"dropout": 0.0, "batch_first": True, "norm_first": before, "dtype": torch.float64}
    layer = nn.TransformerEncoderLayer(16, 2, 23, activation=F.gelu, **settings)
    end = nn.LayerNorm(16, dtype=torch.float64) if before else None
    theirs = nn.TransformerEncoder(layer, 2, end, enable_nested_tensor=False)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    for mine, other in zip(ours.encoder.blocks, theirs.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        mine.feedforward.inner.load_state_dict(other.linear1.state_dict())
        mine.feedforward.outer.load_state_dict(other.linear2.state_dict())
        mine.around_attention.norm.load_state_dict(other.norm1.state_dict())
        mine.around_feedforward.norm.load_state_dict(other.norm2.state_dict())
    if end is not None:
        ours.encoder.norm.load_state_dict(end.state_dict())
    pictures = images()
    projection = ours.encoder.tokens.cut.projection
    kernel = projection.weight.view(16, 2, 3, 2)
    x = F.conv2d(2 * pictures.pixels.double() - 1, kernel, projection.bias, stride=(3, 2)).flatten(2).mT
    x = x + ours.encoder.tokens.positions.table.reshape(10, 16)
    if pooling == "class-token":
        x = torch.cat([ours.encoder.class_token.expand(3, 1, 16), x], dim=1)
    y = theirs(x)
    expected = ours.output(y[:, 0] if pooling == "class-token" else y.mean(1)).log_softmax(-1)
    torch.testing.assert_close(ours.predict(pictures), expected, rtol=0, atol=1e-10)


def test_every_setting_changes_the_answer() -> None:
    pictures, answers = images(), []
    for changes in [
        *({"positions": positions} for positions in POSITIONS),
        *({"pooling": pooling} for pooling in POOLINGS[1:]),
        {"tokens": "convolutional"},
        {"tokens": "convolutional", "positions": "rotary", "pooling": "mean"},
    ]:
        torch.manual_seed(3)
        answers.append(made(**changes).predict(pictures)[0])
    for i, one in enumerate(answers):
        assert all((one - other).abs().max() > 1e-5 for other in answers[:i])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_the_gradient_reaches_every_parameter(positions: str, pooling: str, kind: str) -> None:
    model = made(positions=positions, pooling=pooling, tokens=kind)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_picture_is_answered_alone_as_in_a_batch(pooling: str, kind: str) -> None:
    model, pictures = made(pooling=pooling, tokens=kind).eval(), images(5)
    together = model.predict(pictures)
    for row in range(5):
        alone = model.predict(Images(pictures.pixels[row : row + 1]))[0]
        torch.testing.assert_close(alone, together[row], rtol=0, atol=1e-12)


def test_every_attention_is_seen_by_name() -> None:
    for pooling, last, tokens in [("class-token", [], 11), ("attention", ["pooling.attention"], 10)]:
        model = made(pooling=pooling)
        with watch(model) as seen:
            model.predict(images())
        assert seen.names == ["encoder.blocks.0.attention", "encoder.blocks.1.attention", *last]
        assert seen["encoder.blocks.1.attention"].shape == (3, 2, tokens, tokens)


def test_mixup_is_for_training_alone() -> None:
    model, data = made(mixup=0.4), batch()
    plain = made()
    plain.load_state_dict(model.state_dict())
    assert model.loss(data).total != plain.loss(data).total
    torch.manual_seed(1)
    one = model.loss(data).total
    torch.manual_seed(1)
    assert torch.equal(model.loss(data).total, one)
    assert torch.equal(model.eval().loss(data).total, plain.eval().loss(data).total)


def test_stochastic_depth_grows_from_block_to_block_and_is_for_training_alone() -> None:
    model, pictures = made(stochastic_depth=0.5), images()
    rates = [
        around.depth.skip
        for block in model.encoder.blocks
        for around in (block.around_attention, block.around_feedforward)
    ]
    assert rates == [0.25, 0.25, 0.5, 0.5]
    assert not torch.equal(model.predict(pictures), model.predict(pictures))
    model.eval()
    assert torch.equal(model.predict(pictures), model.predict(pictures))


def test_the_loss_is_that_of_the_predictions() -> None:
    model, data = made(smoothing=0.1), batch()
    expected = F.cross_entropy(model.scores(data.inputs), data.labels, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(model.loss(data).total, expected, rtol=0, atol=1e-12)
    assert model.loss(data).count.item() == 5


def test_it_learns_where_a_dot_is() -> None:
    pixels = torch.zeros(16, 1, 8, 8)
    labels = torch.arange(16) % 4
    for number, corner in enumerate(labels.tolist()):
        row, column = divmod(corner, 2)
        pixels[number, 0, 4 * row + number % 3, 4 * column + number // 6] = 1.0
    model = Vision(replace(pico(), classes=4, depth=1, pooling="mean"))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        loss = model.loss(Labelled(Images(pixels), labels))
        optimiser.zero_grad()
        loss.total.backward()
        optimiser.step()
    assert (model.eval().predict(Images(pixels)).argmax(-1) == labels).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_mixed_precision_changes_little(positions: str) -> None:
    model, data = made(positions=positions).float(), batch()
    exact = model.predict(data.inputs)
    with torch.autocast(exact.device.type, torch.bfloat16):
        model.loss(data).total.backward()
        rough = model.predict(data.inputs)
    assert (rough.float() - exact).abs().max() < 0.2


@pytest.mark.parametrize(("preset", "millions"), [(pico, 0.136), (tiny, 5.7), (small, 22.1), (base, 86.6)])
def test_presets_have_the_sizes_of_the_papers_and_survive_json(preset: Any, millions: float) -> None:
    config = preset()
    assert through_json(config) == config
    with torch.device("meta"):
        model = Vision(config if config.width == 64 else replace(config, classes=1000))
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match=r"mixup=-1"):
        replace(SMALL, mixup=-1)
    with pytest.raises(RegardError, match="6 × 10 does not divide into patches of 4 × 2"):
        Vision(replace(SMALL, patch=(4, 2)))
    with pytest.raises(RegardError, match="pooling='sum': one of 'class-token', 'attention', 'mean'"):
        replace(SMALL, pooling="sum")
