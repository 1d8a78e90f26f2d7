"""Feeds: samples, and the order in which training meets them. The order is a pure function of (seed, epoch)."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import END, START, Labelled, Pairs, Texts
from regard.data.corpus import Corpus, cut, cut_packed
from regard.errors import RegardError


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


class Fresh:
    """Samples that no epoch repeats, each drawn from (seed, number): epoch e has the numbers from e × samples on."""

    def __init__(self, *, seed: int, rows: int, samples: int) -> None:
        if rows < 1 or samples < 1 or seed < 0:
            raise RegardError(
                f"rows={rows}, samples={samples}, seed={seed}: give at least 1 of each, a seed from 0"
            )
        self.seed, self.rows, self.samples = seed, rows, samples

    def order(self, epoch: int) -> Order:
        """The fresh samples of an epoch. They are drawn independently, so there is nothing to shuffle."""
        if epoch < 0:
            raise RegardError(f"epoch={epoch}: give a number from 0")
        numbers = np.arange(epoch * self.samples, (epoch + 1) * self.samples, dtype=np.int64)
        starts = np.arange(0, self.samples, self.rows, dtype=np.int64)
        return Order(numbers, starts, np.minimum(starts + self.rows, self.samples))


class PairFeed:
    """Sources and targets of one number belong together. Samples longer than `longest` are left out, and counted.

    Padded, a batch holds pairs of like lengths; packed, any pairs. Either way no side has more than `budget` tokens.
    """

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
        self.sources, self.targets, self.packed = sources, targets, packed
        self._batches = _batches(sources.lengths + 1, targets.lengths + 1, budget, seed, longest, packed)
        self.left_out = self._batches.left_out

    def order(self, epoch: int) -> Order:
        """At most `budget` tokens of either side in a batch, filling included."""
        return self._batches.order(epoch)

    def batch(self, samples: Sequence[int]) -> Pairs[Texts, Any]:
        """These pairs, both sides ended by END."""
        if self.packed:
            return Pairs(self.sources.packed(samples, after=END), self.targets.packed(samples, after=END))
        return Pairs(self.sources.sequences(samples, after=END), self.targets.sequences(samples, after=END))


class TextFeed:
    """Texts for a language model, each by itself: START, its tokens, END."""

    def __init__(
        self, texts: Corpus, *, budget: int, seed: int, longest: int | None = None, packed: bool = False
    ) -> None:
        self.texts, self.packed = texts, packed
        self._batches = _batches(texts.lengths + 2, texts.lengths, budget, seed, longest, packed)
        self.left_out = self._batches.left_out

    def order(self, epoch: int) -> Order:
        """At most `budget` tokens in a batch, filling included; padded, texts of like lengths together."""
        return self._batches.order(epoch)

    def batch(self, samples: Sequence[int]) -> Texts:
        """These texts."""
        put = self.texts.packed if self.packed else self.texts.sequences
        return put(samples, before=START, after=END)


class LabelledFeed:
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
        self.texts, self.labels, self.packed = texts, np.asarray(labels, np.int64), packed
        self._batches = _batches(texts.lengths + 1, texts.lengths, budget, seed, longest, packed)
        self.left_out = self._batches.left_out

    def order(self, epoch: int) -> Order:
        """At most `budget` tokens in a batch, filling included; padded, texts of like lengths together."""
        return self._batches.order(epoch)

    def batch(self, samples: Sequence[int]) -> Labelled[Texts]:
        """These texts and their classes."""
        put = self.texts.packed if self.packed else self.texts.sequences
        return Labelled(put(samples, after=END), torch.from_numpy(self.labels[list(samples)]))


class StreamFeed:
    """One long text for a language model, cut into windows of `context` + 1 tokens that overlap by one.

    Every token but the first is predicted once an epoch. The cuts move from epoch to epoch, by an offset drawn from
    (seed, epoch), so that every token comes to be predicted from every distance; with `shift=False` they do not.
    Sample k is the window whose last token is token k (where the text goes that far).
    """

    def __init__(
        self,
        stream: NDArray[np.unsignedinteger],
        *,
        context: int,
        budget: int,
        seed: int,
        shift: bool = True,
        packed: bool = False,
    ) -> None:
        if context < 1 or len(stream) < 2:
            raise RegardError(
                f"context={context}, {len(stream)} tokens: give at least 1 and a text of at least 2"
            )
        _check_budget(budget)
        self.stream, self.context, self.seed, self.shift, self.packed = stream, context, seed, shift, packed
        self.rows = max(budget // context, 1)

    def order(self, epoch: int) -> Order:
        """All windows, shuffled, `budget` predicted tokens in a batch."""
        rng = _generator(self.seed, epoch)
        first = int(rng.integers(1, self.context + 1)) if self.shift else self.context
        lasts = np.arange(first, len(self.stream) - 1 + self.context, self.context, dtype=np.int64)
        if self.shift:
            rng.shuffle(lasts)
        starts = np.arange(0, len(lasts), self.rows, dtype=np.int64)
        return Order(lasts, starts, np.minimum(starts + self.rows, len(lasts)))

    def batch(self, samples: Sequence[int]) -> Texts:
        """These windows."""
        lasts = np.asarray(samples, np.int64)
        starts = np.maximum(lasts - self.context, 0)
        put = cut_packed if self.packed else cut
        return put(self.stream, starts, np.minimum(lasts, len(self.stream) - 1) - starts + 1)


def _batches(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    budget: int,
    seed: int,
    longest: int | None,
    packed: bool,
) -> "_Buckets | _Heaps":
    _check_budget(budget)
    kept = np.arange(len(first))
    if longest is not None:
        kept = kept[np.maximum(first, second) <= longest]
    return (_Heaps if packed else _Buckets)(first, second, kept, budget, seed)


class _Samples:
    """Samples of two lengths each, to be put into batches of a budget of tokens."""

    def __init__(
        self,
        first: NDArray[np.int64],
        second: NDArray[np.int64],
        kept: NDArray[np.int64],
        budget: int,
        seed: int,
    ) -> None:
        self.first, self.second, self.kept, self.budget, self.seed = first, second, kept, budget, seed
        self.left_out = len(first) - len(kept)


class _Buckets(_Samples):
    """Samples of like lengths go together, because a batch is as wide as its longest."""

    def order(self, epoch: int) -> Order:
        """Shuffled, then sorted by length, so that equals are mixed; cut; and the batches shuffled."""
        rng = _generator(self.seed, epoch)
        samples = rng.permutation(self.kept)
        first, second = self.first[samples], self.second[samples]
        longer = np.maximum(first, second)
        shorter = np.minimum(first, second) // 8  # coarsely, or every epoch would see the same batches
        by_length = np.lexsort((shorter, longer))
        samples = samples[by_length]
        bounds = _fill(longer[by_length], self.budget)
        mixed = rng.permutation(len(bounds) - 1)
        return Order(samples, bounds[:-1][mixed], bounds[1:][mixed])


class _Heaps(_Samples):
    """Samples come as they are drawn, for a batch is as large as what is in it."""

    def order(self, epoch: int) -> Order:
        """Shuffled, and cut where one side or the other would have too many tokens."""
        samples = _generator(self.seed, epoch).permutation(self.kept)
        ends = [np.cumsum(lengths[samples]) for lengths in (self.first, self.second)]
        bounds = [0]
        while bounds[-1] < len(samples):
            start = bounds[-1]
            before = [int(end[start - 1]) if start else 0 for end in ends]
            fitting = min(
                int(np.searchsorted(end, done + self.budget, side="right"))
                for end, done in zip(ends, before, strict=True)
            )
            bounds.append(max(fitting, start + 1))
        cuts = np.array(bounds, np.int64)
        return Order(samples, cuts[:-1], cuts[1:])


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


def _generator(seed: int, epoch: int) -> np.random.Generator:
    """Numbers drawn from (seed, epoch) alone; no global generator is touched."""
    if seed < 0 or epoch < 0:
        raise RegardError(f"seed={seed}, epoch={epoch}: give numbers from 0")
    return np.random.Generator(np.random.PCG64([seed, epoch]))


def _check_budget(budget: int) -> None:
    if budget < 1:
        raise RegardError(f"budget={budget}: give at least 1 token a batch")
