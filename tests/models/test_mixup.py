"""Mixup: shares, partners, and a loss against torch's for soft labels."""

import pytest
import torch
from models.samples import images
from torch.nn import functional as F

from regard import RegardError
from regard.data.batches import Labelled, Sounds
from regard.models.mixup import mixed


def batch(count: int = 7) -> Labelled:
    return Labelled(images(count), torch.arange(count) % 3)


def test_a_mixed_picture_is_two_pictures_of_the_batch() -> None:
    data = batch()
    mix = mixed(data, 0.8)
    pixels = data.inputs.pixels
    for row in range(7):
        share = mix.share[row]
        candidates = [
            other
            for other in range(7)
            if torch.allclose(
                mix.inputs.pixels[row], share * pixels[row] + (1 - share) * pixels[other], atol=1e-6
            )
        ]
        assert len(candidates) == 1
        assert mix.other[row] == data.labels[candidates[0]]
    assert torch.equal(mix.own, data.labels)


def test_a_mixed_recording_is_two_heard_at_once_whatever_is_in_the_padding() -> None:
    lengths = torch.tensor([5, 3, 8, 1])
    samples = torch.randn(4, 8)
    samples[torch.arange(8) >= lengths[:, None]] = torch.nan
    data = Labelled(Sounds(samples, lengths), torch.arange(4))
    mix = mixed(data, 0.8)
    for row in range(4):
        other, share = int(mix.other[row]), float(mix.share[row])
        expected = torch.zeros(8)
        expected[: lengths[row]] += share * samples[row, : lengths[row]]
        expected[: lengths[other]] += (1 - share) * samples[other, : lengths[other]]
        torch.testing.assert_close(mix.inputs.samples[row], expected)
        assert mix.inputs.lengths[row] == max(lengths[row], lengths[other])
    assert {*mix.other.tolist()} == {0, 1, 2, 3}


def test_the_loss_is_the_cross_entropy_of_soft_labels() -> None:
    mix, scores = mixed(batch(), 1.0), torch.randn(7, 3).double()
    soft = mix.share[:, None] * F.one_hot(mix.own, 3) + (1 - mix.share[:, None]) * F.one_hot(mix.other, 3)
    for smoothing in (0.0, 0.1):
        expected = F.cross_entropy(scores, soft.double(), label_smoothing=smoothing, reduction="sum")
        loss = mix.loss(scores, smoothing=smoothing)
        torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-6)
        assert loss.count.item() == 7
        torch.testing.assert_close(loss.metrics["nll"], mix.loss(scores).total)
        assert loss.metrics["correct"] == (scores.argmax(-1) == mix.own).sum()


def test_shares_follow_beta_folded_at_a_half() -> None:
    share = mixed(Labelled(images(4000, size=(1, 1)), torch.zeros(4000, dtype=torch.long)), 0.5).share
    assert share.min() >= 0.5
    # Of Beta(½, ½), the arcsine law, P(λ < x) = 2/π asin √x; the larger part is above ¾ twice as often as λ is.
    expected = 2 * (1 - 2 / torch.pi * torch.asin(torch.tensor(0.75).sqrt()).item())
    assert (share > 0.75).double().mean().item() == pytest.approx(expected, abs=0.03)


def test_it_follows_from_torchs_seed() -> None:
    data, found = batch(), []
    for _ in range(2):
        torch.manual_seed(5)
        found.append(mixed(data, 0.3).inputs.pixels)
    assert torch.equal(*found)
    assert not torch.equal(mixed(data, 0.3).inputs.pixels, found[0])


def test_a_share_needs_a_law() -> None:
    with pytest.raises(RegardError, match=r"mixup=0\.0"):
        mixed(batch(), 0.0)
