"""The transcriber: what was said, in words. An encoder of recordings and the decoder of the Transformer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.data.batches import Sounds
from regard.data.given import configured
from regard.models.hearing import SoundEncoder, SoundStackConfig
from regard.models.kind import Kind
from regard.models.layout import Encoded
from regard.models.stack import sizes
from regard.models.transformer import EncoderDecoder, EncoderDecoderConfig


@dataclass(frozen=True, kw_only=True)
class TranscriberConfig(SoundStackConfig, EncoderDecoderConfig):
    """The settings of a transcriber."""

    KIND: ClassVar[str] = "transcriber"
    tied: Literal["none", "output"] = "output"  # the output matrix is the decoder's table


def pico() -> TranscriberConfig:
    """3 + 3 blocks of width 64: a few spoken words in minutes on a laptop."""
    return TranscriberConfig(width=64, heads=4, depth=3, decoder_depth=3, hidden_width=128)


class Transcriber(EncoderDecoder[Sounds]):
    """p(text | recording), token by token."""

    config: TranscriberConfig

    def __init__(self, config: TranscriberConfig) -> None:
        super().__init__(configured(config, TranscriberConfig))
        self.make_table()
        self.encoder = SoundEncoder(config)
        self.make_decoder()

    def read(self, source: Sounds) -> Encoded:
        """The frames of the recordings as the decoder sees them."""
        return self.encoder(source)


KIND = Kind(
    config=TranscriberConfig,
    model=Transcriber,
    reads=("sound",),
    gives="text",
    task="description",
    verbs=("transcribe", "score"),
    sizes=sizes((64, 3, 3), (128, 4, 3), (192, 6, 3), (256, 8, 4), (384, 10, 4)),
    view="description",
    hub="automatic-speech-recognition",
    presets={"pico": pico},
)
