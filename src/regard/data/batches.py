"""Batches: what a model is handed at once. Sequences are padded at the right and carry their lengths.

The ranges of their numbers are found on the host, before a batch is sent to a GPU. An index past the end of a table is a
device-side assert on a GPU, which ends all use of the GPU in the process; checking there first would make the host wait.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import TypeVar

from regard.errors import RegardError

PAD, START, END, UNKNOWN = 0, 1, 2, 3  # the first tokens of every vocabulary
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")

Span = tuple[int, int]  # the smallest and the largest of some whole numbers


@dataclass(frozen=True)
class Spans:
    """The ranges of the tokens of some texts and of their lengths."""

    tokens: Span
    lengths: Span
    total: int  # of the lengths

    @classmethod
    def of(cls, tokens: Int[Tensor, "*any"], lengths: Int[Tensor, " b"]) -> "Spans":
        """Synchronises once if the tensors are on a GPU."""
        parts = [*_ends(tokens), *_ends(lengths), lengths.sum()]
        numbers: list[int] = torch.stack([part.long() for part in parts]).tolist()
        return cls((numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4])


def span_of(numbers: Int[Tensor, "*any"]) -> Span:
    """The smallest and the largest; 0 and 0 of none. Synchronises if they are on a GPU."""
    least, most = torch.stack(_ends(numbers)).tolist()
    return least, most


def sent(texts: Any, device: torch.device | str) -> Spans | None:
    """The spans of texts (`Sequences` or `Packed`) that are sent to a device, where that needs no synchronisation."""
    leaving = texts.tokens.device.type == "cpu" != torch.device(device).type
    return Spans.of(texts.tokens, texts.lengths) if leaving else texts.spans


def _ends(numbers: Tensor) -> tuple[Tensor, Tensor]:
    least, most = torch.aminmax(numbers if numbers.numel() else numbers.new_zeros(1))
    return least, most


@dataclass(frozen=True, eq=False)
class Sequences:
    """Some sequences of tokens, one a row."""

    tokens: Int[Tensor, "b n"]
    lengths: Int[Tensor, " b"]
    filled: bool = False  # to a round shape: some rows may be empty, which is not synchronised
    spans: Spans | None = None  # where they were found out before a GPU had to be asked

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Sequences":
        """Lists of tokens, padded to the longest."""
        if not rows:
            raise RegardError("a batch of no sequences")
        longest = max(map(len, rows))
        filled = array("q")  # thrice as fast as a tensor of lists
        for row in rows:
            filled.extend(row)
            filled.extend([PAD] * (longest - len(row)))
        tokens = (
            torch.frombuffer(filled, dtype=torch.long)
            if longest
            else torch.empty(0, dtype=torch.long, device="cpu")
        )
        return cls(tokens.reshape(len(rows), longest), torch.tensor([len(row) for row in rows], device="cpu"))

    def to(self, device: torch.device | str) -> "Sequences":
        """The same on another device."""
        tokens, lengths = (part.to(device, non_blocking=True) for part in (self.tokens, self.lengths))
        return replace(self, tokens=tokens, lengths=lengths, spans=sent(self, device))

    def filled_up(self, rows: int, length: int) -> "Sequences":
        """In so many rows of so many tokens, of which those too many are empty."""
        more = rows - len(self), length - self.tokens.shape[1]
        if min(more) < 0:
            raise RegardError(
                f"{len(self)} sequences of {self.tokens.shape[1]} tokens in {rows} rows of {length}: too many"
            )
        tokens = torch.nn.functional.pad(self.tokens, (0, more[1], 0, more[0]), value=PAD)
        return Sequences(tokens, torch.nn.functional.pad(self.lengths, (0, more[0])), filled=True)

    def pinned(self) -> "Sequences":
        """In memory from which a GPU copies while the CPU goes on."""
        return replace(self, tokens=self.tokens.pin_memory(), lengths=self.lengths.pin_memory())

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def real(self) -> Tensor:
        """[b, n]: which tokens are not filling."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) < self.lengths[:, None]

    def decoder_input(self) -> Int[Tensor, "b n"]:
        """[START, *tokens[:-1]]: what precedes each token."""
        begin = self.tokens.new_full((len(self), min(1, self.tokens.shape[1])), START)
        return torch.cat([begin, self.tokens[:, :-1]], dim=1)

    def shifted(self) -> "tuple[Sequences, Sequences]":
        """These without their last tokens, and without their first: what is read, and what is to be said."""
        count = (self.lengths - 1).clamp_min(0)
        return Sequences(self.tokens[:, :-1], count), Sequences(self.tokens[:, 1:], count)


