"""What goes around attention: tokens of text, pictures and sound, positions, residuals, blocks, pooling."""

from regard.layers.blocks import DecoderBlock, DecoderState, EncoderBlock
from regard.layers.convolution import Convolutional, ConvolutionalFeatures
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward, SwiGLU
from regard.layers.frames import Frames, Spectrum, log_mel, mel_filters
from regard.layers.patches import Patches
from regard.layers.pooling import AttentionPooling, mean_pooling
from regard.layers.positions import Gaussian, Grid, Learned, LearnedGrid, Positions, Sinusoidal
from regard.layers.recurrence import Recurrence
from regard.layers.residual import Residual, StochasticDepth, after, before, inside
from regard.layers.rotary import GridRotary, Rotary

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
