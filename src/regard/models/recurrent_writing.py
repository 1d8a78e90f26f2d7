"""Recurrent decoder: one state that attends to a memory. Subclasses supply the encoder.

| wiring              | equation                                           | first seen                |
|---------------------|----------------------------------------------------|---------------------------|
| `recurrent-context` | c_t = a(s_{t−1}), s_t = f(s_{t−1}, [y_{t−1}, c_t]) | Bahdanau 2015, app. A.2.2 |
| `output-context`    | s_t = f(s_{t−1}, y_{t−1}), c_t = a(s_t)            | Luong 2015, section 3     |

Both say W_o tanh(W_c [s_t, c_t]) (Luong 2015, eq. 5).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.kv_cache import Memory
from regard.attention.masks import lengths
from regard.attention.multihead import glorot
from regard.attention.scores import make_score
from regard.data.batches import START, Pairs, Source
from regard.data.given import check_choices, check_vocabulary
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.recurrence import Recurrence
from regard.models.layout import Encoded, Spent, following, pairs, readable
from regard.models.objective import WordLoss
from regard.models.protocols import Loss
from regard.models.recurrent_attention import Alignment


@dataclass(frozen=True, kw_only=True)
class RecurrentWritingConfig:
    """The settings of a recurrent decoder, and of the encoder that is like it."""

    target_vocabulary: int = 0  # 0: from the tokenizer
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    width: int = 256  # of the states
    embedding_width: int = 256
    depth: int = 1  # layers of the decoder, and of a recurrent encoder
    attention: Literal["none", "dot", "scaled-dot", "cosine", "bilinear", "low-rank", "additive"] = "bilinear"
    form: Literal["plain", "projected"] = (
        "plain"  # states themselves are queries, keys and values, or maps of them
    )
    wiring: Literal["recurrent-context", "output-context"] = "output-context"
    rank: int = 32  # k, of the low-rank score
    additive_hidden: int | None = None  # r, units of the additive score; None: the width of the states
    dropout: float = 0.1
    smoothing: float = 0.1  # of the labels

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("width", "embedding_width", "depth", "rank"):
            if getattr(self, name) < 1:
                raise RegardError(f"{name}={getattr(self, name)}: at least 1")
        if self.additive_hidden is not None and self.additive_hidden < 1:
            raise RegardError(f"additive_hidden={self.additive_hidden}: at least 1, or null for the width")
        if not 0.0 <= self.dropout < 1.0:
            raise RegardError(f"dropout={self.dropout}: from 0 to below 1")


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The state of a generation: that of the decoder for each row, and the memory of the sources."""

    hidden: Float[Tensor, "rows depth parts width"]
    memory: Memory | None  # None: without attention nothing else is remembered
    spent: Spent = field(default_factory=Spent)

    @property
    def rows(self) -> int:
        """How many texts are being written."""
        return self.hidden.shape[0]

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """START, for every row."""
        return torch.full((self.hidden.shape[0],), START, device=self.hidden.device)

    @property
    def top(self) -> Float[Tensor, "rows 1 width"]:
        """What the last layer says."""
        return _top(self.hidden)

    def pick(self, rows: Int[Tensor, " r"]) -> "RecurrentState":
        """These rows, in this order."""
        self.spent.check()
        return RecurrentState(self.hidden[rows], None if self.memory is None else self.memory.pick(rows))


