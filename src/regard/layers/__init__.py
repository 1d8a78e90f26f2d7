"""What goes around attention: positions, embeddings, feed-forward maps, residuals, blocks, pooling."""

from regard.layers.blocks import DecoderBlock, DecoderState, EncoderBlock
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward, SwiGLU
from regard.layers.pooling import AttentionPooling
from regard.layers.positions import Gaussian, Grid, Learned, Positions, Sinusoidal
from regard.layers.recurrence import Recurrence
from regard.layers.residual import Residual, after, before, inside
from regard.layers.rotary import Rotary

__all__ = [
    "AttentionPooling",
    "DecoderBlock",
    "DecoderState",
    "Embedding",
    "EncoderBlock",
    "FeedForward",
    "Gaussian",
    "Grid",
    "Learned",
    "Positions",
    "Recurrence",
    "Residual",
    "Rotary",
    "Sinusoidal",
    "SwiGLU",
    "after",
    "before",
    "inside",
]
