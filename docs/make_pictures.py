"""Draws every picture of the documentation, the same each time; small models are trained for some of them.

python docs/make_pictures.py              # into docs/pictures
python docs/make_pictures.py --out here   # into another folder
"""

import argparse
import json
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from regard import (
    ALiBi,
    Call,
    Cosine,
    Dot,
    Mask,
    MultiHeadAttention,
    RelativeBuckets,
    TensorBias,
    attend,
    causal,
    lengths,
    lookup,
    packed,
    weigh,
    window,
)
from regard.bench.cost import Cost, Costs, Growth
from regard.bench.cost_record import picture as costs
from regard.bench.layers import choose_kinds
from regard.data.audio import together, tone
from regard.data.augment import jitter_images
from regard.data.batches import END, START, Sequences
from regard.data.digit_counts import count_samples
from regard.data.digits import digit_split, digits
from regard.data.feeds import PairFeed, tokenize_pairs
from regard.data.letter_vectors import spell
from regard.data.numbers import draw_numbers, english, french, number_pairs
from regard.data.reader import MAX_DIGITS, spoken
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.figures.landscape import landscape
from regard.interop import torch as drop_in
from regard.layers import (
    EncoderBlock,
    FeedForward,
    Gaussian,
    Grid,
    Residual,
    Rotary,
    Sinusoidal,
    after,
    before,
    inside,
)
from regard.layers.frames import Spectrum, log_mel
from regard.layers.inference_only import Int8Linear
from regard.models.counter import Counter
from regard.runs.answering import Translator
from regard.runs.load import build_model, load
from regard.runs.recipe import find
from regard.runs.settings import DigitData, Training
from regard.runs.tasks.prepared import Prepared
from regard.sight.pictures.alignment_map import alignment_map
from regard.sight.pictures.atlas import overview
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.colours import INK, code, colour
from regard.sight.pictures.counter_picture import counting
from regard.sight.pictures.curves import curves_of
from regard.sight.pictures.drawable import spectrogram
from regard.sight.pictures.gallery import mask_maps, score_maps
from regard.sight.pictures.heatmap import Heatmap, heatmap, sheet
from regard.sight.pictures.overlay import overlay as lit
from regard.sight.pictures.scene import Panels
from regard.sight.pictures.word_lines import lines as word_lines
from regard.sight.translation_picture import picture_of
from regard.sight.watch import watch
from regard.training.experiment import prepare
from regard.training.loop import train
from regard.training.observers import Log
from regard.training.update import rate_at

mpl.use("agg")
from matplotlib import pyplot as plt

WORDS = ["who", "watches", "the", "watchmen", "while", "the", "watchmen", "watch", "the", "watch"]
RHYME = [
    "how",
    "much",
    "wood",
    "would",
    "a",
    "woodchuck",
    "chuck",
    "if",
    "a",
    "woodchuck",
    "could",
    "chuck",
    "wood",
]
FRENCH = [
    "L'",
    "accord",
    "sur",
    "la",
    "zone",
    "économique",
    "européenne",
    "a",
    "été",
    "signé",
    "en",
    "août",
    "1992",
    ".",
]
ENGLISH = [
    "The",
    "agreement",
    "on",
    "the",
    "European",
    "Economic",
    "Area",
    "was",
    "signed",
    "in",
    "August",
    "1992",
    ".",
]
SENTENCE = "The white house near the old bridge is not for sale."
PALE, MIDDLE, DARK = (code(colour(level)) for level in (0.3, 0.55, 0.9))


def attention(path: Path) -> None:
    """One map, large: the scaled dot product over a sentence."""
    picture = score_maps(WORDS)[1].picture
    note = "softmax(qᵀk / √d): each row is a word, and shows what it looks at"
    heatmap(picture.weights, WORDS, WORDS, title=" ".join(WORDS), note=note).png(path)


def scores(path: Path) -> None:
    """The six scores over one sentence."""
    shown = [each.picture for each in score_maps(WORDS)]
    sheet([shown[:3], shown[3:]]).png(path)


