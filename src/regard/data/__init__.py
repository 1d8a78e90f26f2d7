"""Data: what models are fed with. Knows no model."""

from regard.data.batches import (
    END,
    PAD,
    START,
    UNKNOWN,
    Batch,
    Both,
    Feed,
    Images,
    Labelled,
    Packed,
    Pairs,
    Sequences,
    Sounds,
)

__all__ = [
    "END",
    "PAD",
    "START",
    "UNKNOWN",
    "Batch",
    "Both",
    "Feed",
    "Images",
    "Labelled",
    "Packed",
    "Pairs",
    "Sequences",
    "Sounds",
]
