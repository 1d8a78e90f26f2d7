"""Whole numbers mean the full range of their type; what does not say its range is refused."""

import numpy as np
import pytest
import torch
from PIL import Image

from regard import RegardError
from regard.data.audio import judge_wav
from regard.data.digit_pairs import DigitMatchFeed, Senses
from regard.data.images import Frame, read_image
from regard.data.media_feeds import HeldPictures, HeldRecordings
from regard.data.media_values import as_pixels, as_samples

BYTES = torch.arange(0, 256, dtype=torch.uint8).reshape(1, 1, 16, 16)


@pytest.mark.parametrize(
    ("dtype", "numbers", "meant"),
    [
        (torch.uint8, [0, 51, 255], [0, 0.2, 1]),
        (torch.uint16, [0, 13_107, 65_535], [0, 0.2, 1]),
        (torch.bool, [False, True], [0, 1]),
        (torch.float64, [0, 0.2, 1], [0, 0.2, 1]),
        (torch.float16, [0, 0.25, 1], [0, 0.25, 1]),
    ],
)
def test_pixels_go_from_zero_to_one(dtype, numbers, meant):
    found = as_pixels(torch.tensor(numbers, dtype=dtype))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(meant, dtype=torch.float32))
    array = torch.tensor(numbers, dtype=dtype).numpy()
    assert torch.equal(as_pixels(array), found)
    assert torch.equal(as_pixels(array[::-1]).flip(0), found)


@pytest.mark.parametrize(
    ("dtype", "numbers", "meant"),
    [
        (torch.uint8, [0, 128, 192], [-1, 0, 0.5]),
        (torch.int8, [-128, 0, 64], [-1, 0, 0.5]),
        (torch.int16, [-(2**15), 0, 2**14], [-1, 0, 0.5]),
        (torch.int32, [-(2**31), 0, 2**30, 3], [-1, 0, 0.5, 3 / 2**31]),
        (torch.float64, [-1, 0, 0.5], [-1, 0, 0.5]),
    ],
)
def test_samples_go_from_minus_one_to_one(dtype, numbers, meant):
    found = as_samples(torch.tensor(numbers, dtype=dtype))
    assert found.dtype == torch.float32
    assert found.tolist() == torch.tensor(meant, dtype=torch.float32).tolist()
    assert torch.equal(as_samples(torch.tensor(numbers, dtype=dtype).numpy()), found)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_samples_mean_what_they_mean_in_a_wav_file(bits):
    code = {8: "<u1", 16: "<i2", 32: "<i4"}[bits]
    limits = np.iinfo(code)
    numbers = np.linspace(limits.min, limits.max, 103).astype(code)
    size = bits // 8
    head = np.array([1, 1], "<u2").tobytes() + np.array([8000, 8000 * size], "<u4").tobytes()
    head += np.array([size, bits], "<u2").tobytes()
    body = b"WAVEfmt " + np.uint32(16).tobytes() + head + b"data" + np.uint32(numbers.nbytes).tobytes()
    wav = b"RIFF" + np.uint32(len(body) + numbers.nbytes).tobytes() + body + numbers.tobytes()
    assert torch.equal(as_samples(numbers), judge_wav(wav).samples)


def test_pixels_mean_what_they_mean_in_a_png(tmp_path):
    Image.fromarray(BYTES[0, 0].numpy()).save(tmp_path / "a.png")
    read = read_image(str(tmp_path / "a.png"), Frame(height=16, width=16, channels=1))
    assert torch.equal(as_pixels(BYTES[0]), read)


@pytest.mark.parametrize(
    ("read", "given", "said"),
    [
        (as_pixels, torch.tensor([0, 255]), "a picture of int64: give bool, uint8, uint16"),
        (as_pixels, np.array([0, 255], np.int16), "a picture of int16: give bool, uint8"),
        (as_pixels, torch.tensor([0.0, 255.0]), "floats from 0 to 255: give"),
        (as_pixels, torch.tensor([-1.0, 1.0]), "floats from -1 to 1: give"),
        (as_pixels, torch.tensor([0.0, float("nan")]), "floats from nan to nan"),
        (as_pixels, [0.5], "a picture as a list: give a file, a tensor or a NumPy array"),
        (as_pixels, np.array(["a"]), "a picture of <U1: give numbers"),
        (as_samples, torch.tensor([0, 2**15]), "a recording of int64: give uint8, int8, int16, int32"),
        (as_samples, torch.tensor([True]), "a recording of bool"),
        (as_samples, torch.tensor([-12_000.0, 9000.0]), "floats from -12000 to 9000"),
        (as_samples, None, "a recording as a NoneType"),
    ],
)
def test_what_does_not_say_its_range_is_refused(read, given, said):
    with pytest.raises(RegardError) as error:
        read(given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_little_beyond_the_range_is_left_as_it_is():
    assert as_pixels(torch.tensor([-0.1, 1.1])).tolist() == pytest.approx([-0.1, 1.1])
    assert as_samples(torch.tensor([-1.1, 1.1])).tolist() == pytest.approx([-1.1, 1.1])


def test_pictures_and_recordings_in_memory_are_read_alike():
    assert torch.equal(HeldPictures(BYTES).at([0]), HeldPictures(BYTES.float() / 255).at([0]))
    sound = torch.tensor([-(2**15), 77, 2**14], dtype=torch.int16)
    whole, floats = HeldRecordings([sound]), HeldRecordings([sound.float() / 2**15])
    assert torch.equal(whole.some([0]).at([0])[0], floats.at([0])[0])
    labels = torch.tensor([0, 1])
    pixels = torch.cat([BYTES, BYTES.flip(-1)])
    feeds = [
        DigitMatchFeed(
            Senses(pixels=some, shown=labels, sounds=sounds, said=labels), seed=1, rows=2, samples=2
        )
        for some, sounds in ((pixels, [sound] * 2), (pixels.float() / 255, [sound.float() / 2**15] * 2))
    ]
    first, second = (feed.batch([0, 1]).inputs for feed in feeds)
    assert torch.equal(first.first.pixels, second.first.pixels)
    assert torch.equal(first.second.samples, second.second.samples)
