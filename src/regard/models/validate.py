"""Validation of configs, and of batches before a model reads them: a mistake is one line that names it."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.data.batches import Images, Labelled, Packed, Pairs, Sequences, Sounds, Spans, Texts, span_of
from regard.data.given import instance, integers, told, vectors
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.positions import recording


def check_choices(config: Any) -> None:
    """Raise if a field of a config is of another type than it says, or none of the few words that it may be."""
    for field in fields(config):
        words = get_args(field.type) if get_origin(field.type) is Literal else ()
        given = getattr(config, field.name)
        if words and not (isinstance(given, str) and given in words):
            raise RegardError(f"{field.name}={told(given)}: one of {', '.join(map(repr, words))}")
        if not words and not _fits(given, field.type):
            raise RegardError(f"{field.name}={told(given)}: give {_named(field.type)}")


Config = TypeVar("Config")


def configured(config: Any, kind: type[Config]) -> Config:
    """The config of a model, if it is one of its kind."""
    if isinstance(config, kind):
        return config
    raise RegardError(f"config={told(config)}: give a {kind.__name__}(…)")


def _fits(given: Any, kind: Any) -> bool:
    if get_origin(kind) is UnionType:
        return any(_fits(given, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        sized = isinstance(given, tuple | list) and (inner[-1] is ... or len(given) == len(inner))
        return sized and all(_fits(each, inner[0]) for each in given)
    if kind is float:
        return isinstance(given, int | float) and not isinstance(given, bool)
    if kind is int:
        return isinstance(given, int) and not isinstance(given, bool)
    return not isinstance(kind, type) or isinstance(given, kind)


def _named(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "a word", NoneType: "None"}
    if get_origin(kind) is UnionType:
        return " or ".join(map(_named, get_args(kind)))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        return "whole numbers in a tuple" if inner[-1] is ... else f"{len(inner)} whole numbers in a tuple"
    return names.get(kind, str(kind))


def check_vocabulary(name: str, size: int) -> int:
    """The size of a vocabulary, which must be known by the time a model is built."""
    if not _fits(size, int) or size < 1:
        raise RegardError(f"{name}={size}: a model is built for a vocabulary of known size, its tokenizer's")
    return size


def readable(texts: Texts, embedding: Embedding, *, shortest: int = 0) -> Int[Tensor, "*b n"]:
    """The tokens of texts, if a table has all of them and their lengths fit; or say what is wrong."""
    instance(
        "batch",
        texts,
        (Sequences, Packed),
        "give Sequences or Packed texts, such as Sequences.of([[4, 5], [6]])",
    )
    tokens = integers("tokens", texts.tokens, 2 if isinstance(texts, Sequences) else 1)
    lengths = integers("lengths", texts.lengths, 1)
    words = embedding.table.shape[0]
    _same_device(tokens, embedding)
    if isinstance(texts, Sequences) and len(lengths) != len(tokens):
        raise RegardError(f"{len(tokens)} rows of tokens and {len(lengths)} lengths: one length a row")
    if torch.compiler.is_compiling() or recording(tokens):
        return tokens
    on_host = tokens.device.type == "cpu"
    spans = Spans.of(tokens, lengths) if on_host or texts.spans is None else texts.spans
    if not 0 <= spans.tokens[0] <= spans.tokens[1] < words:
        wrong = spans.tokens[0] if spans.tokens[0] < 0 else spans.tokens[1]
        raise RegardError(
            f"token {wrong}: the table has {words:,}, from 0 to {words - 1:,}; use the model's own tokenizer"
        )
    room = tokens.shape[-1]
    if not shortest <= spans.lengths[0] <= spans.lengths[1] <= room and len(lengths):
        raise RegardError(
            f"lengths from {spans.lengths[0]} to {spans.lengths[1]}: from {shortest} to {room}, the tokens of a row"
        )
    if isinstance(texts, Packed):
        fits = spans.total <= room if texts.filled else spans.total == room
        if (
            not fits
            or not (texts.filled or texts.shortest <= spans.lengths[0])
            or not spans.lengths[1] <= texts.longest
        ):
            raise RegardError(
                f"packed lengths from {spans.lengths[0]} to {spans.lengths[1]}, {spans.total} together, in a row of {room} "
                f"tokens, said to be from {texts.shortest} to {texts.longest}: make them with Packed.of"
            )
    return tokens


def pictures(images: Any) -> Images:
    """Pictures, if they are."""
    given = instance("images", images, Images, "give Images(pixels), numbers from 0 to 1")
    vectors("pixels", given.pixels, axes=4)
    return given


def recordings(sounds: Any) -> Sounds:
    """Recordings, if they are, with as many lengths."""
    given = instance("sounds", sounds, Sounds, "give Sounds(samples, lengths), numbers from −1 to 1")
    samples, lengths = vectors("samples", given.samples, axes=2), integers("lengths", given.lengths, 1)
    if samples.ndim != 2 or len(samples) != len(lengths):
        raise RegardError(
            f"samples {told(samples)} and {len(lengths)} lengths: one row and one length a recording"
        )
    return given


def pairs(batch: Any) -> Pairs[Any, Any]:
    """A batch, if it is of sources and targets."""
    return instance("batch", batch, Pairs, "give sources and targets together, Pairs(source, target)")


def labelled(batch: Any) -> Labelled[Any]:
    """A batch, if it is of inputs and labels."""
    return instance("batch", batch, Labelled, "give inputs and labels together, Labelled(inputs, labels)")


def readable_labels(batch: Labelled[Any], classes: int) -> Int[Tensor, " b"]:
    """The labels of a batch, if there are so many classes; or say what is wrong."""
    labels = integers("labels", labelled(batch).labels, 1)
    if len(labels) != len(batch.inputs):
        raise RegardError(f"{len(batch.inputs)} inputs and {len(labels)} labels: one label an input")
    if torch.compiler.is_compiling() or recording(labels):
        return labels
    on_host = labels.device.type == "cpu"
    least, most = span_of(labels) if on_host or batch.span is None else batch.span
    if not 0 <= least <= most < classes:
        raise RegardError(
            f"label {least if least < 0 else most}: there are {classes} classes, from 0 to {classes - 1}"
        )
    return labels


def following(tokens: Any, state: Any, kind: type[Any]) -> Int[Tensor, " rows"]:
    """The tokens of a step, one a row of a state of this kind."""
    instance("state", state, kind, "give the state that `start` or the last step returned")
    tokens, rows = integers("tokens", tokens, 1), state.rows
    if len(tokens) != rows:
        raise RegardError(f"{len(tokens)} tokens for {rows} rows: a step takes one a row")
    return tokens


def _same_device(given: Tensor, module: nn.Module) -> None:
    own = next(module.parameters()).device
    if given.device != own:
        raise RegardError(
            f"the batch is on {given.device} and the model on {own}: batch.to({str(own)!r}), or model.to(…)"
        )
