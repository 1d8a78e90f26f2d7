"""What a query that may look at nothing gets: 0 here, NaN in torch when it also returns the weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_STRICT: ContextVar[bool] = ContextVar("regard.interop.torch.strict_nan", default=False)


@contextmanager
def strict_nan() -> Iterator[None]:
    """Inside, answer as torch does: NaN in the output and weights of a query that may look at nothing.

    Torch does so only with `need_weights=True`; without, its answer is the 0 that ours always is.
    """
    token = _STRICT.set(True)
    try:
        yield
    finally:
        _STRICT.reset(token)


def is_strict() -> bool:
    """Whether the caller is inside `strict_nan()`. A compiled module never does: its graph is of one kind."""
    return not torch.compiler.is_compiling() and _STRICT.get()
