"""How the drop-in is held against torch's own modules."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Answers = dict[str, Tensor]


@pytest.fixture
def no_worse() -> Callable[..., None]:
    """Ours are torch's answers, and no farther than twice as far as torch's from those in float64."""

    def compare(ours: Answers, theirs: Answers, exact: Answers, *, roundings: int) -> None:
        assert ours.keys() == theirs.keys()
        sizes = {name: answer.abs().max().item() if answer.numel() else 0.0 for name, answer in exact.items()}
        # A gradient may cancel to exactly 0 (of one key, the weight is always 1): all of them have one size.
        gradients = max((size for name, size in sizes.items() if name.startswith("gradient")), default=0.0)
        for name, wanted in theirs.items():
            got, size = ours[name], gradients if name.startswith("gradient") else sizes[name]
            assert got.shape == wanted.shape, name
            assert got.dtype == wanted.dtype, name
            assert torch.isfinite(wanted).all(), (
                f"{name}: torch's is not finite, so there is nothing to compare with"
            )
            torch.testing.assert_close(
                got, wanted, atol=1e-4 * size, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
            )
            if got.numel():
                error, bar = ((part.double() - exact[name]).abs().max().item() for part in (got, wanted))
                # With numbers this few torch may happen to be exact: some roundings of the largest are free.
                free = roundings * size * torch.finfo(got.dtype).eps
                assert error <= 2 * bar + free, f"{name}: off by {error:.2e}, torch by {bar:.2e}"

    return compare
