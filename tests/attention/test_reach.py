"""What a mask can reach, in every form that kernels take, against the matrix of the mask."""

import pytest
import torch
from torch import Tensor

from regard import Mask, attend, causal, documents, keep, lengths, prefix, weigh, window
from regard.attention.reach import Extent, Reach

CPU = torch.device("cpu")
N = 5
MASKS: list[Mask] = [
    causal(),
    causal(offset=-2),
    causal(offset=N),
    window(2),
    window(1) & ~window(1),
    lengths(3),
    lengths(3, padded="left"),
    lengths(0),
    lengths(torch.tensor([2, 5, 0])),
    lengths(torch.tensor([2, 5, 0]), padded="left"),
    lengths(keys=2),
    lengths(queries=2),
    causal() & lengths(torch.tensor([2, 4, 5])),
    causal() & lengths(torch.tensor([2, 4, 5]), padded="left"),
    causal(offset=-1) & lengths(3),
    causal(offset=-1) & lengths(3, padded="left"),
    ~causal() & lengths(3),
    window(2) & lengths(4, padded="left"),
    causal() | prefix(2),
    documents(torch.tensor([0, 0, 1, 1, -1])),
    keep(torch.tensor([[1, 0, 0, 1, 0], [0] * 5, [1] * 5, [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]).bool()),
]


def of(mask: Mask) -> tuple[Reach, Tensor]:
    """The reach of a mask over N queries and keys, and its matrix, [batch, N, N]."""
    reach, matrix = mask.reach(Extent(queries=N, keys=N, device=CPU)), mask.dense(N, N)
    return reach.over(matrix.ndim - 2), matrix


def rows(part: Tensor | None, like: Tensor) -> Tensor:
    """What a reach says of rows or columns, spread; None is all of them."""
    return torch.ones_like(like[..., 0]) if part is None else part.expand_as(like[..., 0])


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("settled", [False, True])
def test_every_form_says_what_the_matrix_says(mask: Mask, settled: bool) -> None:
    reach, matrix = of(mask)
    reach = reach.settled() if settled else reach
    looking = matrix.any(-1)
    assert torch.equal(rows(reach.looking(), matrix), looking)
    assert torch.equal(rows(reach.seen(), matrix.mT), matrix.any(-2))
    opened, added = reach.matrix(), reach.added()
    if opened is None or added is None:
        assert opened is None
        assert added is None
        opened = torch.ones_like(matrix)
        added = opened * 0.0
    opened, added = opened.expand_as(matrix), added.expand_as(matrix)
    # Rows that look at nothing may hold anything but nothing: a kernel needs something to sum over.
    assert torch.equal(opened[looking], matrix[looking])
    assert bool(opened.any(-1).all())
    assert torch.equal(added, torch.zeros(()).where(opened, -torch.inf))
    if reach.everything:
        assert bool(matrix[looking].all())
    if reach.triangular:
        assert torch.equal(matrix[looking], torch.ones(N, N).tril().bool().expand_as(matrix)[looking])
    if reach.mirrored:
        assert torch.equal(looking, matrix.any(-2))


def test_the_plain_cases_have_their_cheap_forms() -> None:
    assert of(causal())[0].triangular
    assert of(causal() & lengths(3))[0].triangular
    assert not of(causal() & lengths(3, padded="left"))[0].triangular
    assert of(lengths(3))[0].mirrored
    assert not of(causal(offset=-1) & lengths(3))[0].mirrored
    assert of(causal(offset=N))[0].everything


@pytest.mark.parametrize("mask", MASKS, ids=repr)
@pytest.mark.parametrize("queries", [N, 7])
def test_few_queries_and_many_look_where_the_mask_lets_them(mask: Mask, queries: int) -> None:
    """Five queries a head take another kernel than seven; the last two of the seven are in a sequence of their own."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 3, 2, queries, 4)
    if queries != N:
        matrix = torch.zeros(*mask.dense(N, N).shape[:-2], queries, queries, dtype=torch.bool)
        matrix[..., :N, :N] = mask.dense(N, N)
        matrix[..., N:, N:] = True
        mask = keep(matrix)
    matrix = mask.dense(queries, queries)
    scores = (q.double() @ k.double().mT / 2).masked_fill(
        ~(matrix if matrix.ndim == 2 else matrix[:, None]), -torch.inf
    )
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    torch.testing.assert_close(weigh(q, k, mask), weights.float(), atol=1e-6, rtol=0)
    torch.testing.assert_close(attend(q, k, v, mask), (weights @ v.double()).float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("queries", [4, 7])
def test_a_bias_is_added_under_a_causal_mask_too(queries: int) -> None:
    """The causal flag of a fused kernel leaves no place for a bias."""
    torch.manual_seed(1)
    (q, k, v), bias = torch.randn(3, 2, 3, queries, 8), torch.randn(queries, queries)
    scores = q.double() @ k.double().mT / 8**0.5 + bias.double()
    ahead = torch.ones(queries, queries).triu(1).bool()
    expected = scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v.double()
    torch.testing.assert_close(attend(q, k, v, causal(), bias=bias), expected.float(), atol=1e-5, rtol=0)
