"""Pictures as tokens, with positions of every kind, and sizes other than those of training."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from models.samples import images, shaken

from regard import RegardError, weigh
from regard.data.batches import Images
from regard.layers.convolution import Convolutional
from regard.layers.embedding import Sinusoidal
from regard.layers.patches import Patches
from regard.models.seeing import PictureEncoder, PictureStackConfig, PictureTokens

SMALL = PictureStackConfig(
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
)
POSITIONS = ["learned", "sinusoidal", "gaussian", "rotary", "none"]


def tokens(**changes: Any) -> PictureTokens:
    config = replace(SMALL, **changes)
    return PictureTokens(config, config.width, positions=config.positions).double()


@pytest.mark.parametrize("kind", ["patches", "convolutional"])
def test_tokens_are_cut_from_pixels_around_zero(kind: str) -> None:
    layer, pictures = tokens(tokens=kind, positions="none"), images()
    assert isinstance(layer.cut, Patches if kind == "patches" else Convolutional)
    assert torch.equal(layer(pictures), layer.cut(2 * pictures.pixels.double() - 1))


def test_positions_are_those_of_rows_and_columns() -> None:
    pictures = images()
    bare, added = tokens(positions="none"), tokens(positions="sinusoidal")
    added.load_state_dict(bare.state_dict())
    difference = (added(pictures) - bare(pictures))[1]
    row, column = 1, 3
    expected = torch.cat([Sinusoidal(8)(torch.tensor(row)), Sinusoidal(8)(torch.tensor(column))])
    torch.testing.assert_close(difference[row * 5 + column], expected.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["patches", "convolutional"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "gaussian", "none"])
def test_pictures_may_have_any_size_that_can_be_cut(kind: str, positions: str) -> None:
    encoder = PictureEncoder(replace(SMALL, tokens=kind, positions=positions), class_token=True)
    found = encoder(images(size=(9, 14)))
    assert found.vectors.shape == (3, 1 + (21 if kind == "patches" else 35), 16)
    assert found.lengths.tolist() == [found.vectors.shape[1]] * 3


def test_rotary_positions_take_any_height_and_one_width() -> None:
    encoder = PictureEncoder(replace(SMALL, positions="rotary"))
    assert encoder(images(size=(9, 10))).vectors.shape == (3, 15, 16)
    with pytest.raises(RegardError, match="7 tokens wide, and positions='rotary' for 5"):
        encoder(images(size=(6, 14)))


@pytest.mark.parametrize("class_token", [True, False])
def test_rotary_scores_know_rows_and_columns_with_or_without_a_class_token(class_token: bool) -> None:
    encoder = PictureEncoder(replace(SMALL, positions="rotary"), class_token=class_token).double()
    grey = Images(torch.full((1, 2, 6, 10), 0.3))  # all patches alike, so scores tell of places alone
    x = encoder.tokens(grey)
    if encoder.class_token is not None:
        x = torch.cat([encoder.class_token.expand(1, 1, -1), x], dim=1)
    call = encoder.blocks[0].attention.call(encoder.blocks[0].around_attention.norm(x))
    scores = weigh(call).log()[0, 0].detach()
    lead = int(class_token)

    def between(one: tuple[int, int], other: tuple[int, int]) -> float:
        i, j = (lead + r * 5 + c for r, c in (one, other))
        return float(scores[i, j] - scores[i, i])

    assert between((0, 0), (1, 2)) == pytest.approx(between((0, 2), (1, 4)), abs=1e-12)
    assert abs(between((0, 0), (0, 1)) - between((0, 0), (1, 0))) > 1e-6


@pytest.mark.parametrize("positions", POSITIONS)
def test_only_without_positions_may_patches_change_places(positions: str) -> None:
    encoder = shaken(PictureEncoder(replace(SMALL, positions=positions)).double())
    pictures = images(1)
    swapped = pictures.pixels.clone()
    swapped[..., :3, :2], swapped[..., 3:, 8:] = pictures.pixels[..., 3:, 8:], pictures.pixels[..., :3, :2]
    one, other = encoder(pictures).vectors[0], encoder(Images(swapped)).vectors[0]
    order = torch.arange(10)
    order[0], order[9] = 9, 0
    same = (one - other[order]).abs().max().item() < 1e-9
    assert same is (positions == "none")


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("positions", ["alibi", "relative"])
def test_distances_along_a_text_are_refused(positions: str) -> None:
    with pytest.raises(RegardError, match=f"positions='{positions}': a distance along a text"):
        replace(SMALL, positions=positions)
