"""A corpus: many sequences of tokens, held as one array of small integers; in a file when there are too many.

Texts are read, tokenised and stored in pieces, so that no text need fit into memory.
"""

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import PAD, Packed, Sequences
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
        if not len(samples):
            raise RegardError("a batch of no sequences")
        rows = np.asarray(samples, np.int64)
        return cut(self.tokens, self.starts[rows], self.lengths[rows], before=before, after=after)

    def packed(
        self, samples: Sequence[int], *, before: int | None = None, after: int | None = None
    ) -> Packed:
        """These samples end to end; a token before and one after each where given."""
        if not len(samples):
            raise RegardError("a batch of no sequences")
        rows = np.asarray(samples, np.int64)
        return cut_packed(self.tokens, self.starts[rows], self.lengths[rows], before=before, after=after)


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