def hard_and_soft(path: Path) -> None:
    """A growing scale turns soft attention into hard lookup."""
    vectors, row = spell(WORDS), []
    for times in (0.25, 1.0, 4.0):
        weights = weigh(vectors, vectors, scale=times)
        row.append(_map(weights, f"scale={times:g}", "softmax(scale · qᵀk / √d)"))
    counts = (
        vectors / vectors[vectors > 0].min()
    ).round()  # whole numbers: equal scores are equal to the bit
    numbers = torch.eye(len(WORDS))  # the value of a key says which key it is
    found = lookup(Call(counts, counts, score=Dot()), numbers)
    row.append(_map(found, "lookup", "the single best key, the first of equals"))
    sheet([row]).png(path)


def masks(path: Path) -> None:
    """Eight masks over one sentence."""
    shown = [each.picture for each in mask_maps(WORDS)]
    sheet([shown[:4], shown[4:]]).png(path)


def packing(path: Path) -> None:
    """Three sentences, each looking back: a row each, filled up, and all in one row."""
    sentences = ["two dogs run", "a man sits", "children play in the snow"]
    words = [sentence.split() for sentence in sentences]
    count, row = torch.tensor([len(each) for each in words]), []
    filled = causal() & lengths(count)
    longest = int(count.max())
    for each, seen in zip(words, filled.dense(longest, longest), strict=True):
        names = [*each, *["·"] * (longest - len(each))]
        weights = seen / seen.sum(-1, keepdim=True).clamp_min(1)
        row.append(heatmap(weights, names, names, allowed=seen, title=" ".join(each), note="filled up"))
    together = [word for each in words for word in each]
    seen = (causal() & packed(count)).dense(len(together), len(together))
    weights = seen / seen.sum(-1, keepdim=True)
    row.append(heatmap(weights, together, together, allowed=seen, title="packed", note="nothing between"))
    sheet([row]).png(path)


def biases(path: Path) -> None:
    """ALiBi's heads reach differently far back; T5's buckets widen with distance."""
    same, names = torch.zeros(1, 4, 16, 4), [str(position) for position in range(16)]
    weights, allowed = weigh(same, same, causal(), bias=ALiBi(4))[0], causal().dense(16, 16)
    row = []
    for head in range(3):
        title, note = f"ALiBi, head {head + 1} of 4", f"−|i − j| / {4 ** (head + 1)}"
        row.append(heatmap(weights[head], names, names, allowed=allowed, title=title, note=note, top=0.3))
    ahead = torch.arange(16) - torch.arange(16)[:, None]
    buckets = RelativeBuckets(4, buckets=16, far=16).bucket(ahead)
    row.append(
        heatmap(buckets, names, names, title="RelativeBuckets", note="which of 16 buckets j − i is in")
    )
    sheet([row]).png(path)


def positions(path: Path) -> None:
    """How similar a position is to one at a distance, under three schemes."""
    distance = torch.arange(81)
    wave, bell = Sinusoidal(64)(distance), Gaussian(64, decay=0.01, horizon=80)(distance)
    turned = Rotary(64)(torch.ones(81, 64) / 8)  # one vector of length 1 at every position
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    axes.plot(wave @ wave[0] / 32, linewidth=5, color=PALE, label="Sinusoidal(64): p(i)·p(j) / 32")
    axes.plot(turned @ turned[0], "--", color=DARK, label="Rotary(64): ones at i and j, turned")
    axes.plot(bell @ bell[0], linewidth=5, color=MIDDLE, label="Gaussian(64): φ(i)·φ(j)")
    axes.plot(torch.exp(-0.01 * distance**2), ":", color=code(INK), label="exp(−0.01 (i − j)²)")
    axes.set_xlabel("distance i − j")
    axes.set_title("similarity of two positions")
    axes.legend()
    _save(figure, path)


def grid(path: Path) -> None:
    """Where a grid of patches is similar to one of them."""
    bell = partial(Gaussian, 32, decay=0.1, horizon=9)
    schemes = {"Sinusoidal": Grid(Sinusoidal(32), Sinusoidal(32)), "Gaussian": Grid(bell(), bell())}
    names, row = [str(place) for place in range(9)], []
    for name, scheme in schemes.items():
        vectors = scheme(9, 9)
        one = vectors[3 * 9 + 2]
        similar = (vectors @ one / one.square().sum()).clamp_min(0).view(9, 9)
        row.append(heatmap(similar, names, names, title=f"Grid, {name}", note="row 3, column 2 with all"))
    sheet([row]).png(path)