@dataclass(frozen=True, eq=False)
class Packed:
    """Some sequences of tokens, one after another in one row. What is behind the last of them is filling.

    The numbers that cost a wait to find out on a GPU go with them.
    """

    tokens: Int[Tensor, " n"]
    lengths: Int[Tensor, " b"]
    longest: int
    shortest: int
    filled: bool = False
    spans: Spans | None = None  # where they were found out before a GPU had to be asked

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Packed":
        """Lists of tokens, end to end."""
        return cls.end_to_end(
            torch.tensor([token for row in rows for token in row], dtype=torch.long, device="cpu"),
            torch.tensor([len(row) for row in rows], dtype=torch.long, device="cpu"),
        )

    @classmethod
    def end_to_end(cls, tokens: Int[Tensor, " n"], lengths: Int[Tensor, " b"]) -> "Packed":
        """A row of tokens that sequences of these lengths fill."""
        each: list[int] = lengths.tolist()
        if not each or sum(each) != tokens.shape[0]:
            raise RegardError(f"{len(each)} sequences of {sum(each)} tokens, but {tokens.shape[0]} are there")
        return cls(tokens, lengths, max(each), min(each))

    def to(self, device: torch.device | str) -> "Packed":
        """The same on another device."""
        tokens, lengths = (part.to(device, non_blocking=True) for part in (self.tokens, self.lengths))
        return replace(self, tokens=tokens, lengths=lengths, spans=sent(self, device))

    def filled_up(self, tokens: int, sequences: int) -> "Packed":
        """In a row of so many tokens, with so many sequences, of which those too many are empty."""
        more = tokens - self.tokens.shape[0], sequences - len(self)
        if min(more) < 0:
            raise RegardError(
                f"{len(self)} sequences of {self.tokens.shape[0]} tokens in a row of {tokens} for {sequences}: too many"
            )
        row = torch.nn.functional.pad(self.tokens, (0, more[0]), value=PAD)
        return replace(
            self, tokens=row, lengths=torch.nn.functional.pad(self.lengths, (0, more[1])), filled=True
        )

    def pinned(self) -> "Packed":
        """In memory from which a GPU copies while the CPU goes on."""
        return replace(self, tokens=self.tokens.pin_memory(), lengths=self.lengths.pin_memory())

    def __len__(self) -> int:
        return self.lengths.shape[0]

    def shifted(self) -> "tuple[Packed, Packed]":
        """These without their last tokens, and without their first: what is read, and what is to be said."""
        # Position p of what is left is in sequence s, behind s tokens that were taken away.
        lengths = (self.lengths - 1).clamp_min(0)
        size = self.tokens.shape[0]
        if not self.filled:
            size = size - len(self) if self.shortest else int(lengths.sum())
        ends, row = lengths.cumsum(0), torch.arange(size, device=lengths.device)
        owner = torch.searchsorted(ends, row, right=True)
        lost = torch.nn.functional.pad(self.lengths.cumsum(0) - self.lengths - (ends - lengths), (0, 1))[
            owner
        ]
        here = (row + lost).clamp_max(max(self.tokens.shape[0] - 2, 0))
        longest, shortest = max(self.longest - 1, 0), max(self.shortest - 1, 0)
        kept = replace(self, lengths=lengths, longest=longest, shortest=shortest, spans=None)
        return replace(kept, tokens=self.tokens[here]), replace(kept, tokens=self.tokens[here + 1])


