"""Feed-forward maps against their equations."""

import torch

from regard.layers.feedforward import FeedForward, SwiGLU


def test_feed_forward_maps_are_their_equations() -> None:
    x = torch.randn(3, 5, 4)
    plain, gated = FeedForward(4, 7), SwiGLU(4, 7)
    torch.testing.assert_close(
        plain(x),
        torch.clamp_min(x @ plain.inner.weight.T + plain.inner.bias, 0) @ plain.outer.weight.T
        + plain.outer.bias,
    )
    gate = x @ gated.gate.weight.T
    torch.testing.assert_close(
        gated(x), (gate / (1 + torch.exp(-gate)) * (x @ gated.inner.weight.T)) @ gated.outer.weight.T
    )
