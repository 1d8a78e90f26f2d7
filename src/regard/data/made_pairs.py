"""Training pairs made of others: joined into longer ones, or with a source as people type it in a hurry."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence

Pair = tuple[str, str]
POOL = 4096  # pairs that are drawn from: a uniform sample of those read so far
FEWEST, MOST = 2, 4  # pairs of a joined one
_ENDS = ".!?…。！？"
_STATEMENT = re.compile(r"\w\.$")  # ends with one full stop


def join_pairs(pairs: Iterable[Pair], *, share: float, seed: int) -> Iterator[Pair]:
    """The pairs as they come and `share` times as many joined ones: a pure function of the pairs and the seed.

    A translator of short sentences learns longer texts from them: joined targets translate joined sources (Kondo 2021).
    Half of those that can be are joined as clauses of one sentence, "He came, she left." Both sides of a pair are
    joined in the same way.
    """
    rng, pool, due = random.Random(seed), list[Pair](), 0.0
    inner: tuple[set[str], set[str]] = (set(), set())  # words of each side that were met inside a sentence
    for read, pair in enumerate(pairs, 1):
        yield pair
        for words, side in zip(inner, pair, strict=True):
            words.update(side.split()[1:])
        if len(pool) < POOL:
            pool.append(pair)
        elif (place := rng.randrange(read)) < POOL:  # of a file sorted by length, pairs of all lengths stay
            pool[place] = pair
        due += share
        while due >= 1 and len(pool) >= FEWEST:
            due -= 1
            drawn = rng.sample(pool, min(rng.randint(FEWEST, MOST), len(pool)))
            sides: list[Sequence[str]] = [*zip(*drawn, strict=True)]
            if rng.random() < 0.5 and all(_STATEMENT.search(text) for side in sides for text in side):
                source, target = (_clauses(side, words) for side, words in zip(sides, inner, strict=True))
            else:
                source, target = (" ".join(side) for side in sides)
            yield source, target


def _clauses(sentences: Sequence[str], inner: set[str]) -> str:
    """One sentence of several: commas for full stops, and small letters for words that are written small elsewhere."""
    first, *others = sentences
    lowered = [each[:1].lower() + each[1:] for each in others]
    kept = [small if small.split()[0] in inner else each for small, each in zip(lowered, others, strict=True)]
    *before, last = [first, *kept]
    return " ".join([*(each.removesuffix(".") + "," for each in before), last])


def hurried_sources(pairs: Iterable[Pair], *, share: float, seed: int) -> Iterator[Pair]:
    """The pairs as they come and `share` times as many with another source: a pure function of the pairs and the seed.

    Such a source is in small letters, in capitals, or as it was, and mostly without its last full stop, exclamation or
    question mark. The target is as it was, so a translator learns to write properly whatever it is given.
    """
    rng, due = random.Random(seed), 0.0
    for source, target in pairs:
        yield source, target
        due += share
        while due >= 1:
            due -= 1
            write = rng.choices((str.lower, str.upper, str), (6, 1, 3))[0]
            shorter = source.rstrip(_ENDS).rstrip() if rng.random() < 0.8 else source
            yield write(shorter) or source, target
