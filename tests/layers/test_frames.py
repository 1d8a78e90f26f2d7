"""Frames against a transform written out, filters made by hand, and with anything in the padding."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import RegardError
from regard.layers.frames import FLOOR, Frames, Spectrum, log_mel, mel_filters

SMALL = Spectrum(rate=800, window=23, hop=7, bands=5)


def hertz(mel: float) -> float:
    return 700 * (10 ** (mel / 2595) - 1)


def filters_by_hand(spectrum: Spectrum) -> Tensor:
    """A triangle at a time, a frequency at a time."""
    top = 2595 * math.log10(1 + spectrum.rate / 2 / 700)
    corners = [hertz(top * i / (spectrum.bands + 1)) for i in range(spectrum.bands + 2)]
    table = torch.zeros(spectrum.bands, spectrum.window // 2 + 1).double()
    for band in range(spectrum.bands):
        low, middle, high = corners[band : band + 3]
        for number in range(spectrum.window // 2 + 1):
            f = number * spectrum.rate / spectrum.window
            if low < f <= middle:
                table[band, number] = (f - low) / (middle - low)
            elif middle < f < high:
                table[band, number] = (high - f) / (high - middle)
    return table


def written_out(samples: Tensor, spectrum: Spectrum) -> Tensor:
    """The spectrogram of one recording by sums of cosines and sines, before it is standardised."""
    n, rows = spectrum.window, []
    filters = filters_by_hand(spectrum)
    for begin in range(0, len(samples), spectrum.hop):
        frame = samples[begin : begin + n].tolist()
        frame += [0.0] * (n - len(frame))
        heard = [x * (0.5 - 0.5 * math.cos(2 * math.pi * t / n)) for t, x in enumerate(frame)]
        energies = []
        for f in range(n // 2 + 1):
            real = sum(x * math.cos(2 * math.pi * f * t / n) for t, x in enumerate(heard))
            imaginary = sum(x * math.sin(2 * math.pi * f * t / n) for t, x in enumerate(heard))
            energies.append(real**2 + imaginary**2)
        rows.append(filters @ torch.tensor(energies, dtype=torch.float64))
    heard = torch.stack(rows)
    return (heard + heard.max() / 10 ** (spectrum.depth / 10) + FLOOR).log()


@pytest.mark.parametrize(
    "spectrum", [SMALL, Spectrum(), Spectrum(rate=16000, window=400, hop=160, bands=80)], ids=str
)
def test_the_filters_are_triangles_on_the_mel_scale(spectrum: Spectrum) -> None:
    found = mel_filters(spectrum)
    torch.testing.assert_close(found, filters_by_hand(spectrum), rtol=0, atol=1e-12)
    inner = found[:, found.argmax(1)[0] : found.argmax(1)[-1]]
    torch.testing.assert_close(inner.sum(0), torch.ones(inner.shape[1]).double())  # halves overlap to 1


def test_the_mel_scale_is_a_thousand_at_a_thousand_hertz() -> None:
    assert hertz(1000) == pytest.approx(1000, rel=1e-3)


def test_the_spectrogram_is_the_transform_written_out() -> None:
    lengths = torch.tensor([61, 40, 5, 1])
    samples = torch.randn(4, 61).double()
    found = log_mel(samples, lengths, SMALL)
    assert found.shape == (4, 9, 5)
    for row, n in enumerate(lengths.tolist()):
        expected = written_out(samples[row, :n], SMALL)
        expected = expected - expected.mean(0)
        expected = expected / (expected.square().mean() + 1e-5).sqrt()
        torch.testing.assert_close(found[row, : len(expected)], expected, rtol=0, atol=1e-9)
        assert (found[row, len(expected) :] == 0).all()
        assert len(expected) == SMALL.frames(lengths)[row] == math.ceil(n / 7)


def test_a_tone_is_heard_in_its_band() -> None:
    spectrum = Spectrum()
    time = torch.arange(4000) / spectrum.rate
    loudest = [
        int(log_mel(torch.sin(2 * math.pi * f * time)[None], torch.tensor([4000]), spectrum)[0, 10].argmax())
        for f in (300.0, 1000.0, 2500.0)
    ]
    filters = mel_filters(spectrum)
    numbers = [round(f * spectrum.window / spectrum.rate) for f in (300, 1000, 2500)]
    assert [int(filters[:, number].argmax()) for number in numbers] == loudest
    assert loudest == sorted(set(loudest))


def test_loudness_does_not_matter_and_silence_is_zero() -> None:
    samples, n = torch.randn(1, 61).double(), torch.tensor([61])
    torch.testing.assert_close(
        log_mel(samples, n, SMALL), log_mel(samples * 1000, n, SMALL), rtol=0, atol=1e-6
    )
    assert (log_mel(torch.zeros(1, 61), n, SMALL).abs() < 1e-3).all()


def test_silence_counts_in_no_mean() -> None:
    """Frames written out, and those 20 decibels softer than the loudest left out of mean and variance by hand."""
    spectrum = replace(SMALL, silence=20.0)
    samples = torch.randn(61).double()
    samples[21:45] *= 1e-3
    found = log_mel(samples[None], torch.tensor([61]), spectrum)[0]
    expected = written_out(samples, spectrum)
    energy = (expected.exp() - expected.exp().max() / (1 + 10**4) - FLOOR).sum(1)
    counted = [energy[frame] >= energy.max() / 100 for frame in range(9)]
    assert 3 <= sum(counted) <= 7
    some = expected[torch.tensor(counted)]
    deviation = ((some - some.mean(0)).square().mean() + 1e-5).sqrt()
    torch.testing.assert_close(found, (expected - some.mean(0)) / deviation, rtol=0, atol=1e-6)


def test_with_silence_left_out_it_does_not_matter_how_closely_a_recording_is_cut() -> None:
    spoken = torch.randn(70).double()
    later = torch.cat([torch.zeros(70).double(), spoken, torch.zeros(140).double()])
    for silence, least, most in ((20.0, 0.0, 1e-6), (None, 0.2, math.inf)):
        spectrum = Spectrum(rate=800, window=7, hop=7, bands=2, silence=silence)
        cut = log_mel(spoken[None], torch.tensor([70]), spectrum)[0]
        loose = log_mel(later[None], torch.tensor([280]), spectrum)[0, 10:20]
        assert least <= (cut - loose).abs().max() <= most
    assert (log_mel(torch.zeros(1, 70), torch.tensor([70]), Spectrum(silence=20.0)).abs() < 1e-3).all()


def test_noise_far_below_the_loudest_is_not_heard() -> None:
    spoken, n = torch.randn(1, 4000).double(), torch.tensor([4000])
    spoken[:, 2000:] = 0
    noise = torch.randn(1, 4000).double()

    def change(strength: float, depth: float) -> float:
        spectrum = Spectrum(depth=depth)
        heard = log_mel(spoken + strength * noise, n, spectrum) - log_mel(spoken, n, spectrum)
        return float(heard.abs().max())

    assert change(1e-4, 40.0) < 0.01
    assert change(1e-4, 100.0) > 0.1
    assert change(0.1, 40.0) > 0.1


def test_tokens_are_two_convolutions_over_time_and_bands_and_a_linear_map() -> None:
    layer = Frames(13, spectrum=SMALL, channels=3, strides=(1, 2)).double()
    samples, n = torch.randn(1, 61).double(), torch.tensor([61])
    x = log_mel(samples, n, SMALL)[None]
    for convolution, stride in zip(layer.convolutions, (1, 2), strict=True):
        padded = F.pad(x, (1, 1, 1, 1))
        windows = padded.unfold(2, 3, stride).unfold(
            3, 3, 2
        )  # one window of 3 × 3 for every place that is kept
        x = F.gelu(
            torch.einsum("bithuv,oiuv->both", windows, convolution.weight) + convolution.bias[:, None, None]
        )
    expected = torch.einsum("both,woh->btw", x, layer.output.weight.view(13, 3, 2)) + layer.output.bias
    tokens, count = layer(samples, n)
    torch.testing.assert_close(tokens, expected, rtol=0, atol=1e-12)
    assert tokens.shape == (1, 5, 13)
    assert count.tolist() == [5]


def test_tokens_begin_as_large_as_positions() -> None:
    tokens, _ = Frames(64)(torch.randn(2, 4000), torch.tensor([4000, 4000]))
    assert 0.5 < tokens.square().mean().sqrt() < 1.5


@pytest.mark.parametrize("strides", [(1, 2), (2, 2, 2), (3,)])
def test_a_recording_gives_the_same_tokens_in_any_company(strides: tuple[int, ...]) -> None:
    layer = Frames(13, spectrum=SMALL, strides=strides).double()
    torch.nn.init.ones_(layer.output.bias)  # it starts at 0, which would hide what it does to padding
    lengths = torch.tensor([97, 40, 23, 3])
    samples = torch.randn(4, 131).double()
    tokens, count = layer(samples, lengths)
    assert count.tolist() == layer.count(lengths).tolist()
    for row, n in enumerate(lengths.tolist()):
        alone, (m,) = layer(samples[row : row + 1, :n], lengths[row : row + 1])
        assert alone.shape[1] == m == count[row]
        torch.testing.assert_close(tokens[row, :m], alone[0], rtol=0, atol=1e-12)
        assert (tokens[row, m:] == 0).all()


def test_what_is_in_the_padding_cannot_matter_to_the_bit() -> None:
    layer = Frames(13, spectrum=SMALL)
    lengths = torch.tensor([61, 40, 5])
    samples, found = torch.randn(3, 61), []
    padding = torch.arange(61) >= lengths[:, None]
    for filling in (0.0, math.nan, math.inf, 1e30):
        samples[padding] = filling
        layer.zero_grad()
        tokens, _ = layer(samples, lengths)
        tokens.square().sum().backward()
        found.append([tokens, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    assert len(found[0]) == 7


def test_mixed_precision_leaves_the_spectrogram_whole() -> None:
    samples, n = torch.randn(2, 61), torch.tensor([61, 40])
    exact = log_mel(samples, n, SMALL)
    with torch.autocast(samples.device.type, torch.bfloat16):
        assert torch.equal(log_mel(samples, n, SMALL), exact)


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="a hop no longer than the window"):
        Spectrum(window=10, hop=11)
    with pytest.raises(RegardError, match="depth=0: decibels above 0"):
        Spectrum(depth=0)
    with pytest.raises(RegardError, match="silence=0: decibels above 0"):
        Spectrum(silence=0)
    with pytest.raises(RegardError, match="bands=80 of a window of 100 samples: a band without a frequency"):
        Spectrum(window=100, bands=80)
    with pytest.raises(RegardError, match=r"strides=\(\)"):
        Frames(4, strides=())
