"""What goes around attention: tokens of text, pictures and sound, positions, residuals, blocks, pooling."""

from regard.layers.blocks import (
    DecoderBlock,
    DecoderState,
    EncoderBlock,
    FeedForward,
    Residual,
    StochasticDepth,
    SwiGLU,
    after,
    before,
    inside,
)
from regard.layers.convolution import Convolutional, ConvolutionalFeatures
from regard.layers.embedding import Embedding, Gaussian, Learned, Positions, Sinusoidal
from regard.layers.frames import Frames, Spectrum, log_mel, mel_filters
from regard.layers.grid_positions import Grid, GridRotary, LearnedGrid
from regard.layers.patches import Patches
from regard.layers.pooling import AttentionPooling, mean_pooling
from regard.layers.recurrence import Recurrence
from regard.layers.rotary import Rotary

__all__ = [
    "AttentionPooling",
    "Convolutional",
    "ConvolutionalFeatures",
    "DecoderBlock",
    "DecoderState",
    "Embedding",
    "EncoderBlock",
    "FeedForward",
    "Frames",
    "Gaussian",
    "Grid",
    "GridRotary",
    "Learned",
    "LearnedGrid",
    "Patches",
    "Positions",
    "Recurrence",
    "Residual",
    "Rotary",
    "Sinusoidal",
    "Spectrum",
    "StochasticDepth",
    "SwiGLU",
    "after",
    "before",
    "inside",
    "log_mel",
    "mean_pooling",
    "mel_filters",
]
