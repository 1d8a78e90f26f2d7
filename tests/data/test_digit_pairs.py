import numpy as np
import pytest
import torch

from regard import RegardError
from regard.data.augment import Jitter, SoundJitter
from regard.data.batches import Feed
from regard.data.digit_pairs import DIFFERENT, SAME, DigitMatchFeed, Senses
from regard.data.draws import uniform

SHOWN = torch.tensor([n % 10 for n in range(70)])
SAID = torch.tensor([n * 3 % 10 for n in range(40)])
PIXELS = (
    (torch.arange(70) / 100)[:, None, None, None].expand(70, 1, 3, 4).contiguous()
)  # a picture tells its number
SOUNDS = [torch.full((5 + n,), n / 100) for n in range(40)]
SENSES = Senses(pixels=PIXELS, shown=SHOWN, sounds=SOUNDS, said=SAID)


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pictures, sounds, labels = DigitMatchFeed(SENSES, seed=seed).drawn(range(count))
    return SHOWN[pictures].numpy(), SAID[sounds].numpy(), np.array(labels)


def test_the_label_says_whether_both_senses_bring_the_same_class():
    shown, said, labels = drawn(5_000)
    assert ((shown == said) == (labels == SAME)).all()
    assert (labels == SAME).sum() == 2_500


def test_neither_sense_alone_can_tell():
    """The best guess from one sense, found on these very samples, is hardly better than a coin."""
    shown, said, labels = drawn(40_000)
    for sense in (shown, said):
        counts = np.stack([np.bincount(sense[labels == label], minlength=10) for label in (DIFFERENT, SAME)])
        assert (abs(counts - 2_000) < 200).all()
        assert counts.max(0).sum() / 40_000 < 0.515


def test_every_picture_and_every_sound_is_met():
    pictures, sounds, _ = DigitMatchFeed(SENSES, seed=0).drawn(range(4_000))
    assert set(pictures) == set(range(70))
    assert set(sounds) == set(range(40))


def test_a_batch_holds_what_was_drawn_and_no_epoch_repeats_it():
    feed = DigitMatchFeed(SENSES, seed=2, rows=8, samples=20)
    assert isinstance(feed, Feed)
    assert [n for batch in feed.order(3) for n in batch] == [*range(60, 80)]
    samples = [*feed.order(3)[1]]
    pictures, sounds, labels = feed.drawn(samples)
    batch = feed.batch(samples).to("cpu")
    assert len(batch) == 8
    assert (batch.inputs.first.pixels[:, 0, 0, 0] * 100).round().int().tolist() == pictures
    assert (batch.inputs.second.lengths - 5).tolist() == sounds
    assert batch.labels.tolist() == labels
    one = feed.drawn(samples[3:4])
    assert one == ([pictures[3]], [sounds[3]], [labels[3]])


def test_both_senses_may_be_jittered():
    plain, moved = (
        DigitMatchFeed(SENSES, seed=2),
        DigitMatchFeed(SENSES, seed=2, jitter=Jitter(shift=1), sound_jitter=SoundJitter(gain=3)),
    )
    still, other = plain.batch([4, 5]).inputs, moved.batch([4, 5]).inputs
    assert not torch.equal(still.first.pixels, other.first.pixels)
    assert not torch.equal(still.second.samples, other.second.samples)


def test_senses_that_do_not_belong_together_are_refused():
    with pytest.raises(RegardError, match="39 sounds and 40 classes"):
        Senses(pixels=PIXELS, shown=SHOWN, sounds=SOUNDS[:-1], said=SAID)
    with pytest.raises(RegardError, match="are shown and"):
        Senses(pixels=PIXELS, shown=SHOWN % 5, sounds=SOUNDS, said=SAID)
    with pytest.raises(RegardError, match="samples=0"):
        DigitMatchFeed(SENSES, seed=0, samples=0)


def test_how_a_pair_is_jittered_says_nothing_about_it():
    """Otherwise a model would learn the answer from the jitter, and be at a loss without it."""
    samples = range(6_000)
    feed = DigitMatchFeed(SENSES, seed=3)
    pictures, sounds, labels = (np.array(each, float) for each in feed.drawn(samples))
    for purpose in ("jitter", "sound jitter"):
        jitter = uniform(samples, 4, seed=3, purpose=purpose)
        for drawn in (pictures, sounds, labels):
            assert np.abs(np.corrcoef(np.column_stack([jitter, drawn]).T)[-1, :-1]).max() < 0.05
