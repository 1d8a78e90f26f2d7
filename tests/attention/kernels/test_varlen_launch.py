"""The kernels for variable lengths, against weights written out in float64. Lengths end inside of tiles, and beyond one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard import Mask, causal, lengths, packed, window
from regard.attention.kernels.triton_available import TRITON_INTERPRETED
from regard.attention.kernels.varlen import varlen
from regard.attention.packing import Packing
from regard.attention.reach import Extent

pytestmark = pytest.mark.triton

N, M = 83, 137
QUERIES, KEYS = torch.tensor([83, 70, 0]), torch.tensor([9, 137, 66])

SQUARE: dict[str, Callable[[], Mask]] = {
    "lengths": lambda: lengths(QUERIES),
    "of int16": lambda: lengths(QUERIES.to(torch.int16)),
    "one number": lambda: lengths(50),
    "left": lambda: lengths(QUERIES, padded="left"),
    "causal": lambda: causal() & lengths(QUERIES),
    "causal, left": lambda: causal() & lengths(QUERIES, padded="left"),
    "strictly before": lambda: causal(offset=-1) & lengths(QUERIES),
    "window": lambda: window(9),
    "window and lengths": lambda: window(20) & lengths(QUERIES),
    "window back, left": lambda: causal() & window(30) & lengths(QUERIES, padded="left"),
    "keys alone": lambda: lengths(keys=QUERIES),
    "keys and a window": lambda: window(5) & lengths(keys=QUERIES, padded="left"),
    "queries alone": lambda: lengths(queries=QUERIES),
    "too long": lambda: lengths(torch.tensor([500, 83, -3])),
    "far away": lambda: window(3, offset=100),
}
CROSS: dict[str, Callable[[], Mask]] = {
    "keys": lambda: lengths(keys=KEYS),
    "keys and queries": lambda: lengths(keys=KEYS, queries=QUERIES),
    "two sides": lambda: lengths(keys=KEYS) & lengths(queries=QUERIES, padded="left"),
    "a later part": lambda: causal(offset=M - N) & lengths(keys=KEYS),
    "a window on a memory": lambda: window(9, offset=20) & lengths(keys=KEYS, queries=QUERIES),
}
PACKED: dict[str, Callable[[], Mask]] = {
    "itself": lambda: packed(torch.tensor([3, 30, 5, 1, 44])),
    "back, filled up": lambda: causal() & packed(Packing.of(torch.tensor([3, 60, 5, 1]), size=83)),
}
PACKED_CROSS: dict[str, Callable[[], Mask]] = {
    "a memory": lambda: packed(torch.tensor([90, 17, 30]), queries=torch.tensor([3, 70, 10])),
    "a memory with gaps, filled up": lambda: packed(
        Packing.of(torch.tensor([9, 0, 3, 50, 20]), size=M),
        queries=Packing.of(torch.tensor([3, 7, 0, 5, 60]), size=N),
    ),
}


def drawn(mask: Mask, keys: int, shape: tuple[int, int, int, int] = (2, 1, 24, 9)) -> list[Tensor]:
    heads, kv_heads, width, value_width = shape
    batch = 1 if "packed" in repr(mask) else 3
    sizes = [(heads, N, width), (kv_heads, keys, width), (kv_heads, keys, value_width)]
    return [torch.randn(batch, *size) for size in sizes]


def attended(
    mask: Mask, query: Tensor, key: Tensor, value: Tensor, scale: float = 0.3, dropout: float = 0.0
) -> Tensor:
    extent = Extent(queries=query.shape[-2], keys=key.shape[-2], device=query.device)
    reach = mask.reach_over(extent, query.ndim - 2)
    return varlen(query, key, value, reach, scale=scale, dropout=dropout)


def allowed_by(mask: Mask, queries: int, keys: int) -> Tensor:
    matrix = mask.dense(queries, keys)
    return matrix if matrix.ndim == 2 else matrix.reshape(-1, 1, queries, keys)


def written(mask: Mask, query: Tensor, key: Tensor, value: Tensor, scale: float = 0.3) -> Tensor:
    allowed = allowed_by(mask, query.shape[-2], key.shape[-2])
    groups = query.shape[1] // key.shape[1]
    key, value = (part.double().repeat_interleave(groups, 1) for part in (key, value))
    scores = (query.double() @ key.mT * scale).masked_fill(~allowed, -1e300)
    return (scores.softmax(-1) * allowed) @ value


def with_gradients(
    how: Callable[..., Tensor], mask: Mask, parts: list[Tensor], slope: Tensor
) -> list[Tensor]:
    parts = [part.detach().clone().requires_grad_() for part in parts]
    output = how(mask, *parts)
    return [output.detach(), *torch.autograd.grad(output, parts, slope.to(output.dtype))]


def poison(like: Tensor) -> Tensor:
    return torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30])[torch.randint(4, like.shape)]


CASES = [(make, N) for make in SQUARE.values()] + [(make, M) for make in CROSS.values()]
CASES += [(make, N) for make in PACKED.values()] + [(make, M) for make in PACKED_CROSS.values()]
IDS = [*SQUARE, *CROSS, *PACKED, *PACKED_CROSS]


@pytest.mark.parametrize(("make", "keys"), CASES, ids=IDS)
def test_output_and_gradients_are_those_of_the_equation(make: Callable[[], Mask], keys: int) -> None:
    mask = make()
    parts = drawn(mask, keys)
    slope = torch.randn(*parts[0].shape[:-1], parts[2].shape[-1])
    exact = with_gradients(written, mask, [part.double() for part in parts], slope)
    for mine, other in zip(with_gradients(attended, mask, parts, slope), exact, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("make", "keys"), CASES, ids=IDS)
def test_what_nobody_sees_is_never_read(make: Callable[[], Mask], keys: int) -> None:
    mask = make()
    parts = drawn(mask, keys)
    slope = torch.randn(*parts[0].shape[:-1], parts[2].shape[-1])
    allowed = allowed_by(mask, N, keys)
    looking, seen = (allowed.any(axis)[..., None] for axis in (-1, -2))
    used = [looking, seen, seen]
    clean = with_gradients(attended, mask, parts, slope)
    bad = [part.where(some, poison(part)) for part, some in zip(parts, used, strict=True)]
    found = with_gradients(attended, mask, bad, slope.where(looking, poison(slope)))
    for mine, other in zip(found, clean, strict=True):
        assert torch.equal(mine, other)
    unused = [~some.expand_as(part) for part, some in zip(clean, [looking, *used], strict=True)]
    for part, none in zip(clean, unused, strict=True):
        assert (part[none] == 0).all()


SHAPES = [(2, 2, 16, 16), (6, 2, 33, 70), (1, 1, 200, 5), (3, 3, 1, 256), (2, 1, 64, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float16, 1e-2), (torch.bfloat16, 8e-2)], ids=str
)
def test_every_width_and_dtype(
    shape: tuple[int, int, int, int], dtype: torch.dtype, tolerance: float
) -> None:
    if TRITON_INTERPRETED and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies no bfloat16")
    mask = causal() & lengths(QUERIES)
    parts = [part.to(dtype) for part in drawn(mask, N, shape)]
    slope = torch.randn(*parts[0].shape[:-1], parts[2].shape[-1]).to(dtype)
    exact = with_gradients(
        lambda *given: written(*given, scale=0.1), mask, [p.double() for p in parts], slope
    )
    found = with_gradients(lambda *given: attended(*given, scale=0.1), mask, parts, slope)
    for mine, other in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("scale", [0.0, -0.4])
def test_scores_may_all_be_one_or_turned_round(scale: float) -> None:
    mask = window(20) & lengths(QUERIES)
    parts = drawn(mask, N)
    slope = torch.randn(3, 2, N, 9)
    exact = with_gradients(
        lambda *given: written(*given, scale=scale), mask, [p.double() for p in parts], slope
    )
    found = with_gradients(lambda *given: attended(*given, scale=scale), mask, parts, slope)
    for mine, other in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-4, atol=1e-5)


def test_fewer_axes_and_any_order_in_memory() -> None:
    query, key, value = (torch.randn(3, N, 2, 24).transpose(1, 2) for _ in range(3))
    mask = lengths(QUERIES)
    right = written(mask, query, key, value).float()
    torch.testing.assert_close(attended(mask, query, key, value), right, rtol=1e-4, atol=1e-5)
    columns = [part.mT.contiguous().mT for part in (query, key, value)]
    torch.testing.assert_close(attended(mask, *columns), right, rtol=1e-4, atol=1e-5)
    one = attended(mask, query[:, 1], key[:, 1], value[:, 1])
    torch.testing.assert_close(one, right[:, 1], rtol=1e-4, atol=1e-5)
    alone = attended(lengths(70), query[1, 1], key[1, 1], value[1, 1])
    torch.testing.assert_close(alone, right[1, 1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(0, 2, 5, 7), (3, 2, 0, 7), (3, 2, 5, 0)], ids=str)
def test_where_there_is_nothing_there_are_gradients_of_zeros(size: tuple[int, int, int, int]) -> None:
    batch, heads, queries, keys = size
    parts = [torch.randn(batch, heads, each, 8, requires_grad=True) for each in (queries, keys, keys)]
    output = attended(lengths(keys=torch.full((batch,), 4)), *parts)
    assert output.shape == (batch, heads, queries, 8)
    assert (output == 0).all()
    output.sum().backward()
    assert all(part.grad is not None and (part.grad == 0).all() for part in parts)


@pytest.mark.parametrize("make", [lambda: causal() & lengths(QUERIES), PACKED["back, filled up"]])
def test_all_passes_drop_the_same_weights(make: Callable[[], Mask]) -> None:
    mask = make()
    parts = [part.requires_grad_() for part in drawn(mask, N)]
    steps = [torch.randn_like(part) for part in parts]
    slope = torch.randn(*parts[0].shape[:-1], 9)

    def total(*some: Tensor) -> Tensor:
        torch.manual_seed(7)
        return (attended(mask, *some, dropout=0.4) * slope).sum()

    along = sum((a * b).sum() for a, b in zip(torch.autograd.grad(total(*parts), parts), steps, strict=True))
    with torch.no_grad():
        ahead, behind = (
            total(*(a + sign * 1e-2 * b for a, b in zip(parts, steps, strict=True))) for sign in (1, -1)
        )
    torch.testing.assert_close(along, (ahead - behind) / 2e-2, rtol=1e-2, atol=1e-2)


def test_that_share_of_the_weights_is_dropped() -> None:
    nothing, one = torch.zeros(1, 2, 200, 16), torch.ones(1, 2, 200, 16)
    mixed = attended(lengths(200), nothing, nothing, one, dropout=0.25)
    assert mixed.mean().item() == pytest.approx(1, abs=0.02)
    share = (mixed[..., 0] * 0.75 * 200).round() / 200  # of the weights that stayed
    assert share.mean().item() == pytest.approx(0.75, abs=0.02)


def test_bits_do_not_depend_on_whether_gradients_are_wanted() -> None:
    mask = causal() & lengths(QUERIES)
    parts = drawn(mask, N)
    plain = attended(mask, *parts)
    wanted = attended(mask, *(part.clone().requires_grad_() for part in parts))
    assert torch.equal(plain, wanted)
    with torch.no_grad():
        assert torch.equal(plain, attended(mask, *(part.clone().requires_grad_() for part in parts)))