def heads(path: Path) -> None:
    """Four heads, each with its own projection and its own reach."""
    torch.manual_seed(0)
    vectors = spell(WORDS)
    x = nn.functional.pad(vectors, (0, -vectors.shape[-1] % 4))[None]
    width = x.shape[-1]
    attention = MultiHeadAttention(width, 4, bias=ALiBi(4), affine=False)
    with torch.no_grad():  # random, but queries and keys alike, so that like finds like
        alike = torch.randn(width, width) * (width**-0.25)
        attention.input.all.weight[: 2 * width] = torch.cat([alike, alike]) * 0.6
    call = attention.call(x, mask=causal())
    weights, allowed = weigh(call)[0], causal().dense(len(WORDS), len(WORDS))
    sheet(
        [[_map(weights[h], f"head {h + 1}", f"ALiBi slope 1/{4 ** (h + 1)}", allowed) for h in range(4)]]
    ).png(path)


def placements(path: Path) -> None:
    """How large a vector gets on its way through a deep stack, under the three placements of the norm."""
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    rules = {
        "before: x + f(norm(x))": before,
        "after: norm(x + f(x))": after,
        "inside: x + norm(f(x))": inside,
    }
    for (name, placement), ink in zip(rules.items(), (MIDDLE, PALE, DARK), strict=True):
        torch.manual_seed(0)
        x, sizes = torch.randn(8, 32, 64), [1.0]
        for _ in range(24):
            residual = partial(Residual, 64, placement=placement)
            block = EncoderBlock(MultiHeadAttention(64, 4), FeedForward(64, 256), residual)
            with torch.no_grad():
                x = block(x)
            sizes.append(x.square().mean().sqrt().item())
        axes.plot(sizes, "o-", markersize=3, color=ink, label=name)
    axes.set_xlabel("encoder blocks passed")
    axes.set_title("size of a feature (root mean square), untrained")
    axes.set_ylim(0)
    axes.legend()
    _save(figure, path)


def padded(path: Path) -> None:
    """The weights the drop-in returns for a padded batch, one sequence of which is nothing but padding."""
    torch.manual_seed(0)
    attention = drop_in.MultiheadAttention(32, 2, batch_first=True)
    x = torch.randn(3, 6, 32)
    hidden = torch.arange(6) >= torch.tensor([6, 3, 0])[:, None]
    _, weights = attention(x, x, x, key_padding_mask=hidden)
    names, row = [str(position) for position in range(6)], []
    for one, title in enumerate(("6 tokens", "3 tokens", "no token at all")):
        allowed = ~hidden[one].expand(6, 6)
        note = "torch returns NaN here" if hidden[one].all() else "as torch's"
        row.append(heatmap(weights[one], names, names, allowed=allowed, title=title, note=note))
    sheet([row]).png(path)


def influence(path: Path) -> None:
    """How much each output moves when one word changes; hatched: not by a single bit."""
    rules: dict[str, Mask | None] = {
        "no mask": None,
        "causal()": causal(),
        "causal() & window(3)": causal() & window(3),
    }
    torch.manual_seed(0)
    vectors, row = spell(WORDS)[None].double(), []
    steps = 0.5 * torch.randn(len(WORDS), vectors.shape[-1])
    for name, mask in rules.items():
        base, moved = attend(vectors, vectors, vectors, mask), []
        for word, step in enumerate(steps):
            changed = vectors.clone()
            changed[:, word] += step
            moved.append((attend(changed, changed, changed, mask) - base).abs().amax(-1)[0])
        change = torch.stack(moved)
        row.append(_map(change, name, "row: the word changed; column: the output", change > 0))
    sheet([row]).png(path)


