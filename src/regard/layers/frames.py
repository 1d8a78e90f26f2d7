"""Frames: a recording as a sequence, from its waveform to a log-mel spectrogram to tokens.

A frame is a short window of the recording; there is one for each `hop` that begins inside the recording, and beyond
the end there is silence. So a recording gives the same tokens alone as beside longer ones.
"""

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RegardError
from regard.layers.patches import read_dtype

Layer = TypeVar("Layer", nn.Conv2d, nn.Linear)
FLOOR = 1e-10  # energy added in every band, so that silence has a logarithm


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """How sound is taken apart: 25 ms every 10 ms into 40 bands, unless said otherwise."""

    rate: int = 8000  # samples a second
    window: int = 200  # samples of a frame
    hop: int = 80  # samples from one frame to the next
    bands: int = 40
    depth: float = 40.0  # decibels below the loudest of a recording: what is softer is noise
    silence: float | None = None  # decibels below the loudest frame; softer ones are in no mean

    def __post_init__(self) -> None:
        if min(self.rate, self.window, self.hop, self.bands) < 1 or self.hop > self.window:
            raise RegardError(f"{self}: at least 1 each, and a hop no longer than the window")
        if max(self.rate, self.window) > 1_000_000 or self.bands * self.frequencies > 1 << 22:
            raise RegardError(
                f"rate={self.rate}, window={self.window}, bands={self.bands}: a rate and a window of at most 1,000,000, "
                f"and filters of at most {1 << 22:,} numbers"
            )
        if not self.depth > 0:
            raise RegardError(f"depth={self.depth}: decibels above 0")
        if self.silence is not None and not self.silence > 0:
            raise RegardError(f"silence={self.silence}: decibels above 0")
        if not bool((mel_filters(self, device="cpu").sum(1) > 0).all()):
            raise RegardError(
                f"bands={self.bands} of a window of {self.window} samples: a band without a frequency; take fewer "
                "bands or a longer window"
            )

    @property
    def frequencies(self) -> int:
        """How many frequencies a window tells apart, from 0 to half of the rate."""
        return self.window // 2 + 1

    def frames(self, samples: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """How many frames recordings of these lengths have."""
        return torch.div(samples + self.hop - 1, self.hop, rounding_mode="floor")


def mel_filters(
    spectrum: Spectrum, *, device: torch.device | str | None = None
) -> Float[Tensor, "bands frequencies"]:
    """Triangles that overlap by halves, equally wide in mel = 2595 log₁₀(1 + f / 700), where pitch sounds even.

    Each rises from the middle of the band below to 1 at its own and falls to 0 at the middle of the one above
    (Davis 1980; the formula is O'Shaughnessy's of 1987). In float64.
    """
    half = spectrum.rate / 2
    top = 2595 * math.log10(1 + half / 700)
    mels = torch.linspace(0, top, spectrum.bands + 2, dtype=torch.float64, device=device)
    corner = 700 * (10 ** (mels / 2595) - 1)
    below, middle, above = (part[:, None] for part in (corner[:-2], corner[1:-1], corner[2:]))
    number = torch.arange(spectrum.frequencies, dtype=torch.float64, device=device)
    hertz = number * (spectrum.rate / spectrum.window)
    rising, falling = (hertz - below) / (middle - below), (above - hertz) / (above - middle)
    return torch.minimum(rising, falling).clamp_min(0)


def log_mel(
    samples: Float[Tensor, "b n"], lengths: Int[Tensor, " b"], spectrum: Spectrum
) -> Float[Tensor, "b frames bands"]:
    """log(Σ_f M[band, f] |STFT[f]|² + ε) of Hann windows, each band less its mean in the recording, all over their deviation.

    ε lies `depth` decibels below the loudest of the recording, so that the noise of a room is not heard. Without the
    means it matters neither how loud a recording is nor how its microphone colours it (Atal 1974); and without
    `silence` in them, nor how closely it was cut. Zeros at padding.
    """
    count = -(-samples.shape[1] // spectrum.hop)
    room = max(0, (count - 1) * spectrum.hop + spectrum.window - samples.shape[1])
    heard = F.pad(_real(samples, lengths), (0, room))
    if count == 0:
        return samples.new_zeros(samples.shape[0], 0, spectrum.bands)
    # Energies span more than half precision holds.
    with torch.autocast(samples.device.type, enabled=False):
        wide = heard.to(torch.promote_types(heard.dtype, torch.float32))
        hann = torch.hann_window(spectrum.window, dtype=wide.dtype, device=wide.device)
        waves = torch.stft(
            wide, spectrum.window, spectrum.hop, window=hann, center=False, return_complex=True
        )
        energy = waves.real.square() + waves.imag.square()
        filters = mel_filters(spectrum, device=wide.device).to(wide.dtype)
        heard = rearrange(filters @ energy, "b band t -> b t band")[:, :count]
        floor = heard.amax((1, 2), keepdim=True) * 10 ** (-spectrum.depth / 10)
        real = (torch.arange(count, device=wide.device) < spectrum.frames(lengths)[:, None])[..., None]
        counted = real if spectrum.silence is None else real & _loud(heard, spectrum.silence)
        return _standard(torch.log(heard + floor + FLOOR), real, counted)


class Frames(nn.Module):
    """A spectrogram through convolutions of 3 × 3, each followed by a GELU, then every frame through one linear map.

    Each halves the bands and goes over time with its stride (Dong 2018, section 3.2). One that slides over the bands
    too knows a vowel again in a higher voice; one over all bands at once has to learn it there anew.
    """

    def __init__(
        self,
        width: int,
        *,
        spectrum: Spectrum | None = None,
        channels: int = 32,
        strides: tuple[int, ...] = (2, 1),
    ) -> None:
        super().__init__()
        if min(width, channels) < 1 or not strides or min(strides) < 1:
            raise RegardError(
                f"Frames(width={width}, channels={channels}, strides={strides}): at least 1 each, and a stride"
            )
        self.width, self.spectrum, self.strides = width, spectrum or Spectrum(), strides
        inputs = (1, *[channels] * (len(strides) - 1))
        self.convolutions = nn.ModuleList(
            _as_large(nn.Conv2d(several, channels, 3, stride=(stride, 2), padding=1))
            for several, stride in zip(inputs, strides, strict=True)
        )
        self.output = _as_large(nn.Linear(channels * -(-self.spectrum.bands // 2 ** len(strides)), width))

    def count(self, lengths: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """How many tokens recordings of these lengths become."""
        count = self.spectrum.frames(lengths)
        for stride in self.strides:
            count = torch.div(count + stride - 1, stride, rounding_mode="floor")
        return count

    def forward(
        self, samples: Float[Tensor, "b n"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b t _width"], Int[Tensor, " b"]]:
        """The tokens of some recordings, zeros at padding, and how many each has."""
        x, count = log_mel(samples, lengths, self.spectrum), self.spectrum.frames(lengths)
        x = x[:, None].to(read_dtype(self.output))
        for convolution, stride in zip(self.convolutions, self.strides, strict=True):
            x = F.gelu(convolution(x))
            count = torch.div(count + stride - 1, stride, rounding_mode="floor")
            # A bias makes something of nothing; what comes next must find silence beyond the end again.
            x = _real(x.mT, count).mT
        tokens = self.output(rearrange(x, "b channel t band -> b t (channel band)"))
        return _real(tokens.mT, count).mT, count


def _as_large(layer: Layer) -> Layer:
    """Start it so that what comes out is as large as what goes in, and as the positions added to it (He 2015)."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _real(x: Float[Tensor, "b *c n"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b *c n"]:
    """x with zeros at padding; chosen, not multiplied, since padding may hold anything."""
    real = torch.arange(x.shape[-1], device=x.device) < lengths[:, None]
    return torch.where(real.view(len(x), *[1] * (x.ndim - 2), -1), x, 0.0)


def _loud(energy: Float[Tensor, "b t d"], depth: float) -> Bool[Tensor, "b t 1"]:
    """Which frames are at most so many decibels softer than the loudest of their recording; all, where all are 0."""
    whole = energy.sum(2, keepdim=True)
    return whole >= whole.amax(1, keepdim=True) * 10 ** (-depth / 10)


def _standard(
    x: Float[Tensor, "b t d"], real: Bool[Tensor, "b t 1"], counted: Bool[Tensor, "b t 1"]
) -> Float[Tensor, "b t d"]:
    """Mean 0 in every band and variance 1 over all, of the frames of each recording that count; silence stays 0."""
    frames = counted.sum(1, keepdim=True).clamp_min(1)
    mean = torch.where(counted, x, 0.0).sum(1, keepdim=True) / frames
    centred = torch.where(real, x - mean, 0.0)
    variance = torch.where(counted, centred, 0.0).square().sum((1, 2), keepdim=True) / (frames * x.shape[2])
    return centred / (variance + 1e-5).sqrt()
