"""Batches in few shapes, for what is made once for every shape: records of updates on a GPU, kernels on a CPU."""

from dataclasses import replace
from typing import Any

from regard.data.batches import Packed, Pairs, Sequences

_ROUND = 128  # tokens the longer side of a batch is filled up to a multiple of
_PARTS = 8  # of which the other side is filled up to some, so that few shapes come
_LENGTH = 8  # tokens the rows of padded texts are filled up to a multiple of
_REACH = 64  # positions that a record of packed texts serves a multiple of
_EVEN = 16  # tokens a side of a batch is filled up to a multiple of on a CPU


def filled_up(*sides: Any, budget: int) -> list[Packed]:
    """The sides of a batch in few shapes, each with as many lengths as the longer has tokens, those too many 0.

    The longer side has a multiple of some tokens, or of an eighth of what it may have if it has far fewer: the last batch
    of an epoch is small, and each time another. The other has eighths of the longer.
    """
    longest, part = max(side.tokens.shape[0] for side in sides), _up(budget, _ROUND) // _PARTS
    most = _up(longest, _ROUND if longest > (_PARTS - 1) * part else part)
    return [side.filled_up(_up(side.tokens.shape[0], most // _PARTS), most) for side in sides]


def reaching(side: Packed, end: int | None) -> Packed:
    """The same, said to have texts up to a round length, though none that goes beyond the last position there is.

    What is captured for it then serves most batches of its shape: each has another longest text.
    """
    most = _up(side.longest, _REACH)
    return replace(side, longest=max(side.longest, most if end is None else min(most, end)))


def rounded(*sides: Sequences) -> list[Sequences]:
    """Padded texts in few shapes: as many rows as an eighth of a power of two, and rows of a round length."""
    rows = len(sides[0])
    rows = _up(rows, max((1 << (rows - 1).bit_length()) // _PARTS, 1))
    return [side.filled_up(rows, _up(side.tokens.shape[1], _LENGTH)) for side in sides]


def evened(batch: Any) -> Any:
    """The same with packed texts filled up by a few tokens, as a CPU likes them.

    Its products in 16 bits get a kernel of their own for every number of rows, at some tenths of a millisecond each, and
    each batch has another number of tokens.
    """
    if isinstance(batch, Pairs):
        return Pairs(evened(batch.source), evened(batch.target))
    if not isinstance(batch, Packed):
        return batch
    return batch.filled_up(_up(batch.tokens.shape[0], _EVEN), len(batch))


def _up(count: int, to: int) -> int:
    return -(-count // to) * to
