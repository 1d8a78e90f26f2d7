"""Spans: what the numbers of a batch range over, found out on the host before they are sent to a GPU.

A table that is asked for a row it does not have ends all use of a GPU in its process; and to look whether a tensor there
asks for one, the host has to wait for it. So the smallest and the largest are found out while it costs nothing.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

Span = tuple[int, int]  # the smallest and the largest of some whole numbers


@dataclass(frozen=True)
class Spans:
    """Of the tokens of some texts, and of their lengths."""

    tokens: Span
    lengths: Span
    total: int  # of the lengths

    @classmethod
    def of(cls, tokens: Int[Tensor, "*any"], lengths: Int[Tensor, " b"]) -> "Spans":
        """Waits, once, for a GPU that has them."""
        parts = [*_ends(tokens), *_ends(lengths), lengths.sum()]
        numbers: list[int] = torch.stack([part.long() for part in parts]).tolist()
        return cls((numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4])


def span_of(numbers: Int[Tensor, "*any"]) -> Span:
    """The smallest and the largest; 0 and 0 of none. Waits for a GPU that has them."""
    least, most = torch.stack(_ends(numbers)).tolist()
    return least, most


def sent(texts: Any, device: torch.device | str) -> Spans | None:
    """The spans of texts (`Sequences` or `Packed`) that are sent to a device, as far as nobody has to wait for them."""
    leaving = texts.tokens.device.type == "cpu" != torch.device(device).type
    return Spans.of(texts.tokens, texts.lengths) if leaving else texts.spans


def _ends(numbers: Tensor) -> tuple[Tensor, Tensor]:
    least, most = torch.aminmax(numbers if numbers.numel() else numbers.new_zeros(1))
    return least, most
