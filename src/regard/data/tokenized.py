"""Texts become corpora: read, tokenized and put away piece by piece, so that no text need fit into memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from regard.data.corpus import MEMORY, Corpus, CorpusBuilder
from regard.data.tokenizer import Tokenizer

_PIECE = 4096  # texts tokenized at once
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
    while piece := [*islice(left, _PIECE)]:
        yield piece
