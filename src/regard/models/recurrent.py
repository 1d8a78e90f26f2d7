"""The recurrent translator: one recurrence reads the source, another writes the target, asking the first.

Without attention nothing but the last state of the source reaches the decoder (Sutskever 2014), which is what a
long sentence does not fit through.
"""

from dataclasses import dataclass
from typing import ClassVar

from regard.data.batches import Sequences
from regard.data.given import configured
from regard.errors import RegardError
from regard.models.kind import Kind
from regard.models.layout import Encoded, readable
from regard.models.recurrent_writing import RecurrentState, RecurrentWriting, RecurrentWritingConfig


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(RecurrentWritingConfig):
    """The settings of a recurrent translator."""

    KIND: ClassVar[str] = "recurrent"
    source_vocabulary: int = 0  # 0: from the tokenizer
    bidirectional: bool = True  # the source is read both ways, half of the width each
    encoder_width: int | None = None  # of the encoder's states h; None: as wide as the decoder's s

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder_width is not None and self.encoder_width < 1:
            raise RegardError(f"encoder_width={self.encoder_width}: at least 1, or null for the width")
        if self.bidirectional and self.reading_width % 2:
            name = "width" if self.encoder_width is None else "encoder_width"
            raise RegardError(
                f"{name}={self.reading_width}, bidirectional: half of the width each way, so make it even"
            )
        unequal = self.form == "plain" and self.reading_width != self.width
        if unequal and self.attention in ("dot", "scaled-dot", "cosine"):
            raise RegardError(
                f"attention={self.attention!r} compares vectors of one width, and width={self.width}, "
                f"encoder_width={self.encoder_width}: say form='projected', or attention='bilinear', 'low-rank' or 'additive'"
            )

    @property
    def reading_width(self) -> int:
        """The width of the encoder's states."""
        return self.width if self.encoder_width is None else self.encoder_width


class RecurrentTranslator(RecurrentWriting[Sequences]):
    """p(target | source), token by token."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(configured(config, RecurrentConfig))
        self.source_embedding = self.table("source_vocabulary", config.source_vocabulary)
        self.make_table()
        width = config.reading_width
        self.encoder = self.recurrence(config.embedding_width, width=width, both_ways=config.bidirectional)
        # Two halves that read towards each other are no state of a decoder yet, nor is one of another width.
        bridged = config.bidirectional or width != config.width
        self.make_decoder(bridged=width * self.encoder.parts if bridged else None, memory_width=width)

    def start(self, source: Sequences) -> RecurrentState:
        """Read the sources; the decoder begins where the encoder ended."""
        tokens = readable(source, self.source_embedding)
        read = self.encoder.read_on if source.filled else self.encoder.read
        states, last = read(self.source_embedding(tokens), source.lengths)
        return self.begin(last, Encoded(states, source.lengths))


KIND = Kind(
    config=RecurrentConfig,
    model=RecurrentTranslator,
    reads=("text",),
    gives="text",
    task="translation",
    verbs=("translate", "score"),
    view="translation",
    hub="translation",
)
