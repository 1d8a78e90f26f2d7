"""Recordings from WAV files, and resampling."""

import io
import math
import struct
import wave

import numpy as np
import pytest
import torch

from regard import RegardError
from regard.data.audio import (
    Recording,
    judge_wav,
    read_recording,
    read_sounds,
    resample,
    together,
    tone,
    usable_sounds,
    wav_of,
)
from regard.data.files import Told, read_folder
from regard.data.text_lines import Flaw, Report

RNG = np.random.default_rng(0)


def by_stdlib(values: bytes, *, width: int, channels: int = 1, rate: int = 8_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((channels, width, rate, 0, "NONE", ""))
        writer.writeframes(values)
    return file.getvalue()


def riff(
    kind: int, bits: int, values: bytes, *, channels: int = 1, more: bytes = b"", before: bytes = b""
) -> bytes:
    block = channels * bits // 8
    head = struct.pack("<HHIIHH", kind, channels, 8_000, 8_000 * block, block, bits) + more
    body = b"WAVE" + before + b"fmt " + struct.pack("<I", len(head)) + head
    body += b"data" + struct.pack("<I", len(values)) + values
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_pcm_of_every_width_is_a_part_of_full_scale(width):
    full = 1 << 8 * width - 1
    numbers = [-full, -1, 0, 1, full // 2, full - 1]
    if width == 1:
        data = bytes(number + 128 for number in numbers)
    else:
        data = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    recording = judge_wav(by_stdlib(data, width=width, rate=11_025))
    assert recording.rate == 11_025
    expected = torch.tensor([number / full for number in numbers])
    torch.testing.assert_close(recording.samples, expected, rtol=0, atol=1e-7)


def test_channels_are_averaged():
    values = RNG.integers(-30_000, 30_000, (50, 3)).astype("<i2")
    recording = judge_wav(by_stdlib(values.tobytes(), width=2, channels=3))
    np.testing.assert_allclose(recording.samples.numpy(), values.mean(1) / 32_768, atol=1e-7)


@pytest.mark.parametrize("bits", [32, 64])
def test_floats_are_taken_as_they_are_and_clipped(bits):
    values = np.array([0.25, -0.5, 1.0, 3.0, -9.0], f"<f{bits // 8}")
    expected = [0.25, -0.5, 1, 1, -1]
    assert judge_wav(riff(3, bits, values.tobytes())).samples.tolist() == expected
    more = struct.pack("<HHIH14s", 22, bits, 0, 3, bytes(14))  # the extensible form says its kind further on
    assert judge_wav(riff(0xFFFE, bits, values.tobytes(), more=more)).samples.tolist() == expected


def test_other_chunks_are_passed_over():
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # of odd length, so filled up
    assert judge_wav(riff(1, 16, b"\0\x40", before=extra)).samples.tolist() == [0.5]


WHOLE = wav_of(Recording(tone(440, seconds=0.01, rate=8_000), 8_000))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "empty"),
        (b"ID3\x04 an MP3", "not WAV"),
        (b"RIFX" + WHOLE[4:], "not WAV"),
        (WHOLE[:12], "broken"),
        (WHOLE[:30], "truncated"),
        (WHOLE[:36], "truncated"),
        (WHOLE[:60], "truncated"),
        (WHOLE[:-1], "truncated"),
        (riff(1, 16, b""), "zero length"),
        (riff(1, 16, b"abc"), "truncated"),
        (riff(2, 4, b"abcd"), "unknown coding"),
        (riff(1, 12, b"abcd"), "unknown coding"),
        (riff(0x55, 0, b"abcd"), "unknown coding"),
        (riff(1, 16, b"ab", channels=0), "broken"),
        (WHOLE[:24] + bytes(4) + WHOLE[28:], "broken"),  # rate 0
        (WHOLE[:32] + b"\7\0" + WHOLE[34:], "broken"),  # seven bytes a sample
        (riff(3, 32, np.array([np.nan, 1], "<f4").tobytes()), "not finite"),
    ],
)
def test_what_is_wrong_is_said(data, kind):
    judged = judge_wav(data)
    assert isinstance(judged, Flaw)
    assert judged.kind == kind


def test_no_damage_gets_past_as_an_exception():
    for _ in range(500):
        damaged = bytearray(WHOLE)
        for place in RNG.integers(0, 48, 3):
            damaged[place] = RNG.integers(256)
        assert isinstance(judge_wav(bytes(damaged)), Flaw | Recording)


def test_what_is_written_is_read_here_and_by_others(tmp_path):
    sound = tone(440, seconds=0.1, rate=16_000)
    assert sound[1].item() == pytest.approx(0.5 * np.sin(2 * np.pi * 440 / 16_000))
    (tmp_path / "x.wav").write_bytes(wav_of(Recording(sound, 16_000)))
    torch.testing.assert_close(read_recording(str(tmp_path / "x.wav")).samples, sound, rtol=0, atol=1e-4)
    with wave.open(str(tmp_path / "x.wav")) as other:
        assert (other.getnframes(), other.getframerate(), other.getsampwidth()) == (1_600, 16_000, 2)


