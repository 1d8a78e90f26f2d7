"""Weights in a quarter of the space: matrices as bytes, with one scale a row, as `optimise` in int8 makes them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.layers.inference_only import int8_rows
from regard.runs.checkpoints import Described, Header

SCALE = ".int8_scale"  # after the name of a matrix: the name of its scales


def compressed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in int8 with their scales; everything else as it is."""
    found = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.is_floating_point():
            found[name], found[name + SCALE] = int8_rows(tensor.float())
    return found


def expanded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file in float32, whether its matrices are in int8 or not."""
    return {
        name: tensor.float() * tensors[name + SCALE][:, None] if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def expanded_header(header: Header) -> Header:
    """The header that the file would have in float32; refused where scales do not fit their matrix."""
    known = header.tensors
    found = {name: each for name, each in known.items() if not name.endswith(SCALE)}
    for name, scale in known.items():
        if not name.endswith(SCALE):
            continue
        matrix = known.get(name.removesuffix(SCALE))
        if matrix is None or matrix.dtype != torch.int8 or len(matrix.shape) != 2:
            raise RegardError(f"{name[:80]} are scales of no matrix in int8")
        if scale.dtype != torch.float32 or scale.shape != matrix.shape[:1]:
            raise RegardError(
                f"{name[:80]} is {scale.dtype} {list(scale.shape)} for {matrix.shape[0]:,} rows"
            )
        found[name.removesuffix(SCALE)] = Described(torch.float32, matrix.shape)
    return Header(tensors=found, about=header.about)
