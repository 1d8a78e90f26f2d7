"""The language model: a stack of blocks that look back, and say what comes next (Radford 2018)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.multihead import glorot
from regard.data.batches import Sequences, Texts
from regard.data.given import configured
from regard.layers.blocks import EncoderBlock
from regard.models.decoder_cache import KeyValueCache
from regard.models.kind import Kind
from regard.models.layout import Layout, following, readable, through
from regard.models.objective import WordLoss
from regard.models.protocols import Loss
from regard.models.stack import StackConfig, embedding, encoder_blocks, last_norm, read_by_table, sizes


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(StackConfig):
    """The settings of a language model."""

    KIND: ClassVar[str] = "language"
    vocabulary: int = 0  # 0: from the tokenizer
    tied: Literal["none", "output"] = "output"  # the output matrix is the embedding's table
    feedforward: Literal["relu", "gelu", "swiglu"] = "gelu"
    smoothing: float = 0.0  # of the labels


class LanguageModel(nn.Module):
    """p(text), token by token."""

    product_norms: ClassVar[tuple[str, ...]] = ("norm",)  # norms whose output only products read

    def __init__(self, config: LanguageConfig) -> None:
        configured(config, LanguageConfig)
        super().__init__()
        self.config = config
        self.embedding = embedding(config, "vocabulary", config.vocabulary)
        self.blocks = encoder_blocks(config, two_way=False)
        self.norm = last_norm(config)
        self.output: nn.Module | None = None  # tied to the table
        if config.tied == "none":
            self.output = glorot(nn.Linear(config.width, config.vocabulary, bias=False))
        self.objective = WordLoss()

    def logits(self, batch: Texts) -> Float[Tensor, "*b n vocabulary"]:
        """The scores of what follows each token, given it and those before it."""
        readable(batch, self.embedding)
        return self._words(self._read(batch, Layout.of(batch)))

    def loss(self, batch: Texts) -> Loss:
        """The cross-entropy of every token but the first, given those before it."""
        readable(batch, self.embedding)
        before, after = batch.shifted()
        layout = Layout.of(before)
        vectors, targets = layout.to_learn(self._read(before, layout), after)
        return self.objective(
            self._spoken(vectors), self.word_table(), targets, smoothing=self.config.smoothing
        )

    def start(self, source: Sequences) -> KeyValueCache:
        """Read the prompts but for their last tokens, which the first step takes."""
        readable(source, self.embedding)
        tokens, empty = KeyValueCache.of(source, depth=len(self.blocks))
        return self._extend(tokens, empty)[1]

    def step(
        self, tokens: Int[Tensor, " rows"], state: KeyValueCache
    ) -> tuple[Float[Tensor, "rows vocabulary"], KeyValueCache]:
        """The logits of what follows these tokens, and the state after them."""
        tokens = following(tokens, state, KeyValueCache)
        x, state = self._extend(tokens[:, None], state)
        return self._words(self.norm(x[:, 0])), state

    def _extend(
        self, tokens: Int[Tensor, "rows n"], state: KeyValueCache
    ) -> tuple[Float[Tensor, "rows n d"], KeyValueCache]:
        blocks = cast("Iterable[EncoderBlock]", self.blocks)
        return state.through(blocks, self.embedding(tokens, offset=state.offset()))

    def _read(self, batch: Texts, layout: Layout) -> Float[Tensor, "*b n d"]:
        x = layout.sanitised(self.embedding(batch.tokens, offset=layout.offset))
        return self.norm(through(self.blocks, x, layout.back()))

    def _words(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b vocabulary"]:
        x = self._spoken(x)
        return F.linear(x, self.embedding.table) if self.output is None else self.output(x)

    def _spoken(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """What the output matrix reads of a vector."""
        return x if self.config.tied == "none" else read_by_table(self.config, x)

    def tied_output(self) -> Tensor | None:
        """The output matrix, where it is also the table of embeddings."""
        return None if self.config.tied == "none" else self.embedding.table

    def word_table(self) -> Float[Tensor, "vocabulary d"]:
        """The output matrix, tied or not."""
        return self.embedding.table if self.config.tied != "none" else cast("nn.Linear", self.output).weight


KIND = Kind(
    config=LanguageConfig,
    model=LanguageModel,
    reads=("text",),
    gives="text",
    task="language",
    verbs=("generate", "score"),
    view="continuation",
    hub="text-generation",
    sizes=sizes((64, 3), (96, 4), (128, 4), (192, 5), (256, 6), (384, 6), (512, 8), (768, 12)),
    packs=True,
)
