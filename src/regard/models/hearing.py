"""What hears: recordings as tokens, the encoder over them, and a classifier of sounds."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import lengths
from regard.attention.multihead import glorot
from regard.data.batches import Sounds
from regard.data.given import configured
from regard.layers.frames import Frames, Spectrum
from regard.models.kind import Kind
from regard.models.layout import Encoded, recordings, through
from regard.models.mixup import MixedLabelling, check_classes
from regard.models.stack import StackConfig, encoder_blocks, last_norm, position_vectors, questions, sizes


@dataclass(frozen=True, kw_only=True)
class SoundConfig:
    """How recordings become tokens; in samples, so a recording must have the rate."""

    rate: int = 8000  # samples a second
    window: int = 200  # samples of a frame
    hop: int = 80  # samples from one frame to the next
    bands: int = 40  # of the mel spectrogram
    hearing_depth: float = 40.0  # decibels below the loudest of a recording: what is softer is noise
    silence: float | None = None  # decibels below the loudest frame; softer ones are in no mean
    frame_channels: int = 32  # of the convolutions over the spectrogram
    frame_strides: tuple[int, ...] = (2, 1)  # over time, of each of them

    @property
    def spectrum(self) -> Spectrum:
        """The part that concerns the spectrogram."""
        return Spectrum(
            rate=self.rate,
            window=self.window,
            hop=self.hop,
            bands=self.bands,
            depth=self.hearing_depth,
            silence=self.silence,
        )


@dataclass(frozen=True, kw_only=True)
class SoundStackConfig(SoundConfig, StackConfig):
    """The settings of an encoder of recordings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.spectrum  # which refuses what cannot be


class SoundEncoder(nn.Module):
    """Frames of recordings that have looked at each other."""

    def __init__(self, config: SoundStackConfig) -> None:
        super().__init__()
        self.frames = Frames(
            config.token_width,
            spectrum=config.spectrum,
            channels=config.frame_channels,
            strides=config.frame_strides,
        )
        self.positions = position_vectors(config)
        self.beside = config.position_width is not None
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = encoder_blocks(config)
        self.norm = last_norm(config)

    def forward(self, sounds: Sounds) -> Encoded:
        """Every token, having looked at all that are real."""
        recordings(sounds)
        x, count = self.frames(sounds.samples, sounds.lengths)
        if self.positions is not None:
            x = self.positions.concatenate(x) if self.beside else self.positions.add(x)
        return Encoded(self.norm(through(self.blocks, self.dropout(x), lengths(count))), count)


@dataclass(frozen=True, kw_only=True)
class HearingConfig(SoundStackConfig):
    """The settings of a classifier of sounds."""

    KIND: ClassVar[str] = "hearing"
    classes: int = 10
    pooling: Literal["attention", "mean"] = "attention"  # how a recording becomes one vector
    smoothing: float = 0.0  # of the labels
    mixup: float = 0.0  # α of Beta(α, α), from which shares of two recordings are drawn in training; 0: none

    def __post_init__(self) -> None:
        super().__post_init__()
        check_classes(self.classes, self.mixup)


def pico() -> HearingConfig:
    """3 blocks of width 64: spoken words in minutes on a laptop."""
    return HearingConfig(width=64, heads=4, depth=3, hidden_width=128)


class Hearing(MixedLabelling[Sounds]):
    """p(class | recording)."""

    def __init__(self, config: HearingConfig) -> None:
        configured(config, HearingConfig)
        super().__init__(mixup=config.mixup, smoothing=config.smoothing)
        self.config = config
        self.encoder = SoundEncoder(config)
        self.pooling = questions(config, config.pooling)
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(config.width, config.classes))

    def scores(self, inputs: Sounds) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""
        return self.output(self.dropout(self.encoder(inputs).pooled(self.config.pooling, self.pooling)))


KIND = Kind(
    config=HearingConfig,
    model=Hearing,
    reads=("sound",),
    gives="class",
    task="classification",
    verbs=("classify",),
    view="media-class",
    hub="audio-classification",
    sizes=sizes((64, 3), (128, 4), (192, 6), (256, 8)),
    presets={"pico": pico},
)
