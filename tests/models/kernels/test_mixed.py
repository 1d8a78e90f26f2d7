"""A whole Transformer in mixed precision through the kernels of training, against float64.

What decides for them asks for a GPU; for Triton's interpreter it is put off, and products with another dtype of output
are made by hand.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import linear
from regard.data.batches import Packed, Pairs
from regard.layers import residual
from regard.models.transformer import Transformer, TransformerConfig

pytestmark = pytest.mark.triton

SOURCES, TARGETS = [[5, 6, 7, 2], [4, 2], [9, 8, 2]], [[7, 2], [4, 5, 6, 2], [3, 2]]


def device() -> str:
    """Where tensors are made."""
    return torch.get_default_device().type


def model() -> Transformer:
    torch.manual_seed(1)
    sizes = {"width": 32, "heads": 4, "depth": 2, "decoder_depth": 2, "hidden_width": 48, "dropout": 0.0}
    with torch.device("cpu"):  # the same weights everywhere
        one = Transformer(TransformerConfig(**sizes, tied="all", source_vocabulary=12, target_vocabulary=12))  # type: ignore[arg-type]
    return one.to(device())


def packed(filling: int) -> Pairs[Any, Any]:
    sides = (Packed.of(SOURCES), Packed.of(TARGETS))
    return Pairs(*(side.filled_up(12 + filling, 12) if filling else side for side in sides))


@pytest.mark.parametrize("filling", [0, 4])
def test_loss_and_gradients_are_as_near_to_float64_as_torchs(
    filling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mm, calls = torch.mm, []

    def widened(a: Tensor, b: Tensor, **given: Any) -> Tensor:
        calls.extend(given.values())
        return mm(a, b, **given) if a.is_cuda else mm(a.to(given["out_dtype"]), b.to(given["out_dtype"]))

    exact = model().double()
    right = exact.loss(packed(0))
    right.total.backward()
    with monkeypatch.context() as without:
        for home in (linear, residual):
            without.setattr(home, "_mixed", lambda *_: False)
        torchs = error(model(), exact, packed(filling))
    if device() == "cpu":
        for home in (linear, residual):
            monkeypatch.setattr(home, "_mixed", lambda *_: True)
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16)
    monkeypatch.setattr(torch, "mm", widened)
    one = model()
    with torch.autocast(device(), torch.bfloat16):
        assert one.encode(packed(filling).source).dtype == torch.bfloat16
        torch.testing.assert_close(one.loss(packed(filling)).total.double(), right.total, rtol=1e-2, atol=0)
    ours = error(one, exact, packed(filling))
    assert len(calls) == 2 * 4 + 2 * 7  # one a linear map: keys and values of a memory are one
    assert ours < 0.03
    assert ours < 2 * torchs


def error(one: Transformer, exact: Transformer, batch: Pairs[Any, Any]) -> float:
    """How far the gradient of a batch in mixed precision is from that of float64, of its length."""
    with torch.autocast(device(), torch.bfloat16):
        loss = one.loss(batch)
    loss.total.backward()  # type: ignore[no-untyped-call]
    mine, right = (
        torch.cat([weight.grad.double().flatten() for weight in each.parameters() if weight.grad is not None])
        for each in (one, exact)
    )
    return float((mine - right).norm() / right.norm())
