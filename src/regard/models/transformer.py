"""The Transformer: an encoder reads the source, a decoder writes the target (Vaswani 2017)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import causal, lengths
from regard.attention.multihead import KeyValue
from regard.attention.projection import glorot
from regard.data.batches import START, Pairs, Sequences
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, DecoderState
from regard.layers.embedding import Embedding
from regard.models.memory import Memory
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss, Spent
from regard.models.stack import StackConfig, decoder_block, embedding, encoder_block, last_norm
from regard.models.targets import decoder_input


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(StackConfig):
    """The settings of a Transformer."""

    KIND: ClassVar[str] = "transformer"
    source_vocabulary: int = 0  # 0: from the tokenizer
    target_vocabulary: int = 0
    decoder_depth: int = 6  # blocks of the decoder; `depth` are the encoder's
    tied: Literal["none", "output", "all"] = (
        "output"  # the output matrix is the decoder's table, or all three are one
    )
    smoothing: float = 0.1  # of the labels

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            raise RegardError(
                f"tied='all' with vocabularies of {self.source_vocabulary} and {self.target_vocabulary}: one table "
                "serves one vocabulary; share it, or say tied='output'"
            )


def tiny() -> TransformerConfig:
    """4 + 4 blocks of width 128: minutes on a laptop."""
    return TransformerConfig(width=128, heads=4, depth=4, decoder_depth=4, inner=256)


def base() -> TransformerConfig:
    """6 + 6 blocks of width 512 (Vaswani 2017, table 3)."""
    return TransformerConfig(width=512, heads=8, depth=6, decoder_depth=6, inner=2048)


def big() -> TransformerConfig:
    """6 + 6 blocks of width 1024 (Vaswani 2017, table 3)."""
    return TransformerConfig(width=1024, heads=16, depth=6, decoder_depth=6, inner=4096, dropout=0.3)


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Where a translation stands: the memory of the sources, and what each row has written, as keys and values."""

    memory: Memory
    pasts: tuple[KeyValue | None, ...]
    length: int = 0  # tokens written
    spent: Spent = field(default_factory=Spent)

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """START, for every row."""
        return torch.full((self.memory.rows,), START, device=self.memory.lengths.device)

    def pick(self, rows: Int[Tensor, " r"]) -> "TransformerState":
        """These rows, in this order."""
        self.spent.check()
        pasts = tuple(None if past is None else past.pick(rows) for past in self.pasts)
        return TransformerState(self.memory.pick(rows), pasts, self.length)


class Transformer(nn.Module):
    """p(target | source), token by token."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = embedding(config, "target_vocabulary", config.target_vocabulary)
        if config.tied != "all":
            self.source_embedding = embedding(config, "source_vocabulary", config.source_vocabulary)
        self.encoder = nn.ModuleList(encoder_block(config) for _ in range(config.depth))
        self.encoder_norm = last_norm(config)
        self.decoder = nn.ModuleList(decoder_block(config) for _ in range(config.decoder_depth))
        self.decoder_norm = last_norm(config)
        if config.tied == "none":
            self.output = glorot(nn.Linear(config.width, config.target_vocabulary, bias=False))

    def encode(self, source: Sequences) -> Float[Tensor, "b m d"]:
        """The sources as the decoder sees them."""
        x = self._reader()(source.tokens)
        for block in self.encoder:
            x = block(x, mask=lengths(source.lengths))
        return self.encoder_norm(x)

    def logits(self, batch: Pairs) -> Float[Tensor, "b t vocabulary"]:
        """The scores of every target token, given those before it."""
        return self._words(self._decode(batch))

    def loss(self, batch: Pairs) -> Loss:
        """The cross-entropy of the target tokens."""
        real = batch.target.real
        words = self._words(self._decode(batch)[real])  # the widest product of all, spared for padding
        return cross_entropy(words, batch.target.tokens[real], smoothing=self.config.smoothing)

    def start(self, source: Sequences) -> TransformerState:
        """Read the sources; the decoder's keys and values of them are made once."""
        memory = self.encode(source)
        layers = tuple(block.cross.remember(memory) for block in self._decoder())
        return TransformerState(Memory(layers, source.lengths), (None,) * len(layers))

    def step(
        self, tokens: Int[Tensor, " rows"], state: TransformerState
    ) -> tuple[Float[Tensor, "rows vocabulary"], TransformerState]:
        """The logits of what follows these tokens, and the state after them."""
        state.spent.spend()
        x = self.target_embedding(tokens[:, None], offset=state.length)
        pasts = []
        for block, layer, past in zip(self._decoder(), state.memory.layers, state.pasts, strict=True):
            x, after = block.step(x, DecoderState(layer, past), memory_mask=state.memory.mask)
            pasts.append(after.past)
        logits = self._words(self.decoder_norm(x[:, 0]))
        return logits, TransformerState(state.memory, tuple(pasts), state.length + 1)

    def _decode(self, batch: Pairs) -> Float[Tensor, "b t d"]:
        memory = self.encode(batch.source)
        x = self.target_embedding(decoder_input(batch.target))
        mask, memory_mask = causal() & lengths(batch.target.lengths), lengths(keys=batch.source.lengths)
        for block in self.decoder:
            x = block(x, memory, mask=mask, memory_mask=memory_mask)
        return self.decoder_norm(x)

    def _words(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b vocabulary"]:
        return self.output(x) if self.config.tied == "none" else F.linear(x, self.target_embedding.table)

    def _decoder(self) -> Iterable[DecoderBlock]:
        return cast("Iterable[DecoderBlock]", self.decoder)

    def _reader(self) -> Embedding:
        return self.target_embedding if self.config.tied == "all" else self.source_embedding