def alignment(path: Path) -> None:
    """Bahdanau's sentence, aligned by nothing but shared letters and nearness, against how people align it."""
    flat = {"é": "e", "û": "u"}
    french, english = (
        ["".join(flat.get(letter, letter) for letter in word.lower()) for word in words]
        for words in (FRENCH, ENGLISH)
    )
    vectors = spell(french + english)
    query, key = vectors[: len(french)], vectors[len(french) :]
    at, of = (torch.linspace(0, 1, len(words)) for words in (french, english))
    weights = weigh(query, key, scale=2.4, bias=TensorBias(-9 * (at[:, None] - of).abs()))
    sure = [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 6),
        (5, 5),
        (6, 4),
        (7, 7),
        (9, 8),
        (10, 9),
        (11, 10),
        (12, 11),
    ]
    alignment_map(
        weights,
        FRENCH,
        ENGLISH,
        sure=[*sure, (13, 12)],
        possible=[(8, 7), (8, 8), (7, 8)],
        title="An alignment and its reference",
        note="weights: shared letters and nearness, nothing learned",
    ).png(path)


def lines(path: Path) -> None:
    """Three heads between a sentence and itself, one word in focus."""
    vectors = spell(WORDS)
    place = torch.arange(len(WORDS)).float()
    ahead = place - place[:, None]
    same = torch.zeros(len(WORDS), 1)
    heads = {
        "alike in spelling": weigh(vectors, vectors, scale=2.0),
        "the word before": weigh(same, same, bias=TensorBias(-2.0 * (ahead + 1).square())),
        "what is near": weigh(same, same, bias=TensorBias(-0.6 * ahead.abs())),
    }
    word_lines(
        torch.stack(list(heads.values())),
        WORDS,
        WORDS,
        heads=list(heads),
        focus=6,
        least=0.08,
        title="What one word looks at",
        note="three heads; a line is as strong as its weight",
    ).png(path)


def atlas(path: Path) -> None:
    """Everything a small model looked at, pooled: a row for each layer, a column for each head."""
    torch.manual_seed(0)
    vectors = spell(RHYME)
    x = nn.functional.pad(vectors, (0, -vectors.shape[-1] % 8))[None]
    width = x.shape[-1]
    layers = [MultiHeadAttention(width, 8, bias=ALiBi(8), affine=False) for _ in range(4)]
    for depth, layer in enumerate(layers):
        with (
            torch.no_grad()
        ):  # random, but queries and keys alike; each layer twice as sharp as the one before
            part = torch.randn(width, width) * width**-0.25
            layer.input.all.weight[: 2 * width] = torch.cat([part, part]) * 0.4 * 2 ** (depth / 2)
    with watch(nn.ModuleList(layers)) as seen, torch.no_grad():
        for depth, layer in enumerate(layers):
            layer(x, mask=causal() if depth % 2 else None)
    overview(seen, title=" ".join(RHYME)).png(path)


def overlay(path: Path) -> None:
    """A landscape, lit where a word looks: its query is the colour of a thing, a key that of a patch."""
    image = landscape(360)
    patches = torch.from_numpy(np.asarray(image) / 255.0).view(18, 20, 18, 20, 3).mean((1, 3)).view(-1, 3)
    things = {"sky": (124, 178, 222), "sun": (252, 212, 96), "roof": (196, 68, 52), "tree": (36, 92, 62)}
    query = torch.tensor(list(things.values())) / 255.0
    nearness = -150 * (query[:, None].double() - patches).square().sum(-1)
    same = torch.zeros(1, dtype=torch.float64)
    weights = weigh(same.expand(len(things), 1), same.expand(len(patches), 1), bias=TensorBias(nearness))
    note = "query: a colour; keys: the colours of 18 × 18 patches; beside each word its largest weight"
    lit(image, weights, words=list(things), grid=(18, 18), title="Where each word looks", note=note).png(path)


def sound(path: Path) -> None:
    """A sound, lit where a pitch is found: the query is a spectrum, a key that of five frames."""
    frames, bands = torch.arange(165.0), torch.arange(24.0)
    low, high = 5.0, 19.0
    rising = (low + (high - low) * (frames - 55) / 55).clamp(low, high)  # low, then rising, then high
    loud = torch.sin(torch.pi * frames / 55).square()
    heard = loud * torch.exp(-(bands[:, None] - rising).square() / 3)
    key = heard.view(24, 33, 5).mean(-1).mT
    pitches = {"low": low, "middle": 12.0, "high": high}
    query = torch.exp(-(bands - torch.tensor(list(pitches.values()))[:, None]).square() / 3)
    weights = weigh(query, key, score=Dot(), scale=2.0)
    note = "query: a pitch; keys: the spectra of 33 groups of five frames"
    title = "Where each pitch is found"
    lit(spectrogram(heard), weights, words=list(pitches), grid=(1, 33), title=title, note=note).png(path)


