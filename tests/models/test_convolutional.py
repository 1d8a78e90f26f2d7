"""The convolutional network: the same protocol and size as the Vision Transformer, another inside."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from models.samples import images, parameters_without_gradient, shaken, through_json
from torch.nn import functional as F

from regard import RegardError, watch
from regard.data.batches import Images, Labelled
from regard.models import convolutional, vision
from regard.models.convolutional import Convolution, ConvolutionConfig
from regard.models.vision import Vision, VisionConfig

SMALL = ConvolutionConfig(
    channels=2, image_size=(6, 10), widths=(5, 6), strides=(1, 2), units=2, dropout=0.0, classes=3
)


def made(**changes: Any) -> Convolution:
    return shaken(Convolution(replace(SMALL, **changes)).double())


def batch() -> Labelled:
    return Labelled(images(5), torch.tensor([2, 0, 1, 1, 2]))


def test_scores_are_a_map_of_the_mean_feature() -> None:
    model, pictures = made(), images()
    maps = model.features(2 * pictures.pixels.double() - 1)
    expected = model.output(torch.stack([each.flatten(1).mean(1) for each in maps])).log_softmax(-1)
    torch.testing.assert_close(model.predict(pictures), expected, rtol=0, atol=1e-12)
    with watch(model) as seen:
        model.predict(pictures)
    assert len(seen) == 0


def test_the_loss_is_that_of_the_predictions_and_reaches_every_parameter() -> None:
    model, data = made(smoothing=0.1), batch()
    expected = F.cross_entropy(model.scores(data.inputs), data.labels, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(model.loss(data).total, expected, rtol=0, atol=1e-12)
    assert parameters_without_gradient(model, model.loss(data).total) == []


def test_a_picture_is_answered_alone_as_in_a_batch_even_while_training() -> None:
    model, pictures = made().train(), images(5)
    together = model.predict(pictures)
    for row in range(5):
        alone = model.predict(Images(pictures.pixels[row : row + 1]))[0]
        torch.testing.assert_close(alone, together[row], rtol=0, atol=1e-12)


def test_mixup_and_stochastic_depth_are_for_training_alone() -> None:
    model, data = made(mixup=0.4, stochastic_depth=0.5), batch()
    plain = made()
    plain.load_state_dict(model.state_dict())
    assert model.loss(data).total != plain.loss(data).total
    assert torch.equal(model.eval().loss(data).total, plain.eval().loss(data).total)


@pytest.mark.parametrize("name", ["pico", "tiny", "small", "base"])
def test_presets_are_as_large_as_the_vision_transformers(name: str) -> None:
    config = getattr(convolutional, name)()
    assert through_json(config) == config
    with torch.device("meta"):
        ours, theirs = Convolution(config), Vision(getattr(vision, name)())
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, theirs)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.05)


def test_a_recipe_changes_one_line() -> None:
    shared = {field.name for field in fields(ConvolutionConfig)}
    assert shared <= {field.name for field in fields(VisionConfig)}


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match=r"stochastic_depth=1\.0"):
        replace(SMALL, stochastic_depth=1.0)
    with pytest.raises(RegardError, match="classes=0"):
        replace(SMALL, classes=0)
