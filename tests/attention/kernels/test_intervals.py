"""The kernel of stretches, against weights written out in float64. Sequences cross tiles and end inside them."""

import pytest
import torch
from torch import Tensor

from regard.attention.packing import Packing, Packs

pytestmark = pytest.mark.triton

LENGTHS = [3, 70, 5, 1, 40]
MEMORIES = [9, 0, 3, 50, 20]


def stretches(queries: list[int], keys: list[int] | None = None, *, back: bool = False, filling: int = 0):
    from regard.attention.kernels.intervals import Stretches

    asking = Packing.of(torch.tensor(queries), size=sum(queries) + filling)
    asked = asking if keys is None else Packing.of(torch.tensor(keys), size=sum(keys) + filling)
    packs = Packs(asking, asked)
    last, asked_first = (packs.until, packs.since) if back else (packs.last, packs.turned.first)
    return Stretches(packs.first, last, asked_first, packs.turned.last)


def written(query: Tensor, key: Tensor, value: Tensor, limits, scale: float) -> Tensor:
    group = query.shape[1] // key.shape[1]
    column = torch.arange(key.shape[0])
    seen = (column >= limits.first[:, None]) & (column < limits.last[:, None])
    scores = torch.einsum("qhd,khd->hqk", query, key.repeat_interleave(group, 1)) * scale
    weights = scores.masked_fill(~seen, -1e300).softmax(-1) * seen
    return torch.einsum("hqk,khd->qhd", weights, value.repeat_interleave(group, 1))


CASES = {
    "itself": (stretches, (LENGTHS,), {}),
    "back, filled up": (stretches, (LENGTHS,), {"back": True, "filling": 7}),
    "a memory": (stretches, (LENGTHS, MEMORIES), {}),
    "a memory, filled up": (stretches, ([3, 7, 0, 5, 90], MEMORIES), {"filling": 3}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("heads", "kv_heads", "width", "value_width"), [(2, 2, 16, 16), (4, 2, 24, 9)])
def test_output_and_gradients_are_those_of_the_equation(
    case: str, heads: int, kv_heads: int, width: int, value_width: int
) -> None:
    from regard.attention.kernels.intervals import attend_stretches

    make, lengths, options = CASES[case]
    limits = make(*lengths, **options)
    queries, keys = len(limits.first), len(limits.asked_first)
    shapes = [(queries, heads, width), (keys, kv_heads, width), (keys, kv_heads, value_width)]
    parts = [torch.randn(shape, requires_grad=True) for shape in shapes]
    exact = [part.detach().double().requires_grad_() for part in parts]
    mixed = attend_stretches(*parts, limits, scale=0.3)
    right = written(*exact, limits, 0.3)
    torch.testing.assert_close(mixed.double(), right, rtol=1e-4, atol=1e-5)
    slope = torch.randn_like(mixed)
    found = torch.autograd.grad(mixed, parts, slope)
    for mine, other in zip(found, torch.autograd.grad(right, exact, slope.double()), strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-4, atol=1e-5)


def test_both_passes_drop_the_same_weights() -> None:
    from regard.attention.kernels.intervals import attend_stretches

    limits = stretches([5, 9], back=True)
    parts = [torch.randn(14, 2, 8, requires_grad=True) for _ in range(3)]
    steps = [torch.randn_like(part) for part in parts]
    slope = torch.randn(14, 2, 8)

    def total(*some: Tensor) -> Tensor:
        torch.manual_seed(7)
        return (attend_stretches(*some, limits, scale=0.3, dropout=0.4) * slope).sum()

    along = sum((a * b).sum() for a, b in zip(torch.autograd.grad(total(*parts), parts), steps, strict=True))
    with torch.no_grad():
        ahead, behind = (
            total(*(a + sign * 1e-2 * b for a, b in zip(parts, steps, strict=True))) for sign in (1, -1)
        )
    torch.testing.assert_close(along, (ahead - behind) / 2e-2, rtol=1e-2, atol=1e-2)


def test_that_share_of_the_weights_is_dropped() -> None:
    from regard.attention.kernels.intervals import attend_stretches

    limits = stretches([200])
    nothing, one = torch.zeros(200, 2, 16), torch.ones(200, 2, 16)
    mixed = attend_stretches(nothing, nothing, one, limits, scale=1.0, dropout=0.25)
    assert mixed.mean().item() == pytest.approx(1, abs=0.02)
    share = (mixed[..., 0] * 0.75 * 200).round() / 200  # of the weights that stayed
    assert share.mean().item() == pytest.approx(0.75, abs=0.02)