def matters(path: Path) -> None:
    """Two heads, and what becomes of the loss without each: the example of that name, drawn."""
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "which_head_matters.py"))
    model, text = example["Finder"](), ["<s>", ".", ".", "a", ".", ".", ".", ".", "?"]
    signs = torch.tensor([[example["SIGNS"].index(sign) for sign in text]])
    with torch.no_grad():
        with watch(model) as seen:
            model(signs)
        found = seen.matters(lambda: nn.functional.cross_entropy(model(signs), torch.tensor([0])))
    row = []
    for head, change in enumerate(found.change["attention"].tolist()):
        note = f"without it, the loss goes from {found.metric:.2f} to {found.metric + change:.2f}"
        weights = seen["attention"].weights(heads=head)[0, 0]
        row.append(heatmap(weights, text, text, title=f"head {head}", note=note, top=1.0))
    sheet([row]).png(path)


def counter(path: Path) -> None:
    """Five samples as a counter sees them that learned from labels alone, and how it learned."""
    lesson = _trained("counter")
    with lesson.log_file() as log:
        counting(cast(Counter, lesson.model), count_samples(4, seed=67), log=log).png(path)


def curves(path: Path) -> None:
    """The curves of the training that `translation` shows the end of."""
    with _translating().log_file() as log:
        curves_of(log, title="Numbers below a thousand, English to French").png(path)


def translation(path: Path) -> None:
    """Where a small Transformer looks for each French word."""
    title = "Numbers, by a Transformer"
    picture_of(_translating().translator, "nine hundred and ninety-nine", title=title).png(path)


def shipped(path: Path) -> None:
    """Where the translator that comes with regard looks for each French word."""
    title = "English to French, by the translator that comes with regard"
    picture_of(load("french", device="cpu"), SENTENCE, title=title).png(path)


def recurrent(path: Path) -> None:
    """Where a small recurrent translator looks, under the additive score."""
    changes = ["data.largest=999", "data.train=4000", "data.valid=20", "data.test=20", "tokens.size=330"]
    changes += ["model.width=64", "model.embedding_width=32", "training.decode=0", "training.warmup=20"]
    changes += ["training.batch=1024"]
    lesson = _trained("numbers-recurrent", *changes, "training.steps=350", "training.learning_rate=5e-3")
    title = "Numbers, by a recurrent translator"
    picture_of(lesson.translator, "nine hundred and ninety-nine", title=title).png(path)


def language(path: Path) -> None:
    """Every head of a language model of number words."""
    changes = ["data.unit=lines", "tokens.kind=word", "model.width=32", "model.heads=4", "model.depth=2"]
    changes += ["model.hidden_width=64", "model.dropout=0", "training.steps=150", "training.batch=1024"]
    changes += ["training.warmup=10", "training.learning_rate=5e-3", "training.schedule=cosine"]
    lines = [english(number) for number in draw_numbers(3000, seed=1)]
    lesson = _trained("language", *changes, texts=lines)
    text = "seven hundred and forty-one thousand two hundred and thirty-five"
    tokens = Sequences.of([[START, *lesson.prepared.tokenizers["source"].encode(text)]])
    with torch.no_grad(), watch(lesson.model) as seen:
        cast(Any, lesson.model).logits(tokens)
    overview(seen, title=text).png(path)


def classifier(path: Path) -> None:
    """What the pooling of a classifier looks at that was trained on labels of whole reviews."""
    changes = ["data.held_out=0.1", "tokens.kind=word", "model.width=32", "model.heads=1", "model.depth=0"]
    changes += ["model.dropout=0", "training.steps=150", "training.batch=1024", "training.learning_rate=5e-3"]
    lesson = _trained("classify", *changes, "training.warmup=10", "training.weight_decay=0", texts=_reviews())
    tokenizer, labels = lesson.prepared.tokenizers["source"], lesson.prepared.labels or []
    texts = ["the story was really fine to me", "the music is just boring in the end"]
    maps = []
    for text in texts:
        tokens = [*tokenizer.encode(text), END]
        with torch.no_grad(), watch(lesson.model, layers=["pooling.attention"]) as seen:
            likely = cast(Any, lesson.model).predict(Sequences.of([tokens]))[0].exp()
        note = f"{labels[int(likely.argmax())]}, {likely.max():.0%}"
        words = tokenizer.pieces(tokens)
        maps.append(heatmap(seen[0].weights()[0, 0], ["weight"], words, title=text, note=note, top=1.0))
    sheet([[one] for one in maps]).png(path)


