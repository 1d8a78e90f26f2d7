"""The heaviest keys of each query, where they lie close together, and entries that are gone over beside one another."""

import pytest
import torch
from sight.kernels.test_planner import close, random_call, written

from regard import Call, causal
from regard.sight import evidence
from regard.sight.kernels.kernel_mask import kernel_call

pytestmark = pytest.mark.triton


@pytest.mark.parametrize(
    "columns",
    [
        [0, 1, 8, 9, 16, 17, 24, 25],  # all that a lane has of half a tile
        [2, 3, 10, 11, 34, 35, 42, 43],  # of both halves
        [4, 5, 12, 36, 68, 69, 100, 132],  # of several tiles
        [6, 15, 38, 47, 70, 79, 102, 111],  # of two lanes
    ],
    ids=str,
)
@pytest.mark.parametrize("parts", [1, 2])
def test_keys_of_one_lane(columns: list[int], parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.sight.kernels import launch, tilings  # wants Triton

    monkeypatch.setattr(tilings, "PAIRED", 1000 if parts == 2 else 0)
    call = Call(torch.ones(1, 1, 20, 16).half(), (torch.randn(1, 1, 150, 16) / 8).half())
    call.key[0, 0, columns] = torch.linspace(1.0, 1.7, 8)[:, None].half()
    told, weights = kernel_call(call), written(call)
    for level in (None, launch.look(told).level):
        assert tilings.tiling_of(told, "top").parts == parts
        found = launch.look(told, level, top=8)
        assert (found.keys == torch.tensor(columns[::-1])).all()
        close(found.weights, weights[0].topk(8).values)


@pytest.mark.parametrize("cached", [0, 3, 100], ids=["alone", "three of four", "all"])
def test_entries_beside_one_another(cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.sight.kernels import launch  # wants Triton

    call = random_call(causal(), torch.float16, kv_heads=2)
    monkeypatch.setattr(launch, "CACHED", cached * call.key[0, 0].nbytes)
    assert launch._beside(kernel_call(call), call.key) == {0: 1, 3: 3, 100: 4}[cached]
    weights = written(call)
    summing, ranking, pooling = (
        evidence.Summing(call),
        evidence.Ranking(call, 3),
        evidence.Pooling(call, 4, 4),
    )
    evidence.ask(call, summing, ranking, pooling)
    summary = summing.answer()
    close(summary.entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(summary.received, weights.sum(-2), atol=2e-5)
    close(ranking.answer()[1], weights.topk(3).values)
    evidence.ask(call, summing, level=summary.logsumexp)
    close(summing.answer().received, weights.sum(-2), atol=2e-5)
