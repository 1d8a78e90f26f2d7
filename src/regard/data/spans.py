"""Ranges of the numbers in a batch, found on the host before they are sent to a GPU.

Indexing past the end of a table on a GPU is a device-side assert, which ends all use of the GPU in the process; checking
the indices there first would make the host wait. So the smallest and the largest are found before the transfer.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

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