def vision(path: Path) -> None:
    """Four of the digits that come along, and how each may be met while training."""
    pixels = digits()[0][[0, 2, 4, 7]]
    jitter = DigitData().jitter
    met = [jitter_images(pixels, [k, k + 1, k + 2, k + 3], jitter=jitter, seed=1) for k in (0, 4)]
    names = ("as it is", "moved", "moved again")
    rows = [
        [heatmap(one[0], [""] * 8, [""] * 8, title=name, top=1.0) for one in some]
        for name, some in zip(names, [pixels, *met], strict=True)
    ]
    sheet(rows).png(path)


def captioner(path: Path) -> None:
    """A strip of digits, and those that each word of its number says, by the grammar."""
    number = 342
    written = [_digit(int(digit)) for digit in str(number)]
    blank = MAX_DIGITS - len(written)
    strip = torch.cat([*[torch.ones(8, 8)] * blank, *written], dim=1)
    squares = strip.kron(torch.ones(15, 15))  # pixels that stay pixels, and take little room in a file
    words = spoken(number)
    said = torch.zeros(len(words), MAX_DIGITS)
    for row, word in zip(said, words, strict=True):
        row[[blank + digit for digit in word.digits]] = 1 / len(word.digits)
    names = [word.word for word in words]
    note = "no model's look, but the truth: which digit each word says"
    title = french(number)
    lit(squares[None], said, words=names, grid=(1, MAX_DIGITS), smooth=False, title=title, note=note).png(
        path
    )


def speech(path: Path) -> None:
    """A melody, lit where each of its notes is found: from samples to log-mel frames, and to pairs of them."""
    notes = {"do": 523.25, "mi": 659.25, "sol": 783.99}
    played = ["do", "mi", "sol", "mi", "do"]
    sung = {name: _note(pitch, seconds=0.2) for name, pitch in notes.items()}
    (melody,) = _frames([torch.cat([sung[name] for name in played])])
    tokens = melody.reshape(-1, 2, melody.shape[1]).mean(1)
    length = len(tokens) // len(played)
    firsts = [played.index(name) * length for name in notes]
    query = torch.stack([tokens[first : first + length].mean(0) for first in firsts])
    weights = weigh(query, tokens, score=Cosine(), scale=12.0)
    title = " ".join(played)
    note = "log-mel frames; query: a note as it is heard first; keys: two frames each"
    grid = (1, len(tokens))
    lit(spectrogram(melody.mT), weights, words=[*notes], grid=grid, smooth=False, title=title, note=note).png(
        path
    )


def fusion(path: Path) -> None:
    """Two pairs of a digit and a sound, one that is the same and one that is not; here a clock says the digit."""
    stroke = nn.functional.pad(_note(440, seconds=0.2, overtones=(1, 3, 7)), (0, 800))  # and a pause
    most, parts = 5, []
    ink = (255 * _digit(3)).byte().kron(torch.ones(20, 20, dtype=torch.uint8)).numpy()
    for title, strokes in (("same", 3), ("different", most)):
        heard = torch.cat([*[stroke] * strokes, *[torch.zeros_like(stroke)] * (most - strokes)])
        sound = spectrogram(_frames([heard])[0].mT)[..., 0].repeat(4, 0).repeat(4, 1)
        both = np.concatenate([ink, np.full((160, 24), 255, np.uint8), sound], axis=1)
        note = f"a 3, and a clock that strikes {strokes}"
        parts.append(lit(both, torch.ones(1, 1), smooth=False, title=title, note=note))
    Panels(parts=parts).png(path)


