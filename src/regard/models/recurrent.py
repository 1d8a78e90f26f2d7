"""The recurrent translator: one recurrence reads the source, another writes the target, asking the first.

| wiring              | equation                                           | first seen                |
|---------------------|----------------------------------------------------|---------------------------|
| `recurrent-context` | c_t = a(s_{t−1}), s_t = f(s_{t−1}, [y_{t−1}, c_t]) | Bahdanau 2015, app. A.2.2 |
| `output-context`    | s_t = f(s_{t−1}, y_{t−1}), c_t = a(s_t)            | Luong 2015, section 3     |

Both say W_o tanh(W_c [s_t, c_t]) (Luong 2015, eq. 5). Without attention nothing but the last state of the source
reaches the decoder (Sutskever 2014), which is what a long sentence does not fit through.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import lengths
from regard.attention.projection import glorot
from regard.data.batches import START, Pairs, Sequences
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.recurrence import Recurrence
from regard.models.alignment import Alignment, make_score
from regard.models.choices import check_choices, check_vocabulary
from regard.models.memory import Memory
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss, Spent
from regard.models.targets import decoder_input


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """The settings of a recurrent translator."""

    KIND: ClassVar[str] = "recurrent"
    source_vocabulary: int = 0  # 0: from the tokenizer
    target_vocabulary: int = 0
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    bidirectional: bool = True  # the source is read both ways, half of the width each
    width: int = 256  # of the states
    embedding_width: int = 256
    depth: int = 1  # layers of the encoder, and of the decoder
    attention: Literal["none", "dot", "scaled-dot", "cosine", "bilinear", "low-rank", "additive"] = "bilinear"
    form: Literal["plain", "projected"] = (
        "plain"  # states themselves are queries, keys and values, or maps of them
    )
    wiring: Literal["recurrent-context", "output-context"] = "output-context"
    rank: int = 32  # of the low-rank score
    dropout: float = 0.1
    smoothing: float = 0.1  # of the labels

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("width", "embedding_width", "depth", "rank"):
            if getattr(self, name) < 1:
                raise RegardError(f"{name}={getattr(self, name)}: at least 1")
        if self.bidirectional and self.width % 2:
            raise RegardError(
                f"width={self.width}, bidirectional: half of the width each way, so make it even"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise RegardError(f"dropout={self.dropout}: from 0 to below 1")


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """Where a translation stands: the state of the decoder for each row, and the memory of the sources."""

    hidden: Float[Tensor, "rows depth parts width"]
    memory: Memory | None  # None: without attention nothing else is remembered
    spent: Spent = field(default_factory=Spent)

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


class RecurrentTranslator(nn.Module):
    """p(target | source), token by token."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        width, asks = config.width, config.attention != "none"
        source = check_vocabulary("source_vocabulary", config.source_vocabulary)
        target = check_vocabulary("target_vocabulary", config.target_vocabulary)
        self.source_embedding = Embedding(source, config.embedding_width, dropout=config.dropout)
        self.target_embedding = Embedding(target, config.embedding_width, dropout=config.dropout)
        self.encoder = _recurrence(config, config.embedding_width, both_ways=config.bidirectional)
        self.feeds = asks and config.wiring == "recurrent-context"  # the context back into the recurrence
        self.decoder = _recurrence(config, config.embedding_width + (width if self.feeds else 0))
        if config.bidirectional:
            whole = width * self.decoder.parts
            self.bridges = nn.ModuleList(glorot(nn.Linear(whole, whole)) for _ in range(config.depth))
        self.attention: Alignment | None = None
        if config.attention != "none":
            score = make_score(config.attention, width, rank=config.rank)
            self.attention = Alignment(width, score, projected=config.form == "projected")
        self.joint = glorot(nn.Linear(2 * width if asks else width, width, bias=False))  # W_c
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(width, target))  # W_o

    def logits(self, batch: Pairs) -> Float[Tensor, "b t vocabulary"]:
        """The scores of every target token, given those before it."""
        return self._words(self._decode(batch))

    def loss(self, batch: Pairs) -> Loss:
        """The cross-entropy of the target tokens."""
        real = batch.target.real
        words = self._words(self._decode(batch)[real])
        return cross_entropy(words, batch.target.tokens[real], smoothing=self.config.smoothing)

    def start(self, source: Sequences) -> RecurrentState:
        """Read the sources; the decoder begins where the encoder ended."""
        states, last = self.encoder.read(self.source_embedding(source.tokens), source.lengths)
        if self.config.bidirectional:
            last = self._bridged(last)
        if self.attention is None:
            return RecurrentState(last, None)
        return RecurrentState(last, Memory((self.attention.remember(states),), source.lengths))

    def step(
        self, tokens: Int[Tensor, " rows"], state: RecurrentState
    ) -> tuple[Float[Tensor, "rows vocabulary"], RecurrentState]:
        """The logits of what follows these tokens, and the state after them."""
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

    def _decode(self, batch: Pairs) -> Float[Tensor, "b t joined"]:
        """[s_t, c_t] at every position."""
        state = self.start(batch.source)
        # Padding may hold anything, and would reach the gradient of the weights.
        x = torch.where(batch.target.real[..., None], self.target_embedding(decoder_input(batch.target)), 0.0)
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

    def _bridged(self, last: Float[Tensor, "b depth parts width"]) -> Float[Tensor, "b depth parts width"]:
        """tanh(W [h→, h←]) as the decoder's first state; the cell of an LSTM has no bounds, so no tanh."""
        layers = zip(self.bridges, last.unbind(1), strict=True)
        mapped = torch.stack([bridge(layer.flatten(1)).view_as(layer) for bridge, layer in layers], dim=1)
        return torch.cat([mapped[:, :, :1].tanh(), mapped[:, :, 1:]], dim=2)

    def _words(self, joined: Float[Tensor, "*b joined"]) -> Float[Tensor, "*b vocabulary"]:
        return self.output(self.dropout(torch.tanh(self.joint(joined))))


def _recurrence(config: RecurrentConfig, inputs: int, *, both_ways: bool = False) -> Recurrence:
    return Recurrence(
        inputs,
        config.width,
        cell=config.cell,
        depth=config.depth,
        both_ways=both_ways,
        dropout=config.dropout,
    )


def _top(hidden: Tensor) -> Tensor:
    """[rows, 1, width]: the state of the last layer, without the cell of an LSTM."""
    return hidden[:, -1, :1]
