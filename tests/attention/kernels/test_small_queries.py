"""A few queries on the CPU, against the equation in float64."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.kernels.native import kernels
from regard.attention.kernels.small_queries import small_queries
from regard.attention.masks import Mask, keep, lengths
from regard.attention.weights import weigh


@pytest.mark.parametrize("queries", [1, 4, 5])
@pytest.mark.parametrize(
    "mask",
    [None, lengths(keys=torch.tensor([7, 1, 0])), keep(torch.rand(3, 1, 1, 7) > 0.4)],
    ids=["everything", "lengths", "some"],
)
def test_a_few_queries_get_what_the_equation_says(queries: int, mask: Mask | None) -> None:
    query, key, value = torch.randn(3, 2, queries, 6), torch.randn(3, 2, 7, 6), torch.randn(3, 2, 7, 5)
    assert explain(Call(query, key, mask)).choice.kernel == "small queries"
    expected = weigh(query.double(), key.double(), mask) @ value.double()
    torch.testing.assert_close(attend(query, key, value, mask).double(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(4, 7), (1, 7), (2, 4, 7), (3, 2, 1, 7), (1, 2, 4, 7), (3, 2, 4, 7)], ids=str
)
def test_a_mask_may_be_the_same_for_all_or_differ_by_head(shape: tuple[int, ...]) -> None:
    query, key, value = (torch.randn(3, 2, n, 6) for n in (4, 7, 7))
    added = torch.zeros(shape).masked_fill(torch.rand(shape) < 0.5, -torch.inf)
    added[..., 2] = 0.0
    found = small_queries(query, key, value, added=added, scale=0.3, dropout=0.0)
    expected = (query.double() @ key.double().mT * 0.3 + added.double()).softmax(-1) @ value.double()
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_nan_where_no_query_looks_does_not_matter() -> None:
    query, key, value = torch.randn(2, 2, 1, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 5)
    mask = lengths(keys=torch.tensor([4, 7]))
    expected = attend(query, key, value, mask)
    key[0, :, 4:], value[0, :, 4:] = torch.nan, torch.inf
    assert torch.equal(attend(query, key, value, mask), expected)


def test_dropout_takes_weights_away_and_makes_the_others_larger() -> None:
    query, key = torch.randn(40, 2, 5, 6), torch.randn(40, 2, 7, 6)
    assert explain(Call(query, key), dropout=0.25).choice.kernel == "small queries"
    weights = weigh(query, key)
    left = attend(query, key, torch.eye(7).expand(40, 2, 7, 7), dropout=0.25)
    kept = left > 0
    torch.testing.assert_close(left, torch.where(kept, weights / 0.75, 0.0))
    assert 0.72 < kept.double().mean() < 0.78


def inputs(dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    parts = [torch.randn(2, 3, n, 8, generator=generator, dtype=torch.float64) for n in (4, 7, 7)]
    added = torch.zeros(2, 1, 4, 7).masked_fill(torch.rand(2, 1, 4, 7, generator=generator) < 0.4, -torch.inf)
    added[..., 0] = 0
    return [part.to(dtype).requires_grad_() for part in parts], added


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    return (query @ key.mT * 0.3 + added).softmax(-1) @ value


def test_gradients_do_not_choose_the_kernel() -> None:
    parts, added = inputs()
    with_gradients = small_queries(*parts, added=added, scale=0.3, dropout=0.0)
    assert with_gradients.requires_grad
    with torch.no_grad():
        assert torch.equal(small_queries(*parts, added=added, scale=0.3, dropout=0.0), with_gradients)
    detached = [part.detach() for part in parts]
    assert torch.equal(small_queries(*detached, added=added, scale=0.3, dropout=0.0), with_gradients)


def test_first_and_second_gradients_are_those_of_float64() -> None:
    (found, added), (wanted, _) = inputs(), inputs(torch.float64)
    weights = torch.randn(2, 3, 4, 8)
    first = torch.autograd.grad(
        (small_queries(*found, added=added, scale=0.3, dropout=0.0) * weights).sum(), found, create_graph=True
    )
    expected = torch.autograd.grad((plain(*wanted, added) * weights).sum(), wanted, create_graph=True)
    for one, other in zip(first, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-6)
    second = torch.autograd.grad(sum((each**2).sum() for each in first), found)
    expected = torch.autograd.grad(sum((each**2).sum() for each in expected), wanted)
    for one, other in zip(second, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_the_transforms_of_torch_func_go_through() -> None:
    (query, key, value), _ = inputs()
    found = torch.func.vmap(lambda one: attend(one, key, value))(torch.stack([query, query + 1]))
    torch.testing.assert_close(found[0], attend(query, key, value), rtol=0, atol=1e-6)


def test_it_is_said_which_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(torch.randn(3, 2, 1, 6), torch.randn(3, 2, 7, 6))
    assert (
        "small queries (torch): the C kernel has no dropout" in str(explain(call, dropout=0.1))
        or kernels() is None
    )
    if kernels() is not None:
        assert "small queries (C)" in str(explain(call))
    monkeypatch.setattr("regard.attention.kernels.small_queries.kernels", lambda: None)
    assert "small queries (torch): the C kernels are not built" in str(explain(call))
