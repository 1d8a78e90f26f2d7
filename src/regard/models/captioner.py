"""The captioner: what is in a picture, in words.

Two ways to write: the decoder of the Transformer over an encoder of pictures, or the recurrent one over the tokens
themselves, as in Show, Attend and Tell (Xu 2015), which is where pictures were first asked by soft attention.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from einops import repeat

from regard.data.batches import Images
from regard.data.given import configured
from regard.models.kind import Kind
from regard.models.layout import Encoded
from regard.models.recurrent_writing import RecurrentState, RecurrentWriting, RecurrentWritingConfig
from regard.models.seeing import PictureConfig, PictureEncoder, PictureStackConfig, PictureTokens
from regard.models.stack import sizes
from regard.models.transformer import EncoderDecoder, EncoderDecoderConfig


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig(PictureStackConfig, EncoderDecoderConfig):
    """The settings of a captioner."""

    KIND: ClassVar[str] = "captioner"
    tied: Literal["none", "output"] = "output"  # the output matrix is the decoder's table


def pico() -> CaptionerConfig:
    """3 + 3 blocks of width 64 over pictures 8 pixels high: minutes on a laptop."""
    return CaptionerConfig(
        channels=1,
        image_size=(8, 48),
        patch=(4, 2),
        width=64,
        heads=4,
        depth=3,
        decoder_depth=3,
        hidden_width=128,
        feedforward="gelu",
        positions="learned",
        longest=64,
    )


class Captioner(EncoderDecoder[Images]):
    """p(text | picture), token by token."""

    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(configured(config, CaptionerConfig))
        self.make_table()
        self.encoder = PictureEncoder(config)
        self.make_decoder()

    def read(self, source: Images) -> Encoded:
        """The tokens of the pictures as the decoder sees them."""
        return self.encoder(source)


@dataclass(frozen=True, kw_only=True)
class RecurrentCaptionerConfig(PictureConfig, RecurrentWritingConfig):
    """The settings of a recurrent captioner."""

    KIND: ClassVar[str] = "recurrent-captioner"
    positions: Literal["learned", "sinusoidal", "none"] = "none"  # convolutions know their edges


def show_attend_tell() -> RecurrentCaptionerConfig:
    """An LSTM that asks convolutional features additively before each word (Xu 2015, section 3.1).

    Of the paper's refinements, neither the gate on the context nor the penalty on what was never looked at is here,
    and words are said as everywhere in this library, by W_o tanh(W_c [s_t, c_t]).
    """
    return RecurrentCaptionerConfig(
        tokens="convolutional", cell="lstm", attention="additive", wiring="recurrent-context"
    )


class RecurrentCaptioner(RecurrentWriting[Images]):
    """p(text | picture), token by token; the first state is a map of the mean token (Xu 2015, section 3.1.2)."""

    config: RecurrentCaptionerConfig

    def __init__(self, config: RecurrentCaptionerConfig) -> None:
        super().__init__(configured(config, RecurrentCaptionerConfig))
        self.make_table()
        self.encoder = PictureTokens(config, config.width, positions=config.positions, dropout=config.dropout)
        self.make_decoder(bridged=config.width, memory_width=config.width)

    def start(self, source: Images) -> RecurrentState:
        """Look at the pictures once; the decoder begins with what they are on average."""
        tokens = self.encoder(source)
        mean = repeat(tokens.mean(1), "b d -> b depth 1 d", depth=self.config.depth)
        return self.begin(mean, Encoded.full(tokens))


KIND = Kind(
    config=CaptionerConfig,
    model=Captioner,
    reads=("picture",),
    gives="text",
    task="description",
    verbs=("caption", "score"),
    sizes=sizes((64, 3, 3), (128, 4, 3), (192, 4, 4), (256, 6, 4), (384, 8, 6)),
    view="description",
    hub="image-to-text",
    presets={"pico": pico},
)
RECURRENT_KIND = replace(
    KIND,
    config=RecurrentCaptionerConfig,
    model=RecurrentCaptioner,
    presets={"show-attend-tell": show_attend_tell},
    sizes=(),
)
