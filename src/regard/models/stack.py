"""What the Transformers have in common: the settings of their blocks, and the blocks made from them."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.biases import ALiBi, Bias, RelativeBuckets
from regard.attention.multihead import HeadSizes, MultiHeadAttention, Rotation
from regard.attention.scores import Score, make_score
from regard.data.given import check_choices, check_vocabulary
from regard.errors import RegardError
from regard.layers.blocks import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Placement,
    Residual,
    SwiGLU,
    after,
    before,
    inside,
)
from regard.layers.embedding import Embedding, Gaussian, Learned, Positions, Sinusoidal
from regard.layers.pooling import AttentionPooling
from regard.layers.rotary import Rotary

ROTATED = ("scaled-dot", "dot", "cosine")  # scores for rotary positions: turns keep lengths and angles
_PLACEMENTS: dict[str, Placement] = {"before": before, "after": after, "inside": inside}


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """The settings of a stack of blocks."""

    RENAMED: ClassVar[dict[str, str]] = {"inner": "hidden_width"}

    width: int = 512  # d_model
    heads: int = 8
    kv_heads: int | None = None  # fewer heads of key and value; None: as many
    score: Literal["scaled-dot", "dot", "cosine", "bilinear", "low-rank", "additive"] = "scaled-dot"
    rank: int | None = None  # k, of the low-rank score; None: half of a head's width
    additive_hidden: int | None = None  # r, units of the additive score; None: a head's width
    depth: int = 6  # blocks; of the encoder, where there is a decoder too
    hidden_width: int = 2048  # d_ff, the width inside the feed-forward map
    feedforward: Literal["relu", "gelu", "swiglu"] = "relu"
    norm: Literal["before", "after", "inside"] = "before"  # its place, see layers/blocks
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"] = (
        "sinusoidal"
    )
    position_width: int | None = None  # features of the width for positions alone; None: added to all of it
    longest: int = 1024  # positions that are learned
    dropout: float = 0.1  # of embeddings and of what each part of a block adds
    attention_dropout: float = 0.0  # of the weights
    stochastic_depth: float = 0.0  # share of samples that go around the last block; less for those before it

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("width", "heads", "hidden_width", "longest"):
            if getattr(self, name) < 1:
                raise RegardError(f"{name}={getattr(self, name)}: at least 1")
        for name in ("rank", "additive_hidden"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise RegardError(f"{name}={getattr(self, name)}: at least 1, or null for the default")
        if self.positions == "rotary" and self.score not in ROTATED:
            raise RegardError(
                f"positions='rotary', score={self.score!r}: turned queries and keys tell their distance to a dot product "
                f"alone; say score={' or '.join(map(repr, ROTATED))}, or other positions"
            )
        if self.position_width is not None:
            self._check_beside(self.position_width)
        if self.depth < 0:
            raise RegardError(f"depth={self.depth}: at least 0")
        for name in ("dropout", "attention_dropout", "stochastic_depth"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise RegardError(f"{name}={getattr(self, name)}: from 0 to below 1")

    def _check_beside(self, width: int) -> None:
        vectors = ("sinusoidal", "learned", "gaussian")
        if self.positions not in vectors:
            raise RegardError(
                f"position_width={width}, positions={self.positions!r}: only vectors can be concatenated, so say "
                f"positions={' or '.join(map(repr, vectors))}, or leave it out"
            )
        if not 0 < width < self.width:
            raise RegardError(
                f"position_width={width}, width={self.width}: at least 1, and less than the width, whose rest is the token's"
            )

    @property
    def token_width(self) -> int:
        """Features of a vector that are its token's: all of them, or all that positions leave."""
        return self.width - (self.position_width or 0)


