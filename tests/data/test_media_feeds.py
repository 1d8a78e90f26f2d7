from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image

from regard import RegardError
from regard.data.audio import Recording, tone, wav_of
from regard.data.augment import Jitter, SoundJitter, jitter_images, jitter_sound
from regard.data.batches import END, Feed, each_once
from regard.data.feeds import Corpus
from regard.data.files import Told, read_folder
from regard.data.images import Frame, read_images
from regard.data.media_feeds import (
    FilePictures,
    FileRecordings,
    HeldPictures,
    HeldRecordings,
    MediaLabelFeed,
    MediaTextFeed,
)

COUNT = 103
PIXELS = torch.rand(COUNT, 1, 5, 7, generator=torch.Generator().manual_seed(0))
SOUNDS = [torch.rand(20 + 37 * n % 101, generator=torch.Generator().manual_seed(n)) for n in range(COUNT)]
LABELS = [n % 7 for n in range(COUNT)]
TEXTS = Corpus.of([[4 + n % 50] * (1 + n % 5) for n in range(COUNT)], vocabulary=60)
PICTURES, RECORDINGS = HeldPictures(PIXELS), HeldRecordings(SOUNDS)


def feeds(seed: int = 3, jitter: Jitter | None = None, sound: SoundJitter | None = None) -> list[Feed]:
    return [
        MediaLabelFeed(PICTURES, LABELS, rows=8, seed=seed, jitter=jitter),
        MediaTextFeed(PICTURES, TEXTS, rows=8, seed=seed, jitter=jitter),
        MediaLabelFeed(RECORDINGS, LABELS, rows=8, seed=seed, jitter=sound),
        MediaTextFeed(RECORDINGS, TEXTS, rows=8, seed=seed, jitter=sound),
    ]


every = pytest.mark.parametrize("feed", feeds(), ids=lambda feed: type(feed).__name__)


@every
def test_every_sample_comes_once_in_every_epoch_under_a_number_of_its_own(feed):
    assert isinstance(feed, Feed)
    for epoch in range(3):
        numbers = [*chain(*feed.order(epoch))]
        assert sorted(numbers) == [*range(epoch * COUNT, (epoch + 1) * COUNT)]
        assert sorted(map(len, feed.order(epoch))) == [7, *[8] * 12]
    assert sum(len(batch) for batch in each_once(feed)) == COUNT


def test_the_order_is_a_pure_function_of_seed_and_epoch():
    for first, second, other in zip(feeds(), feeds(), feeds(4), strict=True):
        torch.manual_seed(1)
        second.order(0)
        assert [*first.order(2)] == [*second.order(2)]
        assert [*first.order(2)] != [*other.order(2)]
        assert [[n % COUNT for n in batch] for batch in first.order(2)] != [*first.order(0)]


def test_pictures_come_with_their_own_labels_and_texts():
    labelled, captioned, *_ = feeds()
    numbers = [COUNT + 5, 3 * COUNT + 100]
    batch = labelled.batch(numbers)
    assert torch.equal(batch.inputs.pixels, PIXELS[[5, 100]])
    assert batch.labels.tolist() == [5, 2]
    pair = captioned.batch(numbers)
    assert torch.equal(pair.source.pixels, PIXELS[[5, 100]])
    assert pair.target.tokens.tolist() == [[9, END], [4, END]]


def test_sounds_come_with_their_own_labels_and_texts():
    *_, labelled, transcribed = feeds()
    batch = labelled.batch([5, COUNT + 100])
    for row, length, number in zip(batch.inputs.samples, batch.inputs.lengths, (5, 100), strict=True):
        assert torch.equal(row[:length], SOUNDS[number])
        assert not row[length:].any()
    assert batch.labels.tolist() == [5, 2]
    assert transcribed.batch([2]).target.tokens.tolist() == [[6, 6, 6, END]]


def test_sounds_of_like_lengths_come_together():
    feed = feeds()[2]
    filled = sum(batch.inputs.samples.numel() for batch in each_once(feed))
    assert sum(map(len, SOUNDS)) / filled > 0.9
    lengths = [max(len(SOUNDS[n % COUNT]) for n in batch) for batch in feed.order(0)]
    assert lengths != sorted(lengths)