def batches(path: Path) -> None:
    """What is text and what is filling, in a batch of like lengths and in one of any lengths."""
    pairs = number_pairs(2000, seed=1)
    tokenizer = Tokenizer.train((side for pair in pairs for side in pair), size=330)
    feed = PairFeed(*tokenize_pairs(pairs, tokenizer, tokenizer), budget=400, seed=1)
    chosen = {"a batch": next(each for each in feed.order(0) if len(each) == 16), "as they come": range(16)}
    row = []
    for title, samples in chosen.items():
        source = feed.batch(samples).source
        real = source.real() if isinstance(source, Sequences) else torch.ones(len(source), source.longest)
        across = [str(place) for place in range(real.shape[1])]
        note = f"{real.double().mean():.0%} of its source tokens are text"
        names = [f"sentence {number}" for number in samples]
        row.append(heatmap(real.double().clamp_min(0.1), names, across, title=title, note=note, top=1.5))
    sheet([row]).png(path)


def schedules(path: Path) -> None:
    """The learning rate over the updates, by each schedule."""
    series = []
    for name in ("inverse-square-root", "cosine", "constant"):
        settings = Training(steps=4000, warmup=400, schedule=cast(Any, name))
        points = [(float(step), rate_at(step, settings)) for step in range(1, 4001, 20)]
        series.append(Series(name=name, points=points))
    Chart(
        title="Schedules", note="rate=1e-3, warmup=400, steps=4000", x="updates", y="rate", series=series
    ).png(path)


def penalty(path: Path) -> None:
    """What beam search divides a log-probability by."""
    series = [
        Series(name=f"penalty {power:g}", points=[(float(n), ((5 + n) / 6) ** power) for n in range(1, 41)])
        for power in (0.0, 0.6, 1.0)
    ]
    note = "the larger, the more a long text is forgiven"
    Chart(title="((5 + n) / 6)^penalty", note=note, x="length n, END included", series=series).png(path)


def precision(path: Path) -> None:
    """What a large row does to a small one, with a scale a row and with one for all."""
    torch.manual_seed(0)
    weight, small, large = torch.randn(64, 256), torch.randn(1, 256), torch.randn(1, 256)
    lowered, exact = Int8Linear(weight, None), small @ weight.T
    grain = weight.abs().amax(-1, keepdim=True) / 127
    rounded = (weight / grain).round() * grain

    def error(found: Tensor) -> float:
        return float((found - exact).norm() / exact.norm())

    rows, shared = [], []
    for power in np.linspace(0, 2, 41):
        both = torch.cat([small, large * 10**power])
        rows.append((float(power), error(lowered(both)[:1])))
        step = both.abs().max() / 127
        shared.append((float(power), error(((small / step).round() * step) @ rounded.T)))
    series = [Series(name="a scale a row", points=rows), Series(name="one scale for all", points=shared)]
    note = "relative error of a row beside one that is 10^x as large"
    Chart(title="A linear map in 8 bits", note=note, x="x", series=series).png(path)


def cost(path: Path) -> None:
    """What was measured of each kind of layer, from the figures that are kept with the results."""
    kept = json.loads((Path(__file__).parents[1] / "benchmarks" / "results" / "cost.json").read_text())
    found = Costs(
        width=kept["width"],
        backward=kept["backward"],
        costs=[Cost(**each) for each in kept["costs"]],
        growths=[Growth(**each) for each in kept["growths"]],
    )
    costs(found, choose_kinds(None)).png(path)
    with Image.open(path) as drawn:
        few = drawn.quantize(64)  # of its many shades: half the bytes
    few.save(path, optimize=True)


PICTURES: dict[str, Callable[[Path], None]] = {
    "attention": attention,
    "scores": scores,
    "hard-and-soft": hard_and_soft,
    "masks": masks,
    "packing": packing,
    "biases": biases,
    "positions": positions,
    "grid": grid,
    "heads": heads,
    "placements": placements,
    "padded": padded,
    "influence": influence,
    "alignment": alignment,
    "lines": lines,
    "atlas": atlas,
    "overlay": overlay,
    "sound": sound,
    "matters": matters,
    "counter": counter,
    "curves": curves,
    "translation": translation,
    "french": shipped,
    "recurrent": recurrent,
    "language": language,
    "classifier": classifier,
    "vision": vision,
    "captioner": captioner,
    "speech": speech,
    "fusion": fusion,
    "batches": batches,
    "schedules": schedules,
    "penalty": penalty,
    "precision": precision,
    "cost": cost,
}