class RecurrentWriting(nn.Module, ABC, Generic[Source]):
    """p(target | source), token by token.

    A subclass makes the table of the target, then what reads, then the decoder: the order in which weights are drawn.
    """

    config: RecurrentWritingConfig
    target_embedding: Embedding
    decoder: Recurrence
    bridges: nn.ModuleList | None
    attention: Alignment | None

    def __init__(self, config: RecurrentWritingConfig) -> None:
        super().__init__()
        self.config = config
        # Whether the context goes back into the recurrence.
        self.feeds = config.attention != "none" and config.wiring == "recurrent-context"

    def make_table(self) -> None:
        """The table of the target."""
        self.target_embedding = self.table("target_vocabulary", self.config.target_vocabulary)

    def make_decoder(self, *, bridged: int | None, memory_width: int) -> None:
        """What writes, over a memory of this width. `bridged`: how many numbers a layer begins from, if it does not begin
        with a state as it is.
        """
        config, width = self.config, self.config.width
        projected = config.form == "projected"
        context = 0 if config.attention == "none" else width if projected else memory_width
        self.decoder = self.recurrence(config.embedding_width + (context if self.feeds else 0))
        self.bridges = None
        if bridged is not None:
            whole = width * self.decoder.parts
            self.bridges = nn.ModuleList(glorot(nn.Linear(bridged, whole)) for _ in range(config.depth))
        self.attention = None
        if config.attention != "none":
            hidden, key_width = config.additive_hidden or width, width if projected else memory_width
            score = make_score(config.attention, width, key_width, rank=config.rank, hidden=hidden)
            self.attention = Alignment(width, score, memory_width=memory_width, projected=projected)
        self.joint = glorot(nn.Linear(width + context, width, bias=False))  # W_c
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(width, config.target_vocabulary))  # W_o
        self.objective = WordLoss()

    def table(self, name: str, vocabulary: int) -> Embedding:
        """Tokens as vectors. `name` is the setting of the vocabulary."""
        size = check_vocabulary(name, vocabulary)
        return Embedding(size, self.config.embedding_width, dropout=self.config.dropout)

    def recurrence(self, inputs: int, *, width: int | None = None, both_ways: bool = False) -> Recurrence:
        """A recurrence as the settings say, of the decoder's width if not of another."""
        config = self.config
        return Recurrence(
            inputs,
            config.width if width is None else width,
            cell=config.cell,
            depth=config.depth,
            both_ways=both_ways,
            dropout=config.dropout,
        )

    @abstractmethod
    def start(self, source: Source) -> RecurrentState:
        """Read the sources; `begin` where they leave the decoder."""

    def begin(self, last: Float[Tensor, "b depth _ width"], memory: Encoded) -> RecurrentState:
        """The state before the first token, of what each layer begins from and of what can be asked.

        Over bridges it is tanh(W last); the cell of an LSTM has no bounds, so no tanh. Padding of the memory must
        hold zeros.
        """
        if self.bridges is not None:
            layers = zip(self.bridges, last.unbind(1), strict=True)
            mapped = torch.stack([bridge(layer.flatten(1)) for bridge, layer in layers], dim=1)
            mapped = rearrange(mapped, "b depth (part d) -> b depth part d", part=self.decoder.parts)
            last = torch.cat([mapped[:, :, :1].tanh(), mapped[:, :, 1:]], dim=2)
        if self.attention is None:
            return RecurrentState(last, None)
        return RecurrentState(last, Memory((self.attention.remember(memory.vectors),), memory.lengths))

    def logits(self, batch: Pairs[Source]) -> Float[Tensor, "b t vocabulary"]:
        """The scores of every target token, given those before it."""
        return self._words(self._decode(batch))

    def loss(self, batch: Pairs[Source]) -> Loss:
        """The cross-entropy of the target tokens."""
        joined, target = self._decode(batch), pairs(batch).target
        if target.filled:  # how many are real is not synchronised: targets less than 0 are ignored
            vectors, aims = joined.flatten(0, 1), target.tokens.where(target.real(), -1).flatten()
        else:
            vectors, aims = joined[target.real()], target.tokens[target.real()]
        weight, bias = self.output.weight, self.output.bias
        return self.objective(self._said(vectors), weight, aims, bias, smoothing=self.config.smoothing)

    def step(
        self, tokens: Int[Tensor, " rows"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows vocabulary"], RecurrentState]:
        """The logits of what follows these tokens, and the state after them."""
        tokens = following(tokens, state, RecurrentState)
        state.spent.spend()
        said, state = self._advance(self.target_embedding(tokens[:, None])[:, 0], state)
        return self._words(said), state

    def _advance(
        self, x: Float[Tensor, "rows e"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows joined"], RecurrentState]:
        """[s_t, c_t] after one more token, by either wiring."""
        asked = self._ask(state.top, state.memory) if self.feeds else []
        hidden = self.decoder.step(torch.cat([x, *(context[:, 0] for context in asked)], -1), state.hidden)
        top = _top(hidden)
        joined = torch.cat([top, *(asked if self.feeds else self._ask(top, state.memory))], -1)
        return joined[:, 0], RecurrentState(hidden, state.memory)

    def _decode(self, batch: Pairs[Source]) -> Float[Tensor, "b t joined"]:
        """[s_t, c_t] at every position."""
        readable(pairs(batch).target, self.target_embedding)
        state = self.start(batch.source)
        # Padding may hold anything, and would reach the gradient of the weights.
        x = torch.where(
            batch.target.real()[..., None], self.target_embedding(batch.target.decoder_input()), 0.0
        )
        if not self.feeds:
            tops, _ = self.decoder(x, state.hidden)
            return torch.cat([tops, *self._ask(tops, state.memory, batch.target.lengths)], -1)
        joined = []
        for token in x.unbind(1):
            said, state = self._advance(token, state)
            joined.append(said)
        return torch.stack(joined, dim=1)

    def _ask(self, tops: Tensor, memory: Memory | None, queries: Tensor | None = None) -> list[Tensor]:
        """The contexts of decoder states; none without attention."""
        if self.attention is None or memory is None:
            return []
        mask = memory.mask if queries is None else lengths(keys=memory.lengths, queries=queries)
        return [self.attention(tops, memory.layers[0], mask)]

    def _words(self, joined: Float[Tensor, "*b joined"]) -> Float[Tensor, "*b vocabulary"]:
        return self.output(self._said(joined))

    def _said(self, joined: Float[Tensor, "*b joined"]) -> Float[Tensor, "*b d"]:
        return self.dropout(torch.tanh(self.joint(joined)))


def _top(hidden: Tensor) -> Tensor:
    """[rows, 1, width]: the state of the last layer, without the cell of an LSTM."""
    return hidden[:, -1, :1]
