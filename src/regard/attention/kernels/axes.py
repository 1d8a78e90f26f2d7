"""The four axes that kernels want, [batch, heads, positions, width], from any number of batch axes."""

from torch import Tensor


def four_axes(tensor: Tensor) -> Tensor:
    """[..., h, n, d] → [b, h, n, d]."""
    if tensor.ndim == 4:
        return tensor
    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def spread(matrix: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
    """A mask or bias with four axes; folding more than two batch axes needs those it is constant along."""
    if matrix is None:
        return None
    if len(batch) > 2 and matrix.ndim > 2:
        matrix = matrix.expand(*batch[:-1], *matrix.shape[-3:])
    return four_axes(matrix)
