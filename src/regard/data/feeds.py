"""Texts as tokens, and the order in which training meets them.

A corpus holds many sequences of tokens as one array of small integers; in a file when there are too many. Texts are
read, tokenised and stored in pieces, so that no text need fit into memory. A feed makes batches of a corpus; their
order is a pure function of (seed, epoch).
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import END, PAD, START, Labelled, Packed, Pairs, Sequences, Texts
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError

MEMORY = 1 << 30  # bytes of tokens held before they go to a file
_PIECE = 1 << 20  # tokens gathered before they are put away


class Corpus:
    """Sequences of tokens by number. `Corpus.of(rows, vocabulary=…)` builds one from an iterator."""

    def __init__(self, tokens: NDArray[np.unsignedinteger], ends: NDArray[np.int64]) -> None:
        self.tokens = tokens  # all sequences, one after another
        self.starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
        self.lengths = ends - self.starts

    @classmethod
    def of(
        cls,
        rows: Iterable[Sequence[int]],
        *,
        vocabulary: int,
        memory: int = MEMORY,
        folder: str | None = None,
    ) -> "Corpus":
        """Put rows away as they come. Beyond `memory` bytes they go to a temporary file, mapped, gone at the end."""
        builder = CorpusBuilder(vocabulary=vocabulary, memory=memory, folder=folder)
        for row in rows:
            builder.add(row)
        return builder.build()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, sample: int) -> list[int]:
        if not 0 <= sample < len(self):
            raise IndexError(f"sample {sample} of {len(self)}")
        start = int(self.starts[sample])
        return self.tokens[start : start + int(self.lengths[sample])].tolist()

    def sequences(
        self, samples: Sequence[int], *, before: int | None = None, after: int | None = None
    ) -> Sequences:
        """These samples, filled up with PAD; a token before and one after each where given."""
        return cut(self.tokens, *self._places(samples), before=before, after=after)

    def packed(
        self, samples: Sequence[int], *, before: int | None = None, after: int | None = None
    ) -> Packed:
        """These samples end to end; a token before and one after each where given."""
        return cut_packed(self.tokens, *self._places(samples), before=before, after=after)

    def _places(self, samples: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not len(samples):
            raise RegardError("a batch of no sequences")
        rows = np.asarray(samples, np.int64)
        return self.starts[rows], self.lengths[rows]


def cut(
    tokens: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    before: int | None = None,
    after: int | None = None,
) -> Sequences:
    """Stretches of a long row of tokens, one a row, all at once."""
    first = int(before is not None)
    longest = int(lengths.max(initial=0))
    place = np.arange(longest)
    inside = place < lengths[:, None]
    filled = np.full((len(starts), first + longest + (after is not None)), PAD, np.int64)
    filled[:, first : first + longest][inside] = tokens[(starts[:, None] + place)[inside]]
    if before is not None:
        filled[:, 0] = before
    if after is not None:
        filled[np.arange(len(starts)), first + lengths] = after
    return Sequences(torch.from_numpy(filled), torch.from_numpy(lengths + first + (after is not None)))


def cut_packed(
    tokens: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    before: int | None = None,
    after: int | None = None,
) -> Packed:
    """Stretches of a long row of tokens, end to end, all at once."""
    first = int(before is not None)
    whole = lengths + first + (after is not None)
    ends = np.cumsum(whole)
    begins = ends - whole
    row = np.empty(int(whole.sum()), np.int64)
    inside = np.ones(len(row), bool)
    if before is not None:
        row[begins], inside[begins] = before, False
    if after is not None:
        row[ends - 1], inside[ends - 1] = after, False
    place = np.arange(len(row))[inside] - np.repeat(begins + first, lengths)
    row[inside] = tokens[np.repeat(starts, lengths) + place]
    return Packed(torch.from_numpy(row), torch.from_numpy(whole), int(whole.max()), int(whole.min()))


class CorpusBuilder:
    """A corpus in the making: rows are added one by one, and stay in memory until there are too many bytes."""

    def __init__(self, *, vocabulary: int, memory: int = MEMORY, folder: str | None = None) -> None:
        if not 0 < vocabulary <= 1 << 32:
            raise RegardError(f"vocabulary={vocabulary}: give the number of tokens, at most 2³²")
        self._vocabulary, self._memory, self._folder = vocabulary, memory, folder
        self._dtype: type[np.unsignedinteger] = np.uint16 if vocabulary <= 1 << 16 else np.uint32
        self._ends, self._gathered, self._total = array("q"), array("q"), 0
        self._parts: list[NDArray[np.unsignedinteger]] = []
        self._held = 0  # bytes in the parts
        self._file: IO[bytes] | None = None

    def add(self, row: Sequence[int]) -> None:
        """One more sequence."""
        self._gathered.extend(row)
        self._total += len(row)
        self._ends.append(self._total)
        if len(self._gathered) >= _PIECE:
            self._put_away()

    def build(self) -> Corpus:
        """All that was added."""
        self._put_away()
        ends = np.array(self._ends, np.int64)
        if self._file is not None:
            self._write()
            return Corpus(np.memmap(self._file, self._dtype, mode="r"), ends)
        return Corpus(np.concatenate([np.zeros(0, self._dtype), *self._parts]), ends)

    def _put_away(self) -> None:
        if not self._gathered:
            return
        row = np.frombuffer(self._gathered, np.int64)
        if row.min() < 0 or row.max() >= self._vocabulary:
            wrong = int(row.min() if row.min() < 0 else row.max())
            raise RegardError(f"token {wrong} is not in a vocabulary of {self._vocabulary}")
        self._parts.append(row.astype(self._dtype))
        self._gathered = array("q")
        self._held += self._parts[-1].nbytes
        if self._held > self._memory:
            self._write()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, prefix="regard-")  # noqa: SIM115
            for part in self._parts:
                self._file.write(part.tobytes())
            self._file.flush()
        except OSError as error:
            folder = self._folder or tempfile.gettempdir()
            raise RegardError(
                f"{folder}: no room for {self._held} bytes of tokens ({error.strerror})"
            ) from None
        self._parts = []


_TEXTS = 4096  # texts tokenized at once
Item = TypeVar("Item")


def tokenize(texts: Iterable[str], tokenizer: Tokenizer, *, memory: int = MEMORY) -> Corpus:
    """The tokens of every text."""
    rows = (row for piece in _pieces(texts) for row in tokenizer.encode_all(piece))
    return Corpus.of(rows, vocabulary=tokenizer.size, memory=memory)


def tokenize_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer, *, memory: int = MEMORY
) -> tuple[Corpus, Corpus]:
    """The tokens of both sides, by one tokenizer (given twice) or by two."""
    builders = [CorpusBuilder(vocabulary=side.size, memory=memory // 2) for side in (source, target)]
    for piece in _pieces(pairs):
        for builder, tokenizer, texts in zip(
            builders, (source, target), zip(*piece, strict=True), strict=True
        ):
            for row in tokenizer.encode_all(texts):
                builder.add(row)
    return builders[0].build(), builders[1].build()


def _pieces(items: Iterable[Item]) -> Iterator[list[Item]]:
    left = iter(items)
    while piece := [*islice(left, _TEXTS)]:
        yield piece


class Order(Sequence[Sequence[int]]):
    """Batches of sample numbers, as few bytes: one row of numbers, and the place of each batch in it."""

    def __init__(
        self, samples: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        self._samples, self._starts, self._ends = samples, starts, ends

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, batch: int) -> list[int]: ...
    @overload
    def __getitem__(self, batch: slice) -> "Order": ...
    def __getitem__(self, batch: int | slice) -> "list[int] | Order":
        if isinstance(batch, slice):
            return Order(self._samples, self._starts[batch], self._ends[batch])
        return self._samples[self._starts[batch] : self._ends[batch]].tolist()


class _TextFeed:
    """Samples of two lengths each; those longer than `longest` are left out, and counted in `left_out`.

    Padded, a batch holds samples of like lengths; packed, any. Either way no side has more than `budget` tokens.
    """

    def __init__(
        self,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        *,
        budget: int,
        seed: int,
        longest: int | None,
        packed: bool,
    ) -> None:
        check_budget(budget)
        self.packed = packed
        kept = np.arange(len(first))
        if longest is not None:
            kept = kept[np.maximum(first, second) <= longest]
        self.left_out = len(first) - len(kept)
        self._first, self._second, self._kept, self._seed = first, second, kept, seed
        self.budget = budget

    def order(self, epoch: int) -> Order:
        """At most `budget` tokens of either side in a batch, filling included."""
        rng = generator(self._seed, epoch)
        samples = rng.permutation(self._kept)
        first, second = self._first[samples], self._second[samples]
        if self.packed:
            bounds = _fill_packed(first, second, self.budget)
            return Order(samples, bounds[:-1], bounds[1:])
        # Sorted by length after shuffling, so that equals are mixed, because a batch is as wide as its longest.
        longer = np.maximum(first, second)
        shorter = np.minimum(first, second) // 8  # coarsely, or every epoch would see the same batches
        by_length = np.lexsort((shorter, longer))
        bounds = _fill(longer[by_length], self.budget)
        mixed = rng.permutation(len(bounds) - 1)
        return Order(samples[by_length], bounds[:-1][mixed], bounds[1:][mixed])

    def _cut(self, corpus: Corpus, samples: Sequence[int], *, before: int | None = None) -> Any:
        put = corpus.packed if self.packed else corpus.sequences
        return put(samples, before=before, after=END)


class PairFeed(_TextFeed):
    """Sources and targets; those of one number belong together."""

    def __init__(
        self,
        sources: Corpus,
        targets: Corpus,
        *,
        budget: int,
        seed: int,
        longest: int | None = None,
        packed: bool = False,
    ) -> None:
        if len(sources) != len(targets):
            raise RegardError(f"{len(sources)} sources and {len(targets)} targets: give one target a source")
        lengths = sources.lengths + 1, targets.lengths + 1
        super().__init__(*lengths, budget=budget, seed=seed, longest=longest, packed=packed)
        self.sources, self.targets = sources, targets

    def batch(self, samples: Sequence[int]) -> Pairs[Texts, Any]:
        """These pairs, both sides ended by END."""
        return Pairs(self._cut(self.sources, samples), self._cut(self.targets, samples))


class TextFeed(_TextFeed):
    """Texts for a language model, each by itself: START, its tokens, END."""

    def __init__(
        self, texts: Corpus, *, budget: int, seed: int, longest: int | None = None, packed: bool = False
    ) -> None:
        lengths = texts.lengths + 2, texts.lengths
        super().__init__(*lengths, budget=budget, seed=seed, longest=longest, packed=packed)
        self.texts = texts

    def batch(self, samples: Sequence[int]) -> Texts:
        """These texts."""
        cut: Texts = self._cut(self.texts, samples, before=START)
        return cut


class LabelledFeed(_TextFeed):
    """Texts, each ended by END, and the class of each."""

    def __init__(
        self,
        texts: Corpus,
        labels: Sequence[int],
        *,
        budget: int,
        seed: int,
        longest: int | None = None,
        packed: bool = False,
    ) -> None:
        if len(texts) != len(labels):
            raise RegardError(f"{len(texts)} texts and {len(labels)} labels: give one label a text")
        lengths = texts.lengths + 1, texts.lengths
        super().__init__(*lengths, budget=budget, seed=seed, longest=longest, packed=packed)
        self.texts, self.labels = texts, np.asarray(labels, np.int64)

    def batch(self, samples: Sequence[int]) -> Labelled[Texts]:
        """These texts and their classes."""
        return Labelled(self._cut(self.texts, samples), torch.from_numpy(self.labels[list(samples)]))


def _fill_packed(first: NDArray[np.int64], second: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Where to cut samples so that neither side of a batch has more tokens than the budget."""
    ends = [np.cumsum(lengths) for lengths in (first, second)]
    bounds = [0]
    while bounds[-1] < len(first):
        start = bounds[-1]
        before = [int(end[start - 1]) if start else 0 for end in ends]
        fitting = min(
            int(np.searchsorted(end, done + budget, side="right"))
            for end, done in zip(ends, before, strict=True)
        )
        bounds.append(max(fitting, start + 1))
    return np.array(bounds, np.int64)


def _fill(lengths: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Where to cut rising lengths so that every batch, rows × its last length, is as full as the budget allows."""
    bounds = [0]
    while bounds[-1] < len(lengths):
        start = bounds[-1]
        most = max(budget // int(lengths[start]), 1)
        ahead = lengths[start : start + most]
        fitting = int(np.searchsorted(ahead * np.arange(1, len(ahead) + 1), budget, side="right"))
        bounds.append(start + max(fitting, 1))
    return np.array(bounds, np.int64)


def generator(seed: int, epoch: int) -> np.random.Generator:
    """Numbers drawn from (seed, epoch) alone; no global generator is touched."""
    if seed < 0 or epoch < 0:
        raise RegardError(f"seed={seed}, epoch={epoch}: give numbers from 0")
    return np.random.Generator(np.random.PCG64([seed, epoch]))


def check_budget(budget: int) -> None:
    """Refuse a batch of no tokens."""
    if budget < 1:
        raise RegardError(f"budget={budget}: give at least 1 token a batch")
