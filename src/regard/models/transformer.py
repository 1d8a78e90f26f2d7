"""The Transformer: an encoder reads the source, a decoder writes the target (Vaswani 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Texts
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.models.kind import Kind, configured
from regard.models.layout import Encoded, Layout, readable, through
from regard.models.stack import embedding, encoder_blocks, last_norm
from regard.models.writing import Writing, WritingConfig


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(WritingConfig):
    """The settings of a Transformer."""

    KIND: ClassVar[str] = "transformer"
    source_vocabulary: int = 0  # 0: from the tokenizer

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            raise RegardError(
                f"tied='all' with vocabularies of {self.source_vocabulary} and {self.target_vocabulary}: one table "
                "serves one vocabulary; share it, or say tied='output'"
            )


def tiny() -> TransformerConfig:
    """4 + 4 blocks of width 128: minutes on a laptop."""
    return TransformerConfig(width=128, heads=4, depth=4, decoder_depth=4, hidden_width=256)


def base() -> TransformerConfig:
    """6 + 6 blocks of width 512 (Vaswani 2017, table 3)."""
    return TransformerConfig(width=512, heads=8, depth=6, decoder_depth=6, hidden_width=2048)


def big() -> TransformerConfig:
    """6 + 6 blocks of width 1024 (Vaswani 2017, table 3)."""
    return TransformerConfig(width=1024, heads=16, depth=6, decoder_depth=6, hidden_width=4096, dropout=0.3)


class Transformer(Writing[Texts]):
    """p(target | source), token by token."""

    product_norms: ClassVar[tuple[str, ...]] = ("encoder_norm", "decoder_norm")
    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(configured(config, TransformerConfig))
        self.make_table()
        if config.tied != "all":
            self.source_embedding = embedding(config, "source_vocabulary", config.source_vocabulary)
        self.encoder = encoder_blocks(config)
        self.encoder_norm = last_norm(config)
        self.make_decoder()

    def encode(self, source: Texts) -> Float[Tensor, "*b m d"]:
        """The sources as the decoder sees them."""
        return self.read(source).vectors

    def read(self, source: Texts) -> Encoded:
        """The same, with their layout."""
        self.check(source)
        layout = Layout.of(source)
        x = layout.sanitised(self._reader()(source.tokens, offset=layout.offset))
        return layout.encoded(self.encoder_norm(through(self.encoder, x, layout.own())))

    def check(self, source: Texts) -> None:
        """Refuse tokens that the table does not have, and lengths that do not fit."""
        readable(source, self._reader())

    def _reader(self) -> Embedding:
        return self.target_embedding if self.config.tied == "all" else self.source_embedding


KIND = Kind(
    config=TransformerConfig,
    model=Transformer,
    reads=("text",),
    gives="text",
    task="translation",
    verbs=("translate", "score"),
    view="translation",
    hub="translation",
    presets={"tiny": tiny, "base": base, "big": big},
    packs=True,
)