def draw(folder: Path) -> list[Path]:
    """Every picture, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        picture(folder / f"{name}.png")
    return [folder / f"{name}.png" for name in PICTURES]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """A model that was trained for a picture, what it was trained with, and the log of it."""

    model: nn.Module
    prepared: Prepared
    log: bytes

    @property
    def translator(self) -> Translator:
        return Translator(self.model, dict(self.prepared.tokenizers))

    @contextmanager
    def log_file(self) -> Iterator[Path]:
        with TemporaryDirectory() as folder:
            path = Path(folder, "log.jsonl")
            path.write_bytes(self.log)
            yield path


@cache
def _translating() -> Lesson:
    changes = ["data.largest=999", "data.train=4000", "data.valid=40", "data.test=20", "tokens.size=330"]
    changes += ["model.width=64", "model.depth=1", "model.decoder_depth=2", "model.hidden_width=128"]
    changes += ["training.steps=300", "training.batch=1024", "training.evaluate=50", "training.decode=40"]
    changes += ["training.learning_rate=3e-3", "training.warmup=50"]
    return _trained("demo", *changes)


def _trained(name: str, *changes: str, texts: list[str] | None = None) -> Lesson:
    """A recipe trained in double precision: rounding differs between machines, and must not reach a picture."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "texts.tsv" if name == "classify" else "texts.txt")
        if texts is not None:
            file.write_text("\n".join(texts) + "\n", "utf-8")
            changes = (*changes, f"data.train={file}")
        recipe, log = find(name, changes), Log(Path(folder, "log.jsonl"))
        prepared = prepare(recipe, Report())
        torch.manual_seed(recipe.seed)
        model = build_model(prepared.config).double()
        train(
            model,
            prepared.train,
            recipe.training,
            folder=Path(folder),
            seed=recipe.seed,
            evaluate=lambda each: {metric.name: metric.value for metric in prepared.validate(each)},
            observers=[log],
        )
        return Lesson(model=model, prepared=prepared, log=log.path.read_bytes())


def _reviews() -> list[str]:
    words = {"good": ["good", "fine", "moving", "funny"], "bad": ["bad", "boring", "dull", "weak"]}
    parts = ("film", "story", "music"), ("was", "is"), ("really", "just"), ("", " to me", " in the end")
    return [
        f"the {what} {is_} {very} {judged}{more}\t{label}"
        for label, adjectives in words.items()
        for what, is_, very, more, judged in product(*parts, adjectives)
    ]


def _digit(digit: int) -> Tensor:
    """A handwritten digit that no training sees, the one most like the others: ink is 0 and paper 1."""
    pixels, labels = digits()
    held_out = torch.tensor(digit_split().test)
    some = pixels[held_out[labels[held_out] == digit], 0].double()
    return 1 - some[(some - some.mean(0)).square().sum((1, 2)).argmin()]


def _note(pitch: float, *, seconds: float = 0.3, overtones: tuple[int, ...] = (1, 2, 3)) -> Tensor:
    """A note that swells and fades: a tone and some above it."""
    rate = Spectrum().rate
    tones = torch.stack([tone(pitch * k, seconds=seconds, rate=rate, loudness=0.5 / k**2) for k in overtones])
    time = torch.linspace(0, torch.pi, tones.shape[1])
    return tones.sum(0) * torch.sin(time).square()


def _frames(sounds: list[Tensor]) -> list[Tensor]:
    """The log-mel frames of some sounds, each without its padding."""
    heard, spectrum = together(sounds), Spectrum()
    bands = log_mel(heard.samples.double(), heard.lengths, spectrum)
    return [each[:count] for each, count in zip(bands, spectrum.frames(heard.lengths).tolist(), strict=True)]


def _map(weights: Tensor, title: str, note: str, allowed: Tensor | None = None) -> Heatmap:
    return heatmap(weights, WORDS, WORDS, allowed=allowed, title=title, note=note)


def _save(figure: Any, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_color(code(INK))
    figure.tight_layout()
    figure.savefig(path, dpi=150, metadata={"Software": None})  # or the version would be part of the picture
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "pictures")
    draw(parser.parse_args().out)
