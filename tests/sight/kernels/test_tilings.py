"""How bands of a map and tiles of queries may meet, against weights written out in float64."""

import pytest
import torch
from contracts.test_6_evidence import pooled_by_hand
from sight.kernels.test_planner import close, written

from regard import Call, causal
from regard.sight.kernels.kernel_mask import kernel_call

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("mask", [None, causal()], ids=repr)
@pytest.mark.parametrize(
    "size",
    [None, (4, 4), (2, 4), (1, 2), (3, 4)],
    ids=["no map", "a band is a tile", "two tiles", "all tiles", "one and a third"],
)
def test_bands_and_tiles(size: tuple[int, int] | None, mask) -> None:
    from regard.sight.kernels import launch, tilings  # wants Triton

    query, key = (torch.randn(1, 2, 256, 24).half() for _ in range(2))
    call = Call(query, key, mask)
    told, weights = kernel_call(call), written(call)
    level = launch.look(told).level
    for tall in (64, 128):
        tiling = tilings._of(tall, 64, 4, 2)
        received, cells = launch.collect(told, level, size, tiling=tiling)
        close(received, weights[0].sum(-2), atol=2e-5)
        if size is not None and 256 % size[0] == 0:
            close(cells * size[0] / 256, pooled_by_hand(weights, *size)[0])
