"""Recordings: WAV files, as numbers from −1 to 1 at the rate a model wants.

PCM of 8, 16, 24 or 32 bits and floats of 32 or 64 are read, and several channels are averaged into one. Anything
else inside a WAV (ADPCM, MP3 …) is refused, and so is a file that is shorter than it says. What a float recording
has beyond ±1 is clipped, as any player does.

Resampling: a sound without frequencies above half its rate is known between its samples too: it is the sum of its
samples, each times a sinc (Shannon 1949). The sinc is cut off by a Kaiser window, and widened where the new rate is the
lower one, so that frequencies above what the new rate can carry are removed rather than aliased.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import Sounds
from regard.data.files import Told, only_sound, read_each, read_one
from regard.data.text_lines import Flaw, Policy, Report
from regard.errors import RegardError

MAX_NUMBERS = 1 << 26  # samples of all channels: an hour of one at 16 kHz
_AT_ONCE = 1 << 20  # numbers worked on together, as they take eight bytes each

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


@dataclass(frozen=True, eq=False)
class Recording:
    """A sound of one channel."""

    samples: Float[Tensor, " n"]
    rate: int  # samples a second

    def at(self, rate: int) -> Float[Tensor, " m"]:
        """Its samples at another rate."""
        return resample(self.samples, self.rate, to=rate)


def read_recording(path: str) -> Recording:
    """One recording at its own rate. What cannot be used is refused with the file named."""
    return read_one(path, judge_wav)


def read_sounds(
    told: Sequence[Told], rate: int, *, policy: Policy = "error", report: Report | None = None
) -> tuple[list[Float[Tensor, " _"]], list[Told]]:
    """All recordings at one rate, and the files they came from: those that can be used."""
    pairs = [*read_each(told, judge_wav, policy=policy, report=report)]
    if not pairs:
        raise RegardError(f"none of {len(told)} recordings can be used{report.reasons if report else ''}")
    return [recording.at(rate) for _, recording in pairs], [each for each, _ in pairs]


def usable_sounds(
    told: Sequence[Told], *, policy: Policy = "error", report: Report | None = None
) -> list[Told]:
    """The recordings that can be used, each read once to see: for sets too large for memory."""
    return only_sound(told, judge_wav, policy=policy, report=report)


def together(sounds: Sequence[Float[Tensor, " _"]]) -> Sounds:
    """Sounds as one batch, filled up with zeros."""
    if not len(sounds):
        raise RegardError("a batch of no sounds")
    lengths = torch.tensor([len(sound) for sound in sounds])
    return Sounds(torch.nn.utils.rnn.pad_sequence([*sounds], batch_first=True), lengths)


def tone(frequency: float, *, seconds: float, rate: int, loudness: float = 0.5) -> Float[Tensor, " n"]:
    """A pure tone, sin(2πft): a sound whose every value is known."""
    if not 0 < frequency < rate / 2:
        raise RegardError(f"frequency={frequency} at rate={rate}: give one above 0 and below half the rate")
    time = torch.arange(round(seconds * rate), dtype=torch.float64) / rate
    return (loudness * torch.sin(2 * math.pi * frequency * time)).float()


def wav_of(recording: Recording) -> bytes:
    """A recording as a WAV file of 16 bits."""
    values = (recording.samples.double().clamp(-1, 1) * 32767).round().short().numpy().astype("<i2").tobytes()
    head = struct.pack("<HHIIHH", _PCM, 1, recording.rate, 2 * recording.rate, 2, 16)
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(values))
    return b"RIFF" + struct.pack("<I", len(body) + len(values)) + body + values


def judge_wav(data: bytes) -> Recording | Flaw:
    """The recording in these bytes, or what is wrong with it."""
    if not data:
        return Flaw("empty", "empty")
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return Flaw("not WAV", "not a WAV file, by its first bytes")
    chunks = _chunks(data)
    if isinstance(chunks, Flaw):
        return chunks
    layout = _layout(chunks.get(b"fmt ", b""))
    if isinstance(layout, Flaw):
        return layout
    if b"data" not in chunks:
        return Flaw("truncated", "no sound in it, only a header")
    values = chunks[b"data"]
    if not values:
        return Flaw("zero length", "of zero length")
    if len(values) % (layout.channels * layout.bytes):
        return Flaw("truncated", f"{len(values)} bytes of sound, not whole samples: truncated")
    if len(values) // layout.bytes > MAX_NUMBERS:
        return Flaw("too long", f"{len(values) // layout.bytes:,} samples, more than {MAX_NUMBERS:,}: cut it")
    unit = layout.channels * layout.bytes
    mono = np.empty(len(values) // unit, np.float32)
    step = max(1, _AT_ONCE // layout.channels)
    for first in range(0, len(mono), step):
        numbers = _numbers(values[first * unit : (first + step) * unit], layout)
        if not np.isfinite(numbers).all():
            return Flaw("not finite", "holds values that are no numbers")
        mono[first : first + step] = np.clip(numbers.reshape(-1, layout.channels).mean(1), -1, 1)
    return Recording(torch.from_numpy(mono), layout.rate)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    channels: int
    rate: int
    bytes: int  # of a number
    floats: bool


def _chunks(data: bytes) -> dict[bytes, bytes] | Flaw:
    """The parts of a RIFF file up to the sound, which is the last that matters."""
    found: dict[bytes, bytes] = {}
    place = 12
    while place + 8 <= len(data) and b"data" not in found:
        name, size = struct.unpack_from("<4sI", data, place)
        body = data[place + 8 : place + 8 + size]
        if len(body) < size:
            return Flaw("truncated", f"truncated: {size} bytes promised, {len(body)} there")
        found.setdefault(name, body)
        place += 8 + size + size % 2
    return found


def _layout(head: bytes) -> _Layout | Flaw:
    if len(head) < 16:
        return Flaw("broken", "a broken header: it does not say how its sound is stored")
    kind, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", head)
    if kind == _EXTENSIBLE and len(head) >= 26:
        kind = struct.unpack_from("<H", head, 24)[0]
    if (kind, bits) not in {*((_PCM, bits) for bits in (8, 16, 24, 32)), (_FLOAT, 32), (_FLOAT, 64)}:
        return Flaw("unknown coding", f"sound of kind {kind} with {bits} bits: convert it to PCM of 16 bits")
    if not channels or not 0 < rate <= 1_000_000 or block != channels * bits // 8:
        what = f"{channels} channels, rate {rate}, {block} bytes a sample"
        return Flaw("broken", f"a broken header: {what}")
    return _Layout(channels=channels, rate=rate, bytes=bits // 8, floats=kind == _FLOAT)


def _numbers(values: bytes, layout: _Layout) -> NDArray[np.float64]:
    if layout.floats:
        return np.frombuffer(values, f"<f{layout.bytes}").astype(np.float64)
    if layout.bytes == 1:  # the only size without a sign
        return (np.frombuffer(values, np.uint8).astype(np.float64) - 128) / 128
    if layout.bytes == 3:  # as the upper bytes of a number of four
        wide = np.zeros((len(values) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(values, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(values, f"<i{layout.bytes}") / 2.0 ** (8 * layout.bytes - 1)


_CROSSINGS = 32  # zeros of the sinc on either side
_BETA = 12.0  # of the window: what should be gone is about 118 dB down
_PASSED = 0.92  # of the frequencies both rates can carry; the filter falls from here on
_WEIGHTS_AT_ONCE = 1 << 22  # numbers of the windows computed together, to bound memory
_TABLE = 1 << 22  # numbers of the kernels that are worked out beforehand
_FARTHEST = 256  # times the one rate of the other: kilobytes at 1 a second would become hours at 8,000
_HIGHEST = 1_000_000


def resample(samples: Float[Tensor, " n"], rate: int, *, to: int) -> Float[Tensor, " m"]:
    """A sound at another rate: sample j is the sound at the time j / to, and m = ⌈n · to / rate⌉."""
    if not (0 < rate <= _HIGHEST and 0 < to <= _HIGHEST):
        raise RegardError(f"rate={rate}, to={to}: give rates from 1 to {_HIGHEST} a second")
    if max(rate, to) > _FARTHEST * min(rate, to):
        raise RegardError(
            f"{rate} samples a second, to be brought to {to}: at most {_FARTHEST} times as many or few"
        )
    if rate == to or not len(samples):
        return samples
    shared = math.gcd(rate, to)
    up, down = to // shared, rate // shared
    cutoff = _PASSED * min(1.0, to / rate)
    reach = math.ceil(_CROSSINGS / cutoff)
    padded = np.pad(samples.detach().double().numpy(), (reach, reach + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    count = -(-len(samples) * to // rate)
    # Sample j is at j·down/up of the old ones: a whole number of them and one of `up` fractions.
    width, different = 2 * reach + 1, min(up, count)
    table = (
        _kernels(np.arange(different) * down % up / up, reach, cutoff)
        if different * width <= _TABLE
        else None
    )
    parts, rows = [], max(1, _WEIGHTS_AT_ONCE // width)
    for first in range(0, count, rows):
        j = np.arange(first, min(first + rows, count))
        kernels = _kernels(j * down % up / up, reach, cutoff) if table is None else table[j % up]
        parts.append(np.einsum("jk,jk->j", windows[j * down // up], kernels))
    return torch.from_numpy(np.concatenate(parts)).to(samples.dtype)


def _kernels(fractions: NDArray[np.float64], reach: int, cutoff: float) -> NDArray[np.float64]:
    """For every fraction the weights of the old samples from −reach to reach; they sum to 1, as silence is to stay."""
    distance = np.arange(-reach, reach + 1) - fractions[:, None]
    inside = np.clip(1 - (distance * cutoff / _CROSSINGS) ** 2, 0, None)
    kernels = np.sinc(cutoff * distance) * np.i0(_BETA * np.sqrt(inside)) * (inside > 0)
    return kernels / kernels.sum(1, keepdims=True)
