import numpy as np
import pytest
import torch

from regard import RegardError
from regard.data.augment import Jitter, SoundJitter, jitter_images, jitter_sound
from regard.data.draws import uniform

PIXELS = torch.rand(6, 2, 9, 13, generator=torch.Generator().manual_seed(0))
NUMBERS = [3, 1, 4, 15, 92, 65]
SOUND = torch.rand(400, generator=torch.Generator().manual_seed(0)) - 0.5


def drawn(number: int, count: int, seed: int = 5) -> np.ndarray:
    purpose = {5: "jitter", 4: "sound jitter"}[count]  # pictures have five numbers, sounds four and a tilt
    return 2 * uniform([number], count, seed=seed, purpose=purpose)[0] - 1


def test_without_jitter_nothing_is_touched():
    assert jitter_images(PIXELS, NUMBERS, jitter=Jitter(), seed=5) is PIXELS
    assert jitter_sound(SOUND, 1, jitter=SoundJitter(), seed=5) is SOUND


def test_a_picture_comes_from_where_the_equation_says():
    """Every pixel by itself, in pixels rather than in parts of the picture, between four neighbours."""
    jitter = Jitter(shift=1.5, turn=25, scale=0.2)
    ours = jitter_images(PIXELS, NUMBERS, jitter=jitter, seed=5)
    for row, number in enumerate(NUMBERS):
        across, down, turned, scaled = drawn(number, 5)[:4]
        angle, size = np.deg2rad(25 * turned), 1 + 0.2 * scaled
        for y in range(9):
            for x in range(13):
                right, below = x - 6, y - 4  # from the middle
                u = (np.cos(angle) * right + np.sin(angle) * below) / size + 1.5 * across + 6
                v = (-np.sin(angle) * right + np.cos(angle) * below) / size + 1.5 * down + 4
                expected = torch.zeros(2)
                for i in (int(np.floor(v)), int(np.floor(v)) + 1):
                    for j in (int(np.floor(u)), int(np.floor(u)) + 1):
                        if 0 <= i < 9 and 0 <= j < 13:
                            expected += PIXELS[row, :, i, j] * (1 - abs(v - i)) * (1 - abs(u - j))
                torch.testing.assert_close(ours[row, :, y, x], expected, rtol=0, atol=2e-5)


def test_a_picture_that_is_only_moved_stays_sharp():
    ours = jitter_images(PIXELS, NUMBERS, jitter=Jitter(shift=2.0), seed=5)
    for row, number in enumerate(NUMBERS):
        across, down = (round(2.0 * each) for each in drawn(number, 5)[:2])
        room = torch.nn.functional.pad(PIXELS[row], (2, 2, 2, 2))
        expected = room[:, 2 + down : 11 + down, 2 + across : 15 + across]
        torch.testing.assert_close(ours[row], expected, rtol=0, atol=2e-5)


def test_every_other_picture_is_flipped():
    ours = jitter_images(PIXELS, NUMBERS, jitter=Jitter(flip=True), seed=5)
    flipped = [
        bool((row - pixels.flip(-1)).abs().max() < 1e-5) for row, pixels in zip(ours, PIXELS, strict=True)
    ]
    same = [bool((row - pixels).abs().max() < 1e-5) for row, pixels in zip(ours, PIXELS, strict=True)]
    assert flipped == [not each for each in same]
    assert flipped == [bool(drawn(number, 5)[4] < 0) for number in NUMBERS]
    many = jitter_images(PIXELS[:1].expand(400, -1, -1, -1), range(400), jitter=Jitter(flip=True), seed=1)
    assert 150 < sum(bool((row - PIXELS[0]).abs().max() < 1e-5) for row in many) < 250


def test_pictures_and_sounds_depend_on_the_seed_and_the_number_alone():
    jitter = Jitter(shift=2, turn=10, scale=0.1, flip=True)
    ours = jitter_images(PIXELS, NUMBERS, jitter=jitter, seed=5)
    torch.manual_seed(3)
    assert torch.equal(jitter_images(PIXELS, NUMBERS, jitter=jitter, seed=5), ours)
    torch.testing.assert_close(
        jitter_images(PIXELS[2:3], [4], jitter=jitter, seed=5)[0], ours[2], rtol=0, atol=1e-6
    )
    assert not torch.allclose(jitter_images(PIXELS, NUMBERS, jitter=jitter, seed=6), ours)
    sound = SoundJitter(shift=30, gain=6, speed=0.1, noise=0.01)
    first = jitter_sound(SOUND, 8, jitter=sound, seed=5)
    assert torch.equal(jitter_sound(SOUND, 8, jitter=sound, seed=5), first)
    other = jitter_sound(SOUND, 9, jitter=sound, seed=5)
    assert other.shape != first.shape or not torch.allclose(other, first)


