"""What is looked at in the tests of the page: a translation, a text, a picture and a sound."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.attention.masks import causal
from regard.attention.multihead import MultiHeadAttention
from regard.data.tokenizer import Tokenizer
from regard.models.fusion import Fusion, FusionConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.answering import Labeller, Translator
from regard.runs.inputs import PairReader, PictureReader, SoundReader
from regard.sight.explorer.classifier_view import ClassifierView
from regard.sight.explorer.example import Example, Picture
from regard.sight.explorer.generation_view import GenerationView
from regard.sight.explorer.watched import example_of
from regard.sight.watch import watch

WORDS = [
    "look",
    "where",
    "it",
    "looks",
    ",",
    "and",
    "see",
    "what",
    "it",
    "sees",
    ";",
    "then",
    "ask",
    "why",
    "it",
    "looked",
    "there",
    "at",
    "all",
    ".",
]


class Reader(torch.nn.Module):
    """Two layers of self-attention that are not alike."""

    def __init__(self, heads: int = 4, *, forwards: bool = False) -> None:
        super().__init__()
        self.first, self.second = (MultiHeadAttention(32, heads) for _ in range(2))
        self.forwards = forwards

    def forward(self, x: Tensor) -> Tensor:
        mask = None if self.forwards else causal()
        x = x + 3 * self.first(x, mask=mask)
        return x + self.second(3 * x, mask=mask)


def tokens_of(count: int) -> list[str]:
    """Running text with the space before each word, as byte-level tokenizers have it."""
    return [(" " if place else "") + WORDS[place % len(WORDS)] for place in range(count)]


def _vectors(count: int) -> Tensor:
    """Vectors near those of their neighbours, so that the maps have something to show."""
    place = torch.arange(count)[:, None] * torch.exp(-torch.arange(16) * 0.4)
    return 2 * torch.cat([place.sin(), place.cos()], -1) + torch.randn(count, 32)


def text(count: int = 40, tokens: list[str] | None = None) -> Example:
    """A text read by causal self-attention."""
    model = Reader()
    with torch.no_grad(), watch(model) as seen:
        model(_vectors(count)[None])
    return example_of(seen, tokens or tokens_of(count), name=f"{count} tokens")


def translation(beam: int = 3) -> Example:
    """An untrained translator: what it writes is nonsense, and every part of it is there."""
    lines = ["the old house by the sea", "the house", "an old sea", "see the old house"]
    own = Tokenizer.train(lines, kind="word", size=60)
    config = TransformerConfig(
        source_vocabulary=own.size, target_vocabulary=own.size, width=32, heads=4, hidden_width=32, depth=2
    )
    while True:  # some of them have nothing to say
        translator = Translator(Transformer(config).eval(), {"source": own})
        translator.decoding = replace(translator.decoding, longest=1.0, extra=0)
        made = GenerationView(loaded=translator, given="the old house by the sea", beam=beam).look({}, [])
        if all(len(output.steps or ()) > 3 for output in made.outputs or ()):
            return made


def picture() -> Example:
    """Patches of a picture and one more token."""
    y, x = np.mgrid[0:56, 0:56]
    pixels = np.stack([4 * x, 4 * y, 2 * (x + y)], -1).astype(np.uint8)
    model = Reader(forwards=True)
    with torch.no_grad(), watch(model) as seen:
        model(_vectors(50)[None])
    return example_of(seen, image=pixels, grid=(7, 7), name="a picture")


def sound() -> Example:
    """Frames of a spectrogram: a picture one row of patches high, that has a length in seconds."""
    bands, frames = np.mgrid[0:80, 0:120]
    loud = 127 + 127 * np.sin(bands / 9 + frames / 14)
    pixels = np.repeat(loud[..., None], 3, -1).astype(np.uint8)
    model = Reader(forwards=True)
    with torch.no_grad(), watch(model) as seen:
        model(_vectors(60)[None])
    made = example_of(seen, image=pixels, grid=(1, 60), name="a sound")
    sides = tuple(replace(side, seconds=1.2) if isinstance(side, Picture) else side for side in made.sides)
    return replace(made, sides=sides, kind="sound")


def senses() -> Example:
    """A picture and a recording, each asking the other, of an untrained classifier."""
    config = FusionConfig(
        channels=1,
        image_size=(8, 8),
        patch=(2, 2),
        bands=8,
        width=16,
        heads=2,
        depth=1,
        hidden_width=16,
        fusion_depth=1,
    )
    reader = PairReader(PictureReader((8, 8), 1), SoundReader(config))
    sorter = Labeller(Fusion(config).eval(), reader, ["different", "same"])
    return ClassifierView(labeller=sorter, given=(torch.rand(1, 8, 8), torch.rand(1600) - 0.5)).look({}, [])


def weights(example: Example, layer: int, head: int, entry: int = 0) -> Tensor:
    """softmax(QKᵀ/√d) written out in float64; NaN where a query may not look."""
    call = example.panels[layer].call(entry, [head])
    query, key = call.query.double().squeeze(), call.key.double().squeeze()
    scores = query @ key.T / math.sqrt(query.shape[-1])
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if call.mask is not None:
        extent = call.extent
        hidden = ~call.mask.block(extent.rows, extent.columns, extent).squeeze().expand_as(scores)
    return torch.softmax(scores.masked_fill(hidden, -math.inf), -1).masked_fill(hidden, math.nan)


class Attending(torch.nn.Module):
    """Causal attention of torch's, on the queries and keys it is given."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True)


def broken(count: int = 20, *, queries: tuple[int, ...] = (7, 8), value: float = math.nan) -> Example:
    """A text where some queries of head 1 are not made of numbers."""
    model, asked = Attending(), 2 * torch.randn(1, 3, count, 8)
    asked[0, 1, list(queries), 3] = value
    with torch.no_grad(), watch(model) as seen:
        model(asked, torch.randn(1, 3, count, 8))
    return example_of(seen, tokens_of(count), name="broken")


def broken_picture() -> Example:
    """Patches of a picture, some of which look nowhere that is a number."""
    pixels = np.full((56, 56, 3), 180, dtype=np.uint8)
    x = _vectors(49)[None]
    x[0, 10] = math.nan
    model = Reader()
    with torch.no_grad(), watch(model) as seen:
        model(x)
    return example_of(seen, image=pixels, grid=(7, 7), name="a broken picture")
