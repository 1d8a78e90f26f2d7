"""The language model: a stack of blocks that look back, and say what comes next (Radford 2018)."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.keyvalue import KeyValue
from regard.attention.masks import Mask, causal, lengths
from regard.attention.projection import glorot
from regard.data.batches import Sequences, Texts
from regard.errors import RegardError
from regard.layers.blocks import EncoderBlock
from regard.models.kind import Kind
from regard.models.layout import Layout, layout_of, to_learn
from regard.models.objective import WordLoss
from regard.models.protocols import Loss, Spent
from regard.models.stack import StackConfig, embedding, encoder_blocks, last_norm
from regard.models.targets import shifted
from regard.models.validate import configured, following, readable


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(StackConfig):
    """The settings of a language model."""

    KIND: ClassVar[str] = "language"
    vocabulary: int = 0  # 0: from the tokenizer
    tied: Literal["none", "output"] = "output"  # the output matrix is the embedding's table
    feedforward: Literal["relu", "gelu", "swiglu"] = "gelu"
    smoothing: float = 0.0  # of the labels


@dataclass(frozen=True, eq=False)
class LanguageState:
    """The state of a generation. Texts are padded on the left: shorter ones begin after `padding` masked columns."""

    first: Int[Tensor, " rows"]
    pasts: tuple[KeyValue | None, ...]
    length: int  # columns written, padding included
    padding: Int[Tensor, " rows"] | None  # None: no row has any
    spent: Spent = field(default_factory=Spent)

    def pick(self, rows: Int[Tensor, " r"]) -> "LanguageState":
        """These rows, in this order."""
        self.spent.check()
        pasts = tuple(None if past is None else past.pick(rows) for past in self.pasts)
        padding = None if self.padding is None else self.padding[rows]
        return LanguageState(self.first[rows], pasts, self.length, padding)

    @property
    def rows(self) -> int:
        """How many texts are being written."""
        return self.first.shape[0]

    @property
    def offset(self) -> int | Int[Tensor, " rows"]:
        """The position of the next token in its own text."""
        return self.length if self.padding is None else self.length - self.padding

    def mask(self, new: int) -> Mask | None:
        """Who looks at whom when `new` columns are added; None for everything."""
        total = self.length + new
        order = None if new == 1 else causal(offset=self.length)
        if self.padding is None:
            return order
        if new == total:
            real = lengths(total - self.padding, padded="left")
        else:
            real = lengths(keys=total - self.padding, padded="left")
        return real if order is None else order & real


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
        self.objective = WordLoss(config.smoothing)

    def logits(self, batch: Texts) -> Float[Tensor, "*b n vocabulary"]:
        """The scores of what follows each token, given it and those before it."""
        readable(batch, self.embedding)
        return self._words(self._read(batch, layout_of(batch)))

    def loss(self, batch: Texts) -> Loss:
        """The cross-entropy of every token but the first, given those before it."""
        readable(batch, self.embedding)
        before, after = shifted(batch)
        layout = layout_of(before)
        vectors, targets = to_learn(self._read(before, layout), after, layout)
        return self.objective(vectors, self.word_table(), targets)

    def start(self, source: Sequences) -> LanguageState:
        """Read the prompts but for their last tokens, which the first step takes."""
        readable(source, self.embedding)
        shortest, longest = (int(n) for n in torch.stack([source.lengths.min(), source.lengths.max()]))
        if shortest < 1:
            raise RegardError("a prompt without a token: give at least one, such as START")
        padding = longest - source.lengths
        columns = torch.arange(longest, device=padding.device) - padding[:, None]
        tokens = source.tokens.gather(1, columns.clamp_min(0))
        empty = LanguageState(
            tokens[:, -1], (None,) * len(self.blocks), 0, None if shortest == longest else padding
        )
        return empty if longest == 1 else self._extend(tokens[:, :-1], empty)[1]

    def step(
        self, tokens: Int[Tensor, " rows"], state: LanguageState
    ) -> tuple[Float[Tensor, "rows vocabulary"], LanguageState]:
        """The logits of what follows these tokens, and the state after them."""
        tokens = following(tokens, state, LanguageState)
        state.spent.spend()
        x, state = self._extend(tokens[:, None], state)
        return self._words(self.norm(x[:, 0])), state

    def _extend(
        self, tokens: Int[Tensor, "rows n"], state: LanguageState
    ) -> tuple[Float[Tensor, "rows n d"], LanguageState]:
        new = tokens.shape[1]
        x, mask = self.embedding(tokens, offset=state.offset), state.mask(new)
        pasts = []
        for block, past in zip(cast("Iterable[EncoderBlock]", self.blocks), state.pasts, strict=True):
            x, past = block.step(x, past, mask=mask)
            pasts.append(past)
        return x, replace(state, pasts=tuple(pasts), length=state.length + new, spent=Spent())

    def _read(self, batch: Texts, layout: Layout) -> Float[Tensor, "*b n d"]:
        x, mask = layout.sanitised(self.embedding(batch.tokens, offset=layout.offset)), layout.back()
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.norm(x)

    def _words(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b vocabulary"]:
        return F.linear(x, self.embedding.table) if self.output is None else self.output(x)

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
    packs=True,
)
