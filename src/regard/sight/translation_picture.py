"""What a translator looked at: target words down the side, source words along the top."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, SPECIAL, Pairs, Sequences
from regard.data.given import instance
from regard.data.tokenizer import Tokenizer
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.recurrent_writing import RecurrentWriting
from regard.models.transformer import EncoderDecoder
from regard.runs.answering import Loaded, Translator
from regard.sight.pictures.heatmap import MAX_CELLS, Heatmap, heatmap
from regard.sight.selection import Choice, positions
from regard.sight.watch import watch

_JOINTS = ("-", "'", "’", "‐")  # they end a part of a word
_CONTRACTED = ("s", "t", "re", "ve", "m", "ll", "d")  # but not before these: don't, it's


@dataclass(frozen=True, kw_only=True, eq=False)
class WordLooks:
    """Where a translator looked while it was forced to write one target."""

    weights: Float[Tensor, "target source"]  # of words, both sides without END
    end: Float[Tensor, " target"]  # what the source's END gets: a row of weights sums to 1 with it
    source: tuple[str, ...]
    target: tuple[str, ...]
    note: str


def picture_of(
    translator: Loaded,  # a `Translator`
    source: str,
    target: str | None = None,
    *,
    layer: int | None = None,
    heads: Choice = None,
    title: str = "",
) -> Heatmap:
    """Which source words each target word was made from, as a heat map.

    What they give to the end token of the source is drawn beside the words, in grey, so every row sums to 1.

    Without a target it is the translator's own translation. For a Transformer the mean over all heads of one
    decoder block is drawn, the one that looks most sharply; `layer` and `heads` choose others.
    """
    translator = instance("translator", translator, Translator, "give a loaded run that translates")
    looks = looks_of(translator, source, target, layer=layer, heads=heads)
    return heatmap(
        torch.cat([looks.weights, looks.end[:, None]], dim=1),
        looks.target,
        (*looks.source, SPECIAL[END]),
        title=title,
        note=looks.note,
        aside=1,
    )


def looks_of(
    translator: Translator,
    source: str,
    target: str | None = None,
    *,
    layer: int | None = None,
    heads: Choice = None,
) -> WordLooks:
    """What `picture_of` draws."""
    model = translator.model
    asked = translator.source.encode(source)
    answer = (
        translator.hypotheses([source])[0][0].tokens if target is None else translator.target.encode(target)
    )
    if not asked or not answer:
        raise RegardError(f"source {source!r} and target {target!r}: a picture needs a word on either side")
    if max(len(asked), len(answer)) >= MAX_CELLS:
        raise RegardError(
            f"{len(asked)} source and {len(answer)} target tokens: a picture shows below {MAX_CELLS}"
        )
    pair = Pairs(Sequences.of([[*asked, END]]), Sequences.of([[*answer, END]])).to(translator.device)
    seen, what = decoder_looks(model, pair, layer, heads)
    columns, rows = words_of(translator.source, asked), words_of(translator.target, answer)
    # END is no word of either side: its row is left out, its column kept apart.
    given = merged(seen[:-1], rows.parts, [*columns.parts, len(columns.names)])
    return WordLooks(
        weights=given[:, :-1], end=given[:, -1], source=columns.names, target=rows.names, note=what
    )


def decoder_looks(
    model: EncoderDecoder[Any] | RecurrentWriting[Any], pair: Pairs[Any], number: int | None, heads: Choice
) -> tuple[Float[Tensor, "t s"], str]:
    """The weights [target, source] of one decoder block or of a recurrent decoder, mean over heads, and what they are."""
    if isinstance(model, RecurrentWriting) and model.attention is None:
        raise RegardError("this recurrent model has attention: none, so there is no attention to look at")
    wanted: Callable[[str], bool] = (
        (lambda name: name.endswith(".cross"))
        if isinstance(model, EncoderDecoder)
        else (lambda name: name == "attention")
    )
    with evaluating(model), watch(model, layers=wanted) as seen:
        model.logits(pair)
    layers = [seen.stitched(name) for name in seen.names]
    if number is not None and not 0 <= number < len(layers):
        raise RegardError(f"layer={number}, but the decoder has layers 0 to {len(layers) - 1}")
    count = layers[0].shape[1]
    chosen = positions(heads, count, "head")
    if not chosen:
        raise RegardError(f"heads={heads!r} chooses none of {count} heads")
    means = [layer.weights(heads=chosen)[0].double().mean(0) for layer in layers]
    ended = isinstance(pair.source, Sequences)  # a text has an END, at which nothing is to be seen
    best = (
        max(range(len(means)), key=lambda each: _sharpness(means[each], ended)) if number is None else number
    )
    name = layers[best].name.removesuffix(".cross")
    if len(layers) == count == 1 and name == "attention":
        return means[best], "attention of the decoder"
    which = f"mean of {count} heads" if len(chosen) == count > 1 else _heads(chosen)
    return means[best], f"cross-attention of {name}, {which}" + (
        ", the sharpest" if number is None and len(layers) > 1 else ""
    )


def _heads(chosen: Sequence[int]) -> str:
    if len(chosen) == 1:
        return f"head {chosen[0]}"
    return f"mean of heads {', '.join(map(str, chosen))}"


def _sharpness(weights: Float[Tensor, "t s"], ended: bool) -> float:
    """How much of its look a target token gives to one source token: the mean of the largest weights, END aside."""
    return weights[:-1, : -1 if ended else None].amax(-1).mean().item()


@dataclass(frozen=True)
class Words:
    """The words of some tokens: how they are shown, and which word each token is a piece of."""

    names: tuple[str, ...]
    parts: tuple[int, ...]


def words_of(tokenizer: Tokenizer, tokens: Sequence[int]) -> Words:
    """Tokens put together to words; a token of words or characters is one as it is.

    A piece of byte-level BPE begins a word when it begins with a space, when it is punctuation after a word or the
    other way round, and behind a hyphen or an apostrophe, which end theirs: quatre- vingt- dix, l' accord.
    """
    if tokenizer.kind != "bpe":
        return Words(tuple(tokenizer.pieces(tokens)), tuple(range(len(tokens))))
    names: list[str] = []
    parts: list[int] = []
    held: list[int] = []  # the pieces of the last word: one alone may be a part of a letter
    for token in tokens:
        special = token < len(SPECIAL)
        if special or not held or _begins(tokenizer.decode([token]), names[-1]):
            names.append("")
            held = []
        held.append(token)
        names[-1] = SPECIAL[token] if special else tokenizer.decode(held)
        held = [] if special else held
        parts.append(len(names) - 1)
    return Words(tuple(name.strip(" ") or "␣" for name in names), tuple(parts))


def _begins(piece: str, word: str) -> bool:
    """Whether a piece begins a word of its own, after what there is of the last one."""
    if piece[:1].isspace() or not word.strip():
        return bool(word.strip())
    if word[-1] in "'’" and piece in _CONTRACTED:
        return False
    return word[-1] in _JOINTS or (piece not in _JOINTS and _punctuation(piece) != _punctuation(word))


def _punctuation(text: str) -> bool:
    """Whether a text has no letter, no digit and no part of a character (U+FFFD)."""
    return not any(each.isalnum() or each == "\ufffd" for each in text)


def merged(
    weights: Float[Tensor, "t s"], targets: Sequence[int], sources: Sequence[int]
) -> Float[Tensor, "target source"]:
    """Weights of words from those of their pieces: the sum over source pieces, the mean over target pieces."""
    source = torch.zeros(len(sources), max(sources) + 1, dtype=weights.dtype, device=weights.device)
    target = torch.zeros(len(targets), max(targets) + 1, dtype=weights.dtype, device=weights.device)
    source[torch.arange(len(sources)), torch.tensor(sources)] = 1.0
    target[torch.arange(len(targets)), torch.tensor(targets)] = 1.0
    return (target / target.sum(0)).T @ weights @ source
