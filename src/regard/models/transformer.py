"""The Transformer: an encoder reads the source, a decoder writes the target (Vaswani 2017).

What every Transformer with an encoder and a decoder shares comes first: the captioner and the transcriber supply other
encoders.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kv_cache import Asked, BeamCache, GrowingSlots, KeyValue, Memory
from regard.attention.multihead import glorot
from regard.data.batches import START, Pairs, Source, Texts
from regard.data.given import configured
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, DecoderState
from regard.layers.embedding import Embedding, Offset
from regard.models.fused_step import DecoderParts, FusedStep, obstacle
from regard.models.kind import Kind
from regard.models.layout import Encoded, Layout, Spent, following, pairs, readable, through
from regard.models.objective import WordLoss
from regard.models.protocols import Loss
from regard.models.stack import (
    StackConfig,
    decoder_blocks,
    embedding,
    encoder_blocks,
    last_norm,
    read_by_table,
    sizes,
)
from regard.models.static_decoder import StaticDecoder


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(StackConfig):
    """The settings of a decoder, and of the encoder whose blocks are like its own."""

    target_vocabulary: int = 0  # 0: from the tokenizer
    decoder_depth: int = 6  # blocks of the decoder; `depth` are the encoder's
    tied: Literal["none", "output", "all"] = (
        "output"  # the output matrix is the decoder's table, or all three are one
    )
    smoothing: float = 0.1  # of the labels


Past = KeyValue | BeamCache


@dataclass(frozen=True, eq=False)
class EncoderDecoderState:
    """The state of a generation: the memory of the sources, and the KV cache of what each row has written."""

    memory: Memory
    pasts: tuple[Past | None, ...]
    length: int = 0  # tokens written
    shares: bool = False  # whether rows of one source may share a cache
    spent: Spent = field(default_factory=Spent)

    @property
    def rows(self) -> int:
        """How many texts are being written."""
        return self.memory.rows

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """START, for every row."""
        return torch.full((self.memory.rows,), START, device=self.memory.lengths.device)

    def pick(self, rows: Int[Tensor, " r"]) -> "EncoderDecoderState":
        """These rows, in this order."""
        self.spent.check()
        asked = self.memory.asked(rows)
        return EncoderDecoderState(self.memory.of(asked), self._pasts(rows, asked), self.length, self.shares)

    def _pasts(self, rows: Int[Tensor, " r"], asked: Asked) -> tuple[Past | None, ...]:
        first = next(iter(self.pasts), None)
        one_a_source = isinstance(first, KeyValue) and self.memory.group == 1
        if not self.shares or asked.group == 1 or not (one_a_source or isinstance(first, BeamCache)):
            return tuple(None if past is None else past.pick(rows) for past in self.pasts)
        # Nothing is copied but for sources that are finished: a text finds its past among those of its source.
        kept = [past.kept if isinstance(past, BeamCache) else past for past in self.pasts if past is not None]
        if isinstance(first, BeamCache) and isinstance(first.slots, GrowingSlots):
            slots = first.slots.pick(rows, asked.sources)
        else:
            slots = GrowingSlots.of(len(asked.sources), asked.group, self.length, device=rows.device)
        if not asked.everyone:
            kept = [past.pick(asked.sources) for past in kept]
        return tuple(BeamCache(past, slots) for past in kept)


class EncoderDecoder(nn.Module, ABC, Generic[Source]):
    """p(target | source), token by token: a decoder that looks at an encoded source. Subclasses supply the encoder.

    A subclass makes the table of the target, then what reads, then the decoder: the order in which weights are drawn.
    """

    product_norms: ClassVar[tuple[str, ...]] = ("decoder_norm",)  # norms whose output only products read
    config: EncoderDecoderConfig
    target_embedding: Embedding
    decoder: nn.ModuleList
    decoder_norm: nn.Module

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.fused_step: FusedStep | None = None  # set by `optimise`

    def make_table(self) -> None:
        """The table of the target."""
        self.target_embedding = embedding(self.config, "target_vocabulary", self.config.target_vocabulary)

    def make_decoder(self) -> None:
        """The blocks that write, and the way back from vectors to words."""
        self.decoder = decoder_blocks(self.config, self.config.decoder_depth)
        self.decoder_norm = last_norm(self.config)
        self.output: nn.Module | None = None  # tied to the table
        if self.config.tied == "none":
            self.output = glorot(nn.Linear(self.config.width, self.config.target_vocabulary, bias=False))
        self.objective = WordLoss()

    @abstractmethod
    def read(self, source: Source) -> Encoded:
        """The sources as the decoder sees them."""

    def logits(self, batch: Pairs[Source, Any]) -> Float[Tensor, "*b t vocabulary"]:
        """The scores of every target token, given those before it."""
        return self._words(self._decode(batch, Layout.of(self._target(batch))))

    def loss(self, batch: Pairs[Source, Any]) -> Loss:
        """The cross-entropy of the target tokens."""
        layout = Layout.of(self._target(batch))
        vectors, targets = layout.to_learn(self._decode(batch, layout), batch.target)
        return self.objective(
            self._spoken(vectors), self.word_table(), targets, smoothing=self.config.smoothing
        )

    def start(self, source: Source) -> EncoderDecoderState:
        """Read the sources; the decoder's keys and values of them are made once."""
        memory = self.read(source).in_rows()
        vectors = torch.where(
            memory.real()[..., None], memory.vectors, 0.0
        )  # once, rather than at every step
        layers = tuple(block.cross.remember(vectors).compact() for block in self._decoder())
        shares = all(block.attention.bias is None for block in self._decoder())
        return EncoderDecoderState(Memory(layers, memory.lengths), (None,) * len(layers), shares=shares)

    def step(
        self, tokens: Int[Tensor, " rows"], state: EncoderDecoderState
    ) -> tuple[Float[Tensor, "rows vocabulary"], EncoderDecoderState]:
        """The logits of what follows these tokens, and the state after them."""
        tokens = following(tokens, state, EncoderDecoderState)
        state.spent.spend()
        logits, pasts = self.advance(tokens, state.length, state.memory, state.pasts)
        return logits, EncoderDecoderState(state.memory, pasts, state.length + 1, state.shares)

    def advance(
        self, tokens: Int[Tensor, " rows"], offset: Offset, memory: Memory, pasts: Iterable[Past | None]
    ) -> tuple[Float[Tensor, "rows vocabulary"], tuple[Past | None, ...]]:
        """The logits of what follows tokens at this position, and the pasts with them."""
        x = self.target_embedding(tokens[:, None], offset=offset)
        afters = []
        for block, layer, past in zip(self._decoder(), memory.layers, pasts, strict=True):
            x, after = block.step(
                x, DecoderState(layer, past), memory_mask=memory.mask, memory_reach=memory.reach
            )
            afters.append(after.past)
        return self._words(self.decoder_norm(x[:, 0])), tuple(afters)

    def static_state(self, state: EncoderDecoderState, *, capacity: int, group: int) -> StaticDecoder | None:
        """Fixed-size caches for `group` texts a source of `capacity` tokens; None if rows cannot share a cache, or
        there are not so many positions.
        """
        if self.fused_step is not None:
            self.fused_step.refuse_altered(self)
        if not state.shares or not state.memory.layers or not self.target_embedding.reaches(capacity):
            return None
        return StaticDecoder(self.target_embedding, state.memory, capacity=capacity, group=group)

    def step_static(
        self, tokens: Int[Tensor, " rows"], state: StaticDecoder
    ) -> Float[Tensor, "rows vocabulary"]:
        """The logits of what follows these tokens."""
        if self.fused_step is not None and self.fused_step.fits(len(tokens)):
            return self.fused_step(tokens, state)
        return self.advance(tokens, state.offset, state.memory, state.pasts)[0]

    def fuse_step(self) -> str | None:
        """Step with few kernels from now on, for inference; the reason why not, where that cannot be."""
        parts = DecoderParts(
            embedding=self.target_embedding,
            blocks=tuple(self._decoder()),
            norm=self.decoder_norm,
            output=self.output,
        )
        reason = obstacle(parts)
        self.fused_step = FusedStep(parts) if reason is None else None
        return reason

    def _target(self, batch: Pairs[Source, Any]) -> Any:
        """The targets, if they can be read."""
        target = pairs(batch).target
        readable(target, self.target_embedding)
        return target

    def _decode(self, batch: Pairs[Source, Any], layout: Layout) -> Float[Tensor, "*b t d"]:
        memory = self.read(batch.source)
        x = layout.sanitised(self.target_embedding(layout.decoder_input(batch.target), offset=layout.offset))
        mask, memory_mask = layout.back().shared(), layout.asking(memory.layout).shared()
        for block in self.decoder:
            x = block(x, memory.vectors, mask=mask, memory_mask=memory_mask)
        return self.decoder_norm(x)

    def _words(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b vocabulary"]:
        x = self._spoken(x)
        return F.linear(x, self.target_embedding.table) if self.output is None else self.output(x)

    def _spoken(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """What the output matrix reads of a vector."""
        return x if self.config.tied == "none" else read_by_table(self.config, x)

    def tied_output(self) -> Tensor | None:
        """The output matrix, where it is also a table of embeddings."""
        return None if self.config.tied == "none" else self.target_embedding.table

    def word_table(self) -> Float[Tensor, "vocabulary d"]:
        """The output matrix, tied or not."""
        return (
            self.target_embedding.table
            if self.config.tied != "none"
            else cast("nn.Linear", self.output).weight
        )

    def _decoder(self) -> Iterable[DecoderBlock]:
        return cast("Iterable[DecoderBlock]", self.decoder)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(EncoderDecoderConfig):
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


class Transformer(EncoderDecoder[Texts]):
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
    sizes=sizes(
        (64, 2, 2), (96, 2, 2), (128, 2, 2), (192, 3, 3), (256, 4, 3), (256, 6, 3), (384, 6, 4), (512, 6, 6)
    ),
    packs=True,
)