def test_a_folder_is_read_at_one_rate_but_for_what_cannot_be(tmp_path):
    for name, rate in [("low/a", 8_000), ("low/b", 16_000), ("high/a", 11_025)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(wav_of(Recording(tone(300, seconds=0.5, rate=rate), rate)))
    (tmp_path / "low" / "c").write_bytes(WHOLE[:-4])
    told = read_folder(str(tmp_path))
    with pytest.raises(RegardError, match=r"low/c: truncated: 160 bytes promised, 156 there"):
        read_sounds(told, 8_000)
    report = Report()
    sounds, kept = read_sounds(told, 8_000, policy="skip", report=report)
    assert [each.text for each in kept] == ["high", "low", "low"]
    assert report.counts == {"truncated": 1}
    assert usable_sounds(told, policy="skip") == kept
    for sound in sounds:  # the same tone, whatever rate it was kept at
        torch.testing.assert_close(
            sound[100:3900], tone(300, seconds=0.5, rate=8_000)[100:3900], rtol=0, atol=1e-4
        )
    with pytest.raises(RegardError, match="none of 1 recordings"):
        read_sounds([Told(str(tmp_path / "low" / "c"), "")], 8_000, policy="skip")


def test_sounds_together_are_filled_up_with_zeros():
    sounds = together([torch.ones(2), torch.ones(4)])
    assert sounds.samples.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert sounds.lengths.tolist() == [2, 4]
    with pytest.raises(RegardError, match="no sounds"):
        together([])


def test_a_tone_above_half_the_rate_is_refused():
    with pytest.raises(RegardError, match="frequency=4000"):
        tone(4_000, seconds=1, rate=8_000)


def test_a_few_kilobytes_never_become_hours(tmp_path) -> None:
    (tmp_path / "slow.wav").write_bytes(wav_of(Recording(torch.rand(2048) - 0.5, 1)))
    slow = read_recording(str(tmp_path / "slow.wav"))
    with pytest.raises(RegardError, match="1 samples a second, to be brought to 16000: at most 256 times"):
        slow.at(16_000)
    with pytest.raises(RegardError, match="1000000 samples a second, to be brought to 100"):
        Recording(torch.rand(10), 1_000_000).at(100)


def test_more_samples_than_memory_likes_are_refused_by_their_number(monkeypatch) -> None:
    monkeypatch.setattr("regard.data.audio.MAX_NUMBERS", 5)
    assert judge_wav(wav_of(Recording(torch.zeros(6), 8000))).what == "6 samples, more than 5: cut it"
    assert isinstance(judge_wav(wav_of(Recording(torch.zeros(5), 8000))), Recording)


def sine(frequency: float, rate: int, count: int) -> torch.Tensor:
    return torch.sin(2 * math.pi * frequency * torch.arange(count).double() / rate + 0.3)


@pytest.mark.parametrize("to", [16_000, 11_025, 6_000, 44_100, 8_001, 7_999])
@pytest.mark.parametrize("frequency", [50.0, 997.0, 2_400.0])
def test_a_sine_has_its_exact_values_at_the_new_times(to, frequency):
    ours = resample(sine(frequency, 8_000, 4_000), 8_000, to=to)
    assert len(ours) == math.ceil(4_000 * to / 8_000)
    edge = math.ceil(60 * to / 8_000)  # beyond the ends of a recording nothing is known
    away = (ours - sine(frequency, to, len(ours))).abs()
    assert away[edge:-edge].max() < 2e-6


@pytest.mark.parametrize("to", [4_000, 4_410])
def test_what_the_new_rate_cannot_carry_is_gone(to):
    for frequency in (to * 0.56, to * 0.75, 3_990.0):
        ours = resample(sine(frequency, 8_000, 4_000), 8_000, to=to)
        assert ours[100:-100].abs().max() < 1e-4


def test_a_constant_stays_to_rounding():
    ours = resample(torch.full((500,), 0.25).double(), 44_100, to=16_000)
    assert (ours[40:-40] - 0.25).abs().max() < 1e-14


def test_there_and_back_is_where_it_began():
    sound = sine(300, 8_000, 2_000) + 0.5 * sine(1_700, 8_000, 2_000)
    back = resample(resample(sound, 8_000, to=12_000), 12_000, to=8_000)
    assert (back - sound)[150:-150].abs().max() < 2e-6
    assert resample(sound, 8_000, to=8_000) is sound


def test_a_long_sound_is_that_of_its_parts():
    """Computed in pieces: what lies beside a border between two is as good."""
    ours = resample(sine(440, 8_000, 20_000), 8_000, to=16_000)
    assert (ours - sine(440, 16_000, 40_000))[120:-120].abs().max() < 2e-6


@pytest.mark.parametrize(("rate", "to"), [(0, 8_000), (8_000, -1), (8_000, 10_000_000)])
def test_rates_that_are_none_are_refused(rate, to):
    with pytest.raises(RegardError, match=f"rate={rate}, to={to}"):
        resample(torch.zeros(5), rate, to=to)


def test_a_few_samples_are_enough():
    for count in (1, 2, 5):
        assert len(resample(torch.ones(count), 8_000, to=11_025)) == math.ceil(count * 11_025 / 8_000)
    assert resample(torch.ones(4), 8_000, to=16_000).dtype == torch.float32


def test_kernels_worked_out_on_the_way_give_the_same_bits(monkeypatch) -> None:
    x = torch.rand(3001) * 2 - 1
    before = resample(x, 11025, to=8000)
    monkeypatch.setattr("regard.data.audio._TABLE", 0)
    monkeypatch.setattr("regard.data.audio._AT_ONCE", 7001)
    assert torch.equal(resample(x, 11025, to=8000), before)
