"""Nested tensors: sequences of different lengths in one tensor, made rectangular and back.

In a rectangle they are padded on the right with zeros, and a key padding mask (torch's: True = padding) says where.
"""

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def to_dense(
    sequences: Tensor, key_padding_mask: Tensor | None = None, *, batch_first: bool
) -> tuple[Tensor, Tensor | None]:
    """[batch, longest, width] and where its padding is, on top of a mask that may be given. A dense tensor stays."""
    if not sequences.is_nested:
        return sequences, key_padding_mask
    if not batch_first:
        raise AssertionError("a nested tensor has its batch first, and batch_first is False: make it True")
    if sequences.ndim != 3:
        raise AssertionError(f"a nested tensor with {sequences.ndim} axes: give [batch, positions, width]")
    dense = pad_sequence(list(sequences.unbind()), batch_first=True)
    padding = ~_real(sequences, dense.shape[1])
    if key_padding_mask is None:
        return dense, padding
    if key_padding_mask.dtype == torch.bool:
        return dense, key_padding_mask | padding
    return dense, key_padding_mask.masked_fill(padding, -torch.inf)


def to_nested(dense: Tensor, like: Tensor) -> Tensor:
    """The same sequences without their padding, of the lengths and layout of `like`. For a dense `like`, as it is."""
    if not like.is_nested:
        return dense
    if like.layout == torch.jagged:
        # The offsets are taken over, so that the result can be added to the tensor it came from.
        real = _real(like, dense.shape[1])
        return torch.nested.nested_tensor_from_jagged(dense[real], offsets=like.offsets())  # type: ignore[attr-defined]
    rows = [row[: len(sequence)] for row, sequence in zip(dense.unbind(), like.unbind(), strict=True)]
    return torch.nested.as_nested_tensor(rows)


def _real(sequences: Tensor, longest: int) -> Tensor:
    counts = torch.tensor([len(sequence) for sequence in sequences.unbind()], device=sequences.device)
    return torch.arange(longest, device=sequences.device) < counts[:, None]