def test_a_sample_is_jittered_otherwise_in_every_epoch_and_the_same_after_a_resumption():
    jitter, sound = Jitter(shift=1, turn=5), SoundJitter(shift=5, noise=0.01)
    image, _, heard, _ = feeds(jitter=jitter, sound=sound)
    first, second = 9, COUNT + 9
    expected = jitter_images(PIXELS[[9, 9]], [first, second], jitter=jitter, seed=3)
    assert torch.equal(image.batch([first, second]).inputs.pixels, expected)
    assert not torch.allclose(expected[0], expected[1])
    samples = heard.batch([second]).inputs.samples[0]
    assert torch.equal(samples, jitter_sound(SOUNDS[9], second, jitter=sound, seed=3))
    again = feeds(jitter=jitter, sound=sound)
    for feed, fresh in zip((image, heard), (again[0], again[2]), strict=True):
        samples = feed.order(5)[4]
        for a, b in zip(
            vars(feed.batch(samples).inputs).values(), vars(fresh.batch(samples).inputs).values(), strict=True
        ):
            assert torch.equal(a, b)


def test_files_give_what_memory_gives(tmp_path):
    rng = np.random.default_rng(0)
    for n in range(6):
        (tmp_path / "i" / str(n % 2)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "s" / str(n % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(
            tmp_path / f"i/{n % 2}/{n}.png"
        )
        (tmp_path / f"s/{n % 2}/{n}.wav").write_bytes(
            wav_of(Recording(tone(300 + n, seconds=0.1 + 0.01 * n, rate=8_000), 8_000))
        )
    files, frame = read_folder(str(tmp_path / "i")), Frame(height=6, width=6)
    held = MediaLabelFeed(HeldPictures(read_images(files, frame)[0]), [0] * 6, rows=4, seed=0)
    read = MediaLabelFeed(FilePictures(files, frame), [0] * 6, rows=4, seed=0)
    for samples in held.order(1):
        assert torch.equal(held.batch(samples).inputs.pixels, read.batch(samples).inputs.pixels)
    assert [*held.order(1)] == [*read.order(1)]
    files = read_folder(str(tmp_path / "s"))
    sounds = MediaLabelFeed(FileRecordings(files, rate=4_000), [0] * 6, rows=3, seed=0)
    batch = sounds.batch([0, 5])
    assert batch.inputs.lengths.tolist() == [400, 600]
    torch.testing.assert_close(
        batch.inputs.samples[1, 50:550], tone(305, seconds=0.15, rate=4_000)[50:550], rtol=0, atol=1e-4
    )


def test_a_file_that_broke_later_is_named(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(b"gone")
    feed = MediaLabelFeed(
        FilePictures(read_folder(str(tmp_path)), Frame(height=2, width=2)), [0], rows=1, seed=0
    )
    with pytest.raises(RegardError, match=r"a/x\.png: neither PNG nor JPEG"):
        feed.batch([0])
    with pytest.raises(RegardError, match=r"none\.wav: cannot be read"):
        FileRecordings([Told(str(tmp_path / "none.wav"), "")], rate=8_000)


def test_what_cannot_be_fed_is_refused():
    with pytest.raises(RegardError, match="103 inputs and 2 labels"):
        MediaLabelFeed(PICTURES, [0, 1], rows=1, seed=0)
    with pytest.raises(RegardError, match="rows=0"):
        MediaLabelFeed(RECORDINGS, LABELS, rows=0, seed=0)
    with pytest.raises(RegardError, match="epoch=-1"):
        feeds()[0].order(-1)
    with pytest.raises(RegardError, match=r"\[3, 4\]"):
        HeldPictures(torch.zeros(3, 4))
    with pytest.raises(RegardError, match="0 samples"):
        MediaLabelFeed(HeldPictures(torch.zeros(0, 1, 2, 2)), [], rows=1, seed=0)


def test_how_a_picture_is_moved_does_not_depend_on_when_it_comes():
    """A column of light, moved; if the order of an epoch decided where to, its halves would differ by 8."""
    pixels = torch.zeros(4_000, 1, 21, 21)
    pixels[..., 10] = 1.0
    feed = MediaLabelFeed(HeldPictures(pixels), [0] * 4_000, rows=2_000, seed=1, jitter=Jitter(shift=8))
    first, last = (
        feed.batch(samples).inputs.pixels.sum((1, 2)).argmax(-1).float().mean() for samples in feed.order(0)
    )
    assert abs(first - last) < 0.6  # the deviation of either is 0.1
