"""Models from their configs, and whether weights fit one: found from the header alone, before either is built.

A config of a few bytes may ask for more than any memory holds, and one of a billion blocks would never be built. So
the numbers of blocks are bounded first, then an outline of the model is built, whose tensors have a shape and no
contents, and its names, shapes and dtypes are compared with the header.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import RegardError
from regard.models.kind import Kind, kind_of
from regard.models.kinds import KINDS
from regard.runs.checkpoints import Header

MAX_BLOCKS = 1000  # of one kind, in a model that is to be trained
LARGEST = 1 << 24  # of any other number in a config

_MAKING = {f"aten::{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn")}
_ELEMENTWISE = {f"aten::{name}" for name in ("add", "sub", "mul", "div")}
_COUNTS = ("depth", "decoder_depth", "fusion_depth", "units")  # settings that say how many modules there are


def build_model(config: Any, kinds: Sequence[Kind] = KINDS) -> nn.Module:
    """The model that a config describes, with fresh weights."""
    return kind_of(config, kinds).model(config)


def check_fit(
    config: Any, header: Header, *, weights: object, described: object, kinds: Sequence[Kind] = KINDS
) -> None:
    """Refuse weights that are not those of this model. `weights` and `described` name the two files."""
    if not header.tensors:
        raise RegardError(f"{weights} does not fit {described}: it holds no tensors")
    # Every block has tensors of its own, so there are no more blocks than tensors.
    wanted = _outline(config, kinds, described, most=len(header.tensors)).state_dict()
    missing = [name for name in wanted if name not in header.tensors]
    unknown = [name for name in header.tensors if name not in wanted]
    if missing or unknown:
        what = ", ".join(
            [*(f"without {name}" for name in missing[:3]), *(f"with {name[:80]}" for name in unknown[:3])]
        )
        raise RegardError(f"{weights} does not fit {described}: it is {what}")
    for name, mine in wanted.items():
        theirs = header.tensors[name]
        if tuple(mine.shape) != theirs.shape:
            raise RegardError(
                f"{weights} does not fit {described}: {name} is {list(theirs.shape)} in the one and {list(mine.shape)} by "
                "the other"
            )
        if mine.is_floating_point() != theirs.dtype.is_floating_point:
            raise RegardError(
                f"{weights} does not fit {described}: {name} is {theirs.dtype}, and {mine.dtype} is wanted"
            )
    _affordable(sum(each.count * each.dtype.itemsize for each in header.tensors.values()), weights)


def check_size(config: Any, *, where: str = "model", kinds: Sequence[Kind] = KINDS) -> None:
    """Refuse a model to be trained whose weights alone would not fit into the memory of this machine."""
    outline = _outline(config, kinds, where, most=MAX_BLOCKS)
    _affordable(sum(each.numel() * each.element_size() for each in outline.parameters()), where)


def _outline(config: Any, kinds: Sequence[Kind], described: object, *, most: int) -> nn.Module:
    """The model, with shapes and no contents."""
    for each in fields(config):
        _check_number(each.name, getattr(config, each.name), described, most)
    try:
        with _WithoutContents():  # type: ignore[no-untyped-call]
            return build_model(config, kinds)
    except RegardError as error:
        raise RegardError(f"{described}: {error}") from None
    except (RuntimeError, ArithmeticError, ValueError, TypeError, MemoryError) as error:
        said = " ".join(str(error).split())[:200]
        raise RegardError(f"{described}: no model can be built like this ({said})") from None


class _WithoutContents(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors made inside are on the meta device and filling them does nothing.

    `torch.device("meta")` would do as well, but its arithmetic imports torch's compiler: two seconds for every run
    that is loaded.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and being skipped would import the compiler too

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, func._schema.name
        if name in _MAKING:
            return torch.empty(args[0], dtype=kwargs.get("dtype"), device="meta")
        tensors = [each for each in args if isinstance(each, Tensor)]
        if any(each.is_meta for each in tensors):
            if func._schema.is_mutable:
                return args[0]
            if name in _ELEMENTWISE:
                dtype = torch.result_type(*args[:2])
                shape = np.broadcast_shapes(*(each.shape for each in tensors))
                return torch.empty(shape, dtype=dtype, device="meta")
        return func(*args, **kwargs)


def _check_number(name: str, value: Any, described: object, most: int) -> None:
    if isinstance(value, tuple):
        if len(value) > most:
            raise RegardError(f"{described}: {len(value):,} {name}, more than {most:,}")
        for part in value:
            _check_number(name, part, described, LARGEST)
    elif isinstance(value, int) and value > (limit := most if name in _COUNTS else LARGEST):
        raise RegardError(f"{described}: {name}={value}, more than {limit:,}")


def _affordable(size: int, what: object) -> None:
    memory = _memory()
    if memory is not None and size > memory:
        raise RegardError(
            f"{what}: {size / 2**30:,.1f} GiB of weights, and this machine has {memory / 2**30:,.1f} GiB"
        )


def _memory() -> int | None:
    """Bytes of memory that this machine has, where a system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
