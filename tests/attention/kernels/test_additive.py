"""The tiled additive score against the written-out one, and what it holds in memory."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard import Additive, Call, attend, weigh
from regard.attention.kernels import additive


def plain(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return torch.einsum("nqkr,nr->nqk", torch.tanh(query[:, :, None] + key[:, None]), vector)


@pytest.mark.parametrize("tile", [1, 7, 64, 1 << 17])
@pytest.mark.parametrize(
    ("calls", "queries", "keys", "hidden"), [(3, 5, 7, 4), (1, 1, 13, 2), (2, 0, 3, 4), (5, 3, 0, 1)]
)
def test_tiles_of_any_size_give_the_same(
    monkeypatch: pytest.MonkeyPatch, tile: int, calls: int, queries: int, keys: int, hidden: int
) -> None:
    monkeypatch.setattr(additive, "_TILE", tile)
    parts = [(calls, queries, hidden), (calls, keys, hidden), (calls, hidden)]
    inputs = [torch.randn(*shape).double().requires_grad_() for shape in parts]
    upstream = torch.randn(calls, queries, keys).double()
    ours, theirs = additive.additive_scores(*inputs), plain(*inputs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, upstream),
        torch.autograd.grad(theirs, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


def test_the_operator_is_registered_as_torch_wants_it() -> None:
    inputs = [torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 4)]
    torch.library.opcheck(
        torch.ops.regard.additive_scores.default, [part.requires_grad_() for part in inputs]
    )


class Largest(TorchDispatchMode):
    """Remembers the largest tensor any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = func(*args, **(kwargs or {}))
        for part in made if isinstance(made, tuple | list) else [made]:
            if isinstance(part, Tensor):
                self.numbers = max(self.numbers, part.numel())
        return made


def test_no_tensor_of_all_pairs_and_hidden_units_ever_exists() -> None:
    queries, keys, hidden = 150, 130, 64
    score = Additive(8, 8, hidden=hidden)
    query, key = torch.randn(queries, 8, requires_grad=True), torch.randn(keys, 8, requires_grad=True)
    # The tiles are made inside the operator, out of sight of the dispatcher: look at them where they are made.
    seen: list[int] = []
    made = additive._hidden

    def watched(query: Tensor, key: Tensor) -> Tensor:
        tile = made(query, key)
        seen.append(tile.numel())
        return tile

    additive._hidden = watched  # type: ignore[assignment]
    try:
        with Largest() as largest:
            attend(Call(query, key, score=score), key).sum().backward()
    finally:
        additive._hidden = made  # type: ignore[assignment]
    assert max(seen) <= additive._TILE
    assert sum(seen) == 2 * queries * keys * hidden  # every pair once forward, once backward
    assert largest.numbers == queries * keys
    with Largest() as written:
        weigh(Call(query, key, score=score))
    assert written.numbers == queries * keys * hidden


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_gradients_in_float32(dtype: torch.dtype) -> None:
    inputs = [torch.randn(1, 300, 8), torch.randn(1, 300, 8), torch.randn(1, 8)]
    upstream = torch.ones(1, 300, 300)
    exact = [part.to(dtype).double().requires_grad_() for part in inputs]
    half = [part.to(dtype).requires_grad_() for part in inputs]
    truth = torch.autograd.grad(plain(*exact), exact, upstream.double())
    found = torch.autograd.grad(additive.additive_scores(*half), half, upstream.to(dtype))
    for mine, other in zip(found, truth, strict=True):
        error = (mine.double() - other).abs().max() / other.abs().max()
        assert error < 4 * torch.finfo(dtype).eps