@pytest.mark.parametrize("number", range(6))
def test_a_sound_is_moved_and_silence_comes_in(number):
    places = round(50 * drawn(number, 4)[0])
    ours = jitter_sound(SOUND, number, jitter=SoundJitter(shift=50), seed=5)
    expected = torch.zeros(400)
    for n in range(400):
        if 0 <= n - places < 400:
            expected[n] = SOUND[n - places]
    assert torch.equal(ours, expected)
    assert len(jitter_sound(SOUND[:10], number, jitter=SoundJitter(shift=50), seed=5)) == 10


def test_gain_is_in_decibels_and_never_beyond_full_scale():
    ours = jitter_sound(SOUND, 2, jitter=SoundJitter(gain=6), seed=5)
    torch.testing.assert_close(ours, (SOUND * 10 ** (6 * drawn(2, 4)[1] / 20)).float())
    loud = [jitter_sound(SOUND, n, jitter=SoundJitter(gain=40), seed=5) for n in range(10)]
    assert max(each.abs().max() for each in loud) == 1


def test_noise_is_white_and_at_most_as_strong_as_asked():
    ours = jitter_sound(torch.zeros(20_000), 2, jitter=SoundJitter(noise=0.02), seed=5)
    assert ours.std().item() == pytest.approx(0.02 * abs(drawn(2, 4)[3]), rel=0.02)
    several = [
        jitter_sound(torch.zeros(2_000), n, jitter=SoundJitter(noise=0.02), seed=5).std() for n in range(40)
    ]
    assert min(several) < 0.003
    assert 0.017 < max(several) < 0.021
    assert abs(ours.mean()) < 0.001
    assert abs(torch.corrcoef(torch.stack([ours[1:], ours[:-1]]))[0, 1]) < 0.03


def test_noise_can_be_as_much_softer_as_asked_whatever_the_loudness():
    time = torch.arange(20_000) / 8_000
    for number in range(5):
        decibels = 10 + 30 * abs(drawn(number, 4)[3])
        for loudness in (0.5, 0.001):
            sound = loudness * torch.sin(2 * torch.pi * 100 * time)
            ours = jitter_sound(sound, number, jitter=SoundJitter(snr=(10, 40)), seed=5)
            ratio = sound.square().mean() / (ours - sound).square().mean()
            assert 10 * torch.log10(ratio).item() == pytest.approx(decibels, abs=0.1)
    silent = jitter_sound(torch.zeros(100), 1, jitter=SoundJitter(snr=(10, 40)), seed=5)
    assert torch.equal(silent, torch.zeros(100))


def test_a_faster_sound_is_shorter_and_higher():
    time = torch.arange(8_000) / 8_000
    faster = drawn(3, 4)[2]
    ours = jitter_sound(torch.sin(2 * torch.pi * 100 * time), 3, jitter=SoundJitter(speed=0.2), seed=5)
    step = 1 + 0.2 * faster
    assert len(ours) == round(8_000 / step)
    expected = torch.sin(2 * torch.pi * 100 * step * torch.arange(len(ours)) / 8_000)
    torch.testing.assert_close(ours[:-2], expected[:-2], rtol=0, atol=2e-3)


def test_a_brighter_sound_has_its_highs_raised_by_what_the_filter_says():
    """|1 − a e^(−iω)|² of a tone: quieter below and louder above where a > 0, the other way round where a < 0."""
    tilts = [2 * uniform([n], 5, seed=5, purpose="sound jitter")[0, 4] - 1 for n in range(8)]
    assert min(tilts) < 0 < max(tilts)
    for number, tilt in enumerate(tilts):
        for frequency in (200, 3_000):
            angle = 2 * np.pi * frequency / 8_000
            sound = 0.1 * torch.sin(angle * torch.arange(8_000))
            ours = jitter_sound(sound, number, jitter=SoundJitter(tilt=0.7), seed=5)
            gain = abs(1 - 0.7 * tilt * np.exp(-1j * angle))
            assert (ours[1:].std() / sound.std()).item() == pytest.approx(gain, rel=0.01)


def test_what_cannot_be_is_refused():
    with pytest.raises(RegardError, match="scale=1"):
        Jitter(scale=1)
    with pytest.raises(RegardError, match="noise=-1"):
        SoundJitter(noise=-1)
    with pytest.raises(RegardError, match="give one of them"):
        SoundJitter(noise=0.1, snr=(10, 40))
    with pytest.raises(RegardError, match="smaller to the larger"):
        SoundJitter(snr=(40, 10))
    with pytest.raises(RegardError, match="tilt=2"):
        SoundJitter(tilt=2)
    with pytest.raises(RegardError, match="6 pictures and 2 numbers"):
        jitter_images(PIXELS, [1, 2], jitter=Jitter(shift=1), seed=0)
