"""Residuals against their equations."""

import pytest
import torch
from torch import Tensor, nn

from regard.layers.residual import Residual, after, before, inside


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_the_three_placements_of_a_norm(norm) -> None:  # type: ignore[no-untyped-def]
    x, w = torch.randn(4, 6), torch.randn(6, 6)

    def layer(y: Tensor) -> Tensor:
        return y @ w

    def written(y: Tensor) -> Tensor:
        if norm is nn.RMSNorm:
            return y / (y.square().mean(-1, keepdim=True) + torch.finfo(y.dtype).eps).sqrt()
        return (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()

    for placement, expected in (
        (before, x + layer(written(x))),
        (after, written(x + layer(x))),
        (inside, x + written(layer(x))),
    ):
        torch.testing.assert_close(Residual(6, placement=placement, norm=norm)(x, layer), expected)


def test_dropout_of_a_residual_spares_the_way_around() -> None:
    residual = Residual(6, dropout=0.5)
    x = torch.randn(1000, 6)
    added = residual(x, torch.ones_like) - x
    assert added.round().unique().tolist() == [0, 2]
    torch.testing.assert_close(added, added.round())
