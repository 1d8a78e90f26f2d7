"""Biases against numbers from their papers and against loops."""

import math

import pytest
import torch

from regard import ALiBi, Call, RegardError, RelativeBuckets, TensorBias, attend, weigh


def test_the_slopes_of_alibi_are_those_of_the_paper() -> None:
    # Section 3 of the paper: for 8 heads 1/2, 1/4, … 1/256.
    torch.testing.assert_close(ALiBi(8).slopes(), 0.5 ** torch.arange(1, 9).float())
    sixteen = ALiBi(16).slopes()
    torch.testing.assert_close(sixteen, 2 ** (-torch.arange(1, 17) / 2))
    # Twelve: the eight of 8 heads, then every other of 16 heads from the first.
    torch.testing.assert_close(ALiBi(12).slopes(), torch.cat([ALiBi(8).slopes(), sixteen[0:8:2]]))


def test_alibi_falls_with_distance() -> None:
    bias = ALiBi(2).dense(3, 3)
    assert bias.shape == (2, 3, 3)
    slope = 2**-4
    torch.testing.assert_close(bias[0], -slope * torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]))


def bucket_by_hand(ahead: int, buckets: int, far: int, two_way: bool) -> int:
    """One distance at a time, with exact logarithms."""
    start = 0
    if two_way:
        buckets //= 2
        start = buckets if ahead > 0 else 0
        distance = abs(ahead)
    else:
        distance = max(-ahead, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    steps = math.floor(math.log(distance / exact) / math.log(far / exact) * (buckets - exact) + 1e-9)
    return start + min(exact + steps, buckets - 1)


@pytest.mark.parametrize(("buckets", "far", "two_way"), [(32, 128, True), (32, 128, False), (8, 20, True)])
def test_buckets_widen_with_distance(buckets: int, far: int, two_way: bool) -> None:
    bias = RelativeBuckets(2, buckets=buckets, far=far, two_way=two_way)
    ahead = torch.arange(-300, 301)
    by_hand = [bucket_by_hand(int(a), buckets, far, two_way) for a in ahead]
    found = bias.bucket(ahead)
    # A distance that lies on the edge of a bucket may fall to either side in float32.
    differ = [(int(a), int(f), h) for a, f, h in zip(ahead, found, by_hand, strict=True) if f != h]
    assert all(abs(f - h) == 1 for _, f, h in differ)
    assert len(differ) <= 4
    assert found.min() == 0
    assert found.max() == buckets - 1


def test_relative_buckets_give_each_head_its_own_number() -> None:
    bias = RelativeBuckets(3, buckets=8, far=16)
    matrix = bias.dense(5, 7)
    for i, j in [(0, 0), (4, 1), (1, 6)]:
        torch.testing.assert_close(matrix[:, i, j], bias.table[bias.bucket(torch.tensor(j - i))])


def test_a_learned_bias_gets_a_gradient_and_a_frozen_one_runs_fused() -> None:
    bias = RelativeBuckets(2, buckets=8, far=16)
    assert bias.learned
    query = torch.randn(1, 2, 5, 4)
    attend(Call(query, query, bias=bias), query).square().sum().backward()
    assert bias.table.grad is not None
    assert bias.table.grad.abs().sum() > 0
    bias.requires_grad_(False)
    assert not bias.learned


def test_a_bias_is_added_after_the_scale() -> None:
    query, key, bias = torch.randn(3, 4).double(), torch.randn(5, 4).double(), torch.randn(3, 5).double()
    by_hand = torch.softmax(query @ key.T / 2 * 0.1 + bias, -1)
    torch.testing.assert_close(weigh(query, key, bias=bias, scale=0.1), by_hand)


def test_a_shifted_bias_speaks_of_later_queries() -> None:
    for bias in (ALiBi(2), RelativeBuckets(2, buckets=8, far=16)):
        torch.testing.assert_close(bias.shifted(3).dense(2, 5), bias.dense(5, 5)[:, 3:])


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TensorBias(torch.ones(2, 2).bool()), "torch.bool of shape.*keep"),
        (
            lambda: weigh(torch.ones(3, 2), torch.ones(4, 2), bias=torch.ones(3, 5)),
            "3 queries and 5 keys.* 3 and 4",
        ),
        (
            lambda: weigh(torch.ones(2, 2, 3, 2), torch.ones(2, 2, 4, 2), bias=torch.ones(2, 3, 4)),
            "give it 2 or 4 axes",
        ),
        (lambda: RelativeBuckets(2, buckets=32, far=4), "far=4"),
    ],
)
def test_a_bias_that_does_not_fit_is_named(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=said):
        make()
