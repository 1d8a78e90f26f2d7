"""Where a model looked in a picture, or listened in a recording: for a class, and for each word it said."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, Batch, Both, Images, Pairs, Sequences, Sounds
from regard.data.media_values import as_samples
from regard.data.spoken_places import PLACES, WORDS, SpokenPlaceFeed
from regard.data.text_lines import Report
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.layers.frames import log_mel
from regard.models.counter import Counter
from regard.models.hearing import SoundEncoder
from regard.models.kind import Kind
from regard.models.seeing import PictureEncoder, PictureTokens
from regard.runs.answering import Labeller, MediaDescriber
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.tasks.digit_match import feed_of
from regard.runs.tasks.prepared import anchored
from regard.sight.pictures.counter_picture import counting
from regard.sight.pictures.drawable import Photo, spectrogram
from regard.sight.pictures.overlay import MAX_WORDS, Overlay, overlay
from regard.sight.pictures.scene import Drawing, Panels
from regard.sight.pictures.timeline import Timeline, timeline
from regard.sight.rollout import rollout
from regard.sight.seen import Seen
from regard.sight.selection import Choice
from regard.sight.translation_picture import decoder_looks, merged, words_of
from regard.sight.watch import watch


@dataclass(frozen=True, eq=False)
class Ground:
    """What attention is drawn over: pixels, and the places of its tokens on them."""

    photo: Photo
    grid: tuple[int, int]  # rows and columns of tokens


def picture_of_class(labeller: Labeller, given: Any, *, title: str = "") -> Drawing:
    """What a classifier's answer was made from.

    For one sense this is the rollout of its blocks (Abnar 2020), asked by the class token, by the learned question of
    its pooling, or by the mean. For two senses it is what each gave to the other, the mean over heads and blocks; where a
    sound asked a text, the sharpest head on a time axis against the words. For the counter it is the weight on each digit, and what the digits send.
    """
    batch = labeller.reader.batch([given]).to(labeller.device)
    model: Any = labeller.model
    if isinstance(model, Counter):
        return counting(model, batch)
    with evaluating(model), watch(model) as seen:
        model.predict(batch)
        if not seen.names:
            raise RegardError(f"a {type(model).__name__} has no attention to look at")
    if isinstance(batch, Both):
        return _exchanged(model, labeller.reader, batch, seen, title)
    if not hasattr(model.encoder, "blocks") or not isinstance(batch, Images | Sounds):
        raise RegardError("a picture of a class is of pictures and of recordings; texts have `seen.show()`")
    ground = ground_of(model.encoder, batch)
    special = int(getattr(model.encoder, "class_token", None) is not None)
    weights = _asked(model, seen)
    return overlay(
        ground.photo,
        weights,
        grid=ground.grid,
        special=special,
        smooth=False,
        title=title,
        note="rollout of attention through all blocks",
    )


def picture_of_place(run: str | os.PathLike[str], sample: int = 0, *, kinds: Sequence[Kind] = ()) -> Drawing:
    """Where a recording of the test of a run of `spoken-place` looked in its text, the sharpest head on a time axis against the words."""
    loaded = load(run, device="cpu", kinds=kinds)
    recipe = anchored(RunFolder.existing(run, kinds=kinds).load_recipe())
    feed = feed_of(recipe, "test", Report())
    if not isinstance(loaded, Labeller) or not isinstance(feed, SpokenPlaceFeed):
        raise RegardError(f"{run}: a picture of a place is of a run with data.kind spoken-place")
    sounds, texts, places = feed.drawn([sample])
    given = (as_samples(feed.sounds[sounds[0]]), texts[0])
    likely = loaded.probabilities([given])[0]
    label = max(likely, key=likely.__getitem__)
    said = f"“{WORDS[int(feed.said[sounds[0]])]}” is said: {label}, {likely[label]:.1%}"
    wrong = "" if label == PLACES[places[0]] else f" (it is {PLACES[places[0]]})"
    return picture_of_class(loaded, given, title=said + wrong)


def picture_of_words(
    describer: MediaDescriber,
    given: Any,
    text: str | None = None,
    *,
    layer: int | None = None,
    heads: Choice = None,
    title: str = "",
) -> Overlay:
    """Where each word of a caption or a transcript was found: one picture a word.

    Without a text it is the describer's own. Of a Transformer the mean over the heads of one decoder block is drawn, the
    one that looks most sharply; `layer` and `heads` choose others.
    """
    tokens = describer.hypotheses([given])[0][0].tokens if text is None else describer.tokenizer.encode(text)
    if not tokens:
        raise RegardError("nothing was said, so there is no word whose look could be drawn")
    words = words_of(describer.tokenizer, tokens)
    if len(words.names) > MAX_WORDS:
        raise RegardError(
            f"{len(words.names)} words or letters were said: a picture shows at most {MAX_WORDS}"
        )
    source = describer.reader.batch([given]).to(describer.device)
    pair = Pairs(source, Sequences.of([[*tokens, END]]).to(describer.device))
    weights, note = decoder_looks(describer.model, pair, layer, heads)
    ground = ground_of(describer.model.encoder, source)
    inner = merged(weights[:-1], words.parts, range(weights.shape[1]))
    return overlay(
        ground.photo, inner, words=words.names, grid=ground.grid, smooth=False, title=title, note=note
    )


def ground_of(encoder: PictureEncoder | PictureTokens | SoundEncoder, batch: Batch) -> Ground:
    """The picture or the spectrogram of the first input, and the places of the tokens of its encoder on it."""
    if isinstance(batch, Sounds) and isinstance(encoder, SoundEncoder):
        bands = log_mel(batch.samples[:1], batch.lengths[:1], encoder.frames.spectrum)[0]
        frames = int(encoder.frames.spectrum.frames(batch.lengths[:1]))
        # Drawn wide: time is what is looked at.
        wide = bands[:frames].T.repeat_interleave(max(1, round(3 * bands.shape[1] / frames)), dim=1)
        return Ground(spectrogram(wide), (1, int(encoder.frames.count(batch.lengths[:1]))))
    if isinstance(batch, Images) and isinstance(encoder, PictureEncoder | PictureTokens):
        tokens = encoder.tokens if isinstance(encoder, PictureEncoder) else encoder
        return Ground(batch.pixels[0].clamp(0, 1), tokens.cut.grid(*batch.pixels.shape[2:]))
    raise RegardError(f"{type(batch).__name__} under {type(encoder).__name__}: nothing to lay attention over")


def _asked(model: Any, seen: Seen) -> Float[Tensor, " n"]:
    """How much of each token reached the vector that the class was read from."""
    blocks = [seen.stitched(name) for name in seen.names if name.startswith("encoder.blocks.")]
    flow = rollout([layer.intact() for layer in blocks])[0]
    pooling = model.config.pooling
    if pooling == "class-token":
        return flow[0]
    if pooling == "attention":
        return seen.stitched("pooling.attention").weights()[0, :, 0].mean(0).to(flow) @ flow
    return flow.mean(0)


def _exchanged(model: Any, reader: Any, batch: Both[Any, Any], seen: Seen, title: str) -> Drawing:
    """What the second sense saw of the first, and the first of the second."""
    parts: list[Drawing] = []
    for asking, side, other in (("second_asks.", "first", "second"), ("first_asks.", "second", "first")):
        names = [name for name in seen.names if name.startswith(asking) and name.endswith(".cross")]
        if not names:
            continue
        weights = torch.stack([seen.stitched(name).weights()[0].mean(0) for name in names]).mean(0)  # [q, k]
        inputs, asked_by = getattr(batch, side), getattr(model.config, other)
        blocks = f" and {len(names)} blocks" if len(names) > 1 else ""
        note = f"what the {asked_by} asked for, mean over heads{blocks}"
        if isinstance(inputs, Images | Sounds):
            ground = ground_of(getattr(model, side), inputs)
            parts.append(overlay(ground.photo, weights.mean(0), grid=ground.grid, smooth=False, note=note))
            continue
        weights, note = _sharpest(names, seen, asked_by)
        tokens = inputs.tokens[0, : int(inputs.lengths[0])].tolist()
        words = getattr(reader, side).tokenizer.pieces(tokens)
        parts.append(_words_asked(model, getattr(batch, other), other, weights, words, seen, title, note))
    if len(parts) == 1 and isinstance(parts[0], Timeline):
        return parts[0]
    return Panels(parts=parts, title=title)


def _sharpest(names: Sequence[str], seen: Seen, asking: str) -> tuple[Float[Tensor, "q k"], str]:
    """The weights of the head whose queries look most sharply, and which it is: a mean over heads would blur the word."""
    every = [(name, head, own) for name in names for head, own in enumerate(seen.stitched(name).weights()[0])]
    name, head, weights = min(every, key=lambda each: float(torch.special.entr(each[2].double()).sum()))
    block = f" of block {name.split('.')[-2]}" if len(names) > 1 else ""
    return weights, f"what the {asking} asked for, head {head}{block}, the one that looks most sharply"


def _words_asked(
    model: Any,
    inputs: Batch,
    asking: str,
    weights: Float[Tensor, "q k"],
    words: Sequence[str],
    seen: Seen,
    title: str,
    note: str,
) -> Drawing:
    """What each moment, or each patch, asked of each word."""
    if isinstance(inputs, Sequences):
        raise RegardError("two texts: a picture is of a picture or a recording; texts have `seen.show()`")
    ground = ground_of(getattr(model, asking), inputs)
    if not isinstance(inputs, Sounds):
        return overlay(ground.photo, weights.T, words=words, grid=ground.grid, smooth=False, note=note)
    name = f"{asking}_asks.pooling.attention"
    pooled = seen.stitched(name).weights()[0, :, 0].mean(0) if name in seen.names else None
    return timeline(
        weights.T,
        words,
        ground.photo,
        int(inputs.lengths[0]) / model.config.rate,
        pooled=pooled,
        title=title,
        note=note,
    )