@runtime_checkable
class Batch(Protocol):
    """What a model learns from at once."""

    def to(self, device: torch.device | str) -> Any:
        """The same on another device."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Images:
    """Some pictures of one size, numbers from 0 to 1."""

    pixels: Float[Tensor, "b channels height width"]

    def to(self, device: torch.device | str) -> "Images":
        """The same on another device."""
        return Images(self.pixels.to(device, non_blocking=True))

    def blended(self, share: Float[Tensor, " b"], partner: Int[Tensor, " b"]) -> "Images":
        """λ of each and 1 − λ of its partner."""
        weight = share.to(self.pixels.dtype)[:, None, None, None]
        return Images(weight * self.pixels + (1 - weight) * self.pixels[partner])

    def __len__(self) -> int:
        return self.pixels.shape[0]


@dataclass(frozen=True, eq=False)
class Sounds:
    """Some recordings at one rate, numbers from −1 to 1, padded with zeros at the right."""

    samples: Float[Tensor, "b n"]
    lengths: Int[Tensor, " b"]

    def to(self, device: torch.device | str) -> "Sounds":
        """The same on another device."""
        return Sounds(self.samples.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))

    def blended(self, share: Float[Tensor, " b"], partner: Int[Tensor, " b"]) -> "Sounds":
        """λ of each and 1 − λ of its partner, added; as long as the longer of the two."""
        real = torch.arange(self.samples.shape[1], device=self.samples.device) < self.lengths[:, None]
        heard = torch.where(real, self.samples, 0.0)
        weight = share.to(heard.dtype)[:, None]
        lengths = torch.maximum(self.lengths, self.lengths[partner])
        return Sounds(weight * heard + (1 - weight) * heard[partner], lengths)

    def __len__(self) -> int:
        return self.samples.shape[0]


Texts = Sequences | Packed
Target = TypeVar("Target", bound=Texts, default=Sequences)
Source = TypeVar("Source", bound=Batch, default=Sequences)  # what is read: text, pictures or sound


@dataclass(frozen=True, eq=False)
class Pairs(Generic[Source, Target]):
    """Sources and the texts they become. Texts end with END on both sides; the decoder's input, which begins with
    START, is up to the model.
    """

    source: Source
    target: Target

    def to(self, device: torch.device | str) -> "Pairs[Source, Target]":
        """The same on another device."""
        return Pairs(self.source.to(device), cast(Target, self.target.to(device)))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Labelled(Generic[Source]):
    """What is to be classified, and the class of each."""

    inputs: Source
    labels: Int[Tensor, " b"]
    span: Span | None = None  # of the labels, where it was found out before a GPU had to be asked

    def to(self, device: torch.device | str) -> "Labelled[Source]":
        """The same on another device."""
        leaving = self.labels.device.type == "cpu" != torch.device(device).type
        known = span_of(self.labels) if leaving else self.span
        return Labelled(self.inputs.to(device), self.labels.to(device, non_blocking=True), known)

    def __len__(self) -> int:
        return len(self.inputs)


First = TypeVar("First", bound=Batch, default=Batch)
Second = TypeVar("Second", bound=Batch, default=Batch)


@dataclass(frozen=True, eq=False)
class Both(Generic[First, Second]):
    """What two senses tell of the same things, one a row."""

    first: First
    second: Second

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise RegardError(
                f"{len(self.first)} of the first sense and {len(self.second)} of the second: one of each a row"
            )

    def to(self, device: torch.device | str) -> "Both[First, Second]":
        """The same on another device."""
        return Both(self.first.to(device), self.second.to(device))

    def __len__(self) -> int:
        return len(self.first)


AnyBatch = TypeVar("AnyBatch", bound=Batch, covariant=True)


@runtime_checkable
class Feed(Protocol[AnyBatch]):
    """What training is fed with: samples by number, and the order they come in."""

    def order(self, epoch: int) -> Sequence[Sequence[int]]:
        """The batches of an epoch as numbers of samples, each sample once: a pure function of (seed, epoch)."""

    def batch(self, samples: Sequence[int]) -> AnyBatch:
        """These samples as a batch."""


def each_once(feed: Feed[AnyBatch]) -> Iterator[AnyBatch]:
    """Every sample once, in the order of epoch 0: for validation."""
    for samples in feed.order(0):
        yield feed.batch(samples)