def sizes(*each: tuple[int, int] | tuple[int, int, int]) -> tuple[dict[str, int], ...]:
    """Settings of some sizes, each from its width, its depth and the depth of its decoder: heads of 32 to 64 features, a
    feed-forward map four times as wide (Vaswani 2017, section 3.3).
    """
    made = []
    for width, *depths in each:
        heads = max(2, width // 64)
        blocks = dict(zip(("depth", "decoder_depth"), depths, strict=False))
        made.append({"width": width, "heads": heads, **blocks, "hidden_width": 4 * width})
    return tuple(made)


def embedding(config: StackConfig, name: str, vocabulary: int) -> Embedding:
    """Tokens as vectors, with positions in or beside them. `name` is the setting of the vocabulary."""
    size = check_vocabulary(name, vocabulary)
    return Embedding(
        size,
        config.token_width,
        positions=position_vectors(config),
        join="add" if config.position_width is None else "concatenate",
        dropout=config.dropout,
    )


def position_vectors(config: StackConfig) -> Positions | None:
    """Position vectors for those of a sequence; None where attention has positions of its own."""
    width = config.position_width or config.width
    if config.positions == "learned":
        return Learned(width, count=config.longest)
    make: dict[str, type[Positions]] = {"sinusoidal": Sinusoidal, "gaussian": Gaussian}
    return make[config.positions](width) if config.positions in make else None


def read_by_table(config: StackConfig, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
    """What an output matrix that is an embedding's table reads of a vector: the features that are a token's."""
    return x if config.position_width is None else x[..., : config.token_width].contiguous()


def encoder_blocks(
    config: StackConfig, *, two_way: bool = True, rotary: Rotation | None = None
) -> nn.ModuleList:
    """The blocks of an encoder, or of a language model."""
    skips = _skips(config, config.depth)
    return nn.ModuleList(encoder_block(config, two_way=two_way, rotary=rotary, skip=skip) for skip in skips)


def decoder_blocks(config: StackConfig, depth: int) -> nn.ModuleList:
    """The blocks of a decoder."""
    return nn.ModuleList(decoder_block(config, skip=skip) for skip in _skips(config, depth))


def encoder_block(
    config: StackConfig, *, two_way: bool = True, rotary: Rotation | None = None, skip: float = 0.0
) -> EncoderBlock:
    """A block that looks both ways, or is to be used with a causal mask. `rotary`: if not that of a text."""
    attention = _self_attention(config, two_way, rotary)
    return EncoderBlock(attention, _feedforward(config), _residual(config, skip))


def decoder_block(config: StackConfig, *, skip: float = 0.0) -> DecoderBlock:
    """A block that looks back, and at a memory."""
    attention = _self_attention(config, two_way=False)
    return DecoderBlock(attention, _attention(config), _feedforward(config), _residual(config, skip))


def questions(config: StackConfig, pooling: str) -> AttentionPooling | None:
    """The learned question of pooling='attention'; None where another pooling asks none."""
    if pooling != "attention":
        return None
    return AttentionPooling(
        MultiHeadAttention(config.width, config.heads, score=_score(config, config.heads))
    )


def last_norm(config: StackConfig) -> nn.Module:
    """The norm after the last block, for stacks whose sums have met none."""
    return nn.Identity() if config.norm == "after" else nn.LayerNorm(config.width)


def _skips(config: StackConfig, depth: int) -> list[float]:
    """How often each block is left out: more from block to block, in equal steps (Huang 2016, eq. 4)."""
    return [config.stochastic_depth * number / depth for number in range(1, depth + 1)]


def _self_attention(config: StackConfig, two_way: bool, rotary: Rotation | None = None) -> MultiHeadAttention:
    bias: Bias | None = None
    if config.positions == "alibi":
        bias = ALiBi(config.heads)
    elif config.positions == "relative":
        bias = RelativeBuckets(config.heads, two_way=two_way)  # one a block: no weight has two names
    if config.positions == "rotary" and rotary is None:
        rotary = Rotary(config.width // config.heads)
    return _attention(config, bias=bias, rotary=rotary)


def _attention(
    config: StackConfig, *, bias: Bias | None = None, rotary: Rotation | None = None
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        config.heads,
        sizes=HeadSizes(kv_heads=config.kv_heads),
        score=_score(config, config.kv_heads or config.heads),
        bias=bias,
        rotary=rotary,
        dropout=config.attention_dropout,
    )


def _score(config: StackConfig, kv_heads: int) -> Score:
    """The score of one attention, with weights of its own for every head."""
    width = max(config.width // config.heads, 1)  # attention itself refuses heads without features
    return make_score(
        config.score,
        width,
        width,
        rank=config.rank or max(width // 2, 1),
        hidden=config.additive_hidden or width,
        heads=config.heads,
        kv_heads=kv_heads,
    )


def _feedforward(config: StackConfig) -> nn.Module:
    if config.feedforward == "swiglu":
        return SwiGLU(config.width, config.hidden_width)
    activation = F.gelu if config.feedforward == "gelu" else F.relu
    return FeedForward(config.width, config.hidden_width, activation=activation)


def _residual(config: StackConfig, skip: float) -> partial[Residual]:
    placement = _PLACEMENTS[config.norm]
    return partial(Residual, config.width, placement=placement, dropout=config.dropout, skip=skip)
