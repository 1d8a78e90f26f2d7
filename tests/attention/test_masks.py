"""Masks against matrices written by hand and against each other."""

import itertools
import pickle

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from regard import Mask, RegardError, attend, causal, documents, keep, lengths, prefix, window
from regard.attention.batch_axes import align
from regard.attention.reach import Extent


def matrix(text: str) -> torch.Tensor:
    """A bool matrix from rows of 1 and 0."""
    return torch.tensor([[int(cell) for cell in row] for row in text.split()]).bool()


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (causal(), "1000 1100 1110 1111"),
        (causal(offset=1), "1100 1110 1111 1111"),
        (causal(offset=-1), "0000 1000 1100 1110"),
        (window(1), "1000 0100 0010 0001"),
        (window(2), "1100 1110 0111 0011"),
        (causal() & window(2), "1000 1100 0110 0011"),
        (lengths(2), "1100 1100 0000 0000"),
        (lengths(3, padded="left"), "0000 0111 0111 0111"),
        (lengths(keys=1), "1000 1000 1000 1000"),
        (lengths(queries=1), "1111 0000 0000 0000"),
        (lengths(keys=3, queries=2), "1110 1110 0000 0000"),
        (prefix(2), "1100 1100 1100 1100"),
        (causal() | prefix(2), "1100 1100 1110 1111"),
        (documents(torch.tensor([5, 5, 9, 9])), "1100 1100 0011 0011"),
        (documents(torch.tensor([0, 0, 1, -1])), "1100 1100 0010 0000"),
        (~causal(), "0111 0011 0001 0000"),
        (~(causal() | window(2)), "0011 0001 0000 0000"),
        (keep(matrix("1001 0110 1111 0000")), "1001 0110 1111 0000"),
    ],
    ids=repr,
)
def test_the_matrix_is_the_one_written_by_hand(mask: Mask, expected: str) -> None:
    assert torch.equal(mask.dense(4, 4), matrix(expected))


def test_rectangles_need_to_know_where_the_queries_stand() -> None:
    assert torch.equal(causal(offset=3).dense(2, 5), matrix("11110 11111"))
    assert torch.equal(window(2, offset=3).dense(2, 5), matrix("00111 00011"))
    with pytest.raises(RegardError, match=r"2 queries and 5 keys.*offset=3"):
        causal().dense(2, 5)
    with pytest.raises(RegardError, match="self-attention"):
        lengths(3).dense(2, 5)


def test_lengths_are_of_each_row_of_the_batch() -> None:
    n = torch.tensor([[3, 0], [1, 2]])
    assert lengths(n).dense(3, 3).shape == (2, 2, 3, 3)
    for a, b in itertools.product(range(2), repeat=2):
        assert torch.equal(lengths(n).dense(3, 3)[a, b], lengths(int(n[a, b])).dense(3, 3))


def test_batch_axes_are_lined_up_at_the_left() -> None:
    per_head = keep(torch.rand(2, 2, 3, 3) > 0.5)
    per_row = lengths(
        torch.tensor([1, 3])
    )  # with two heads, lining up at the right would read these as heads
    both = (per_head & per_row).dense(3, 3)
    assert torch.equal(both[1], per_head.dense(3, 3)[1])
    assert not both[0, :, 1:].any()
    assert not both[0, :, :, 1:].any()


def test_a_picture_of_a_mask() -> None:
    assert causal().picture(3, 3) == "■ · ·\n■ ■ ·\n■ ■ ■"
    assert lengths(torch.tensor([1, 2])).picture(2, 2) == "■ ·\n· ·"


def test_a_mask_prints_as_it_was_written() -> None:
    mask = (causal() | prefix(3)) & lengths(keys=torch.tensor([1, 2])) & ~window(2, offset=1)
    assert repr(mask) == "(causal() | prefix(3)) & lengths(keys=int64[2]) & ~window(2, offset=1)"
    assert repr(lengths(4, padded="left")) == "lengths(4, padded='left')"
    assert repr(~(causal() & window(2))) == "~(causal() & window(2))"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: window(0), "size=0"),
        (lambda: window(2.5), "size=2.5"),
        (lambda: causal(offset=True), "offset=True"),
        (lambda: lengths(), "says nothing"),
        (lambda: lengths(3, keys=3), "either n, or keys"),
        (lambda: lengths(3, padded="top"), "padded='top'"),
        (lambda: lengths(-1), "n=-1"),
        (lambda: lengths(torch.tensor([1.5])), r"float32\[1\]"),
        (lambda: lengths(keys=torch.tensor([True])), r"bool\[1\]"),
        (lambda: documents(torch.tensor([0.5])), r"float32\[1\]"),
        (lambda: keep(torch.ones(3, 3)), r"float32\[3, 3\]"),
        (lambda: keep(torch.ones(3, dtype=torch.bool)), r"bool\[3\]"),
        (lambda: causal() & torch.ones(3, 3).bool(), r"bool\[3, 3\].*keep"),
        (lambda: causal() and causal(), "combine masks with &"),
        (lambda: keep(torch.ones(3, 4).bool()).dense(3, 3), "3 queries and 4 keys, the call has 3 and 3"),
        (lambda: documents(torch.tensor([0, 1])).dense(3, 3), "2 queries and 2 keys, the call has 3 and 3"),
        (lambda: (causal(offset=-3) & window(2)).reach(extent(5, 5)), "contradicts itself"),
        (
            lambda: (lengths(torch.tensor([1, 2])) & lengths(torch.tensor([1, 2, 3]))).reach(extent(3, 3)),
            r"\(2, 3\) and \(3, 3\)",
        ),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_a_mistake_names_what_was_given(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=said):
        make()


def extent(queries: int, keys: int) -> Extent:
    return Extent(queries=queries, keys=keys, device=torch.get_default_device())


counts = st.integers(0, 7)
leaves = st.one_of(
    st.integers(-3, 4).map(lambda o: causal(offset=o)),
    st.tuples(st.integers(1, 5), st.integers(-2, 3)).map(lambda p: window(p[0], offset=p[1])),
    st.tuples(counts, counts, st.sampled_from(["left", "right"])).map(
        lambda p: lengths(keys=torch.tensor([p[0], 2]), queries=torch.tensor([p[1], 5]), padded=p[2])
    ),
    counts.map(prefix),
    counts.map(lambda n: lengths(queries=n)),
)
masks = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] & p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] | p[1]),
        inner.map(lambda m: ~m),
    ),
    max_leaves=4,
)


@given(masks, st.integers(0, 6), st.integers(0, 6))
def test_the_cheap_form_says_the_same_as_the_matrix(mask: Mask, queries: int, keys: int) -> None:
    dense = mask.dense(queries, keys)
    try:
        reach = mask.reach(extent(queries, keys))
    except RegardError:
        assert not dense.any()  # refused as a contradiction: then it is one
        return
    looking, seen, opened = reach.looking(), reach.seen(), reach.matrix()
    looking = torch.ones(queries).bool() if looking is None else looking
    seen = torch.ones(keys).bool() if seen is None else seen
    opened = torch.ones(queries, keys).bool() if opened is None else opened
    assert torch.equal(*torch.broadcast_tensors(looking, dense.any(-1)))
    assert torch.equal(*torch.broadcast_tensors(seen, dense.any(-2)))
    # Rows that look at nothing are opened; in the others the matrix is the mask.
    opened, dense = align(opened, dense, tail=2)
    opened, dense = torch.broadcast_tensors(opened, dense)
    assert torch.equal(opened & dense.any(-1, keepdim=True), dense)
    assert keys == 0 or opened.any(-1).all()


@given(masks, st.integers(1, 6), st.integers(1, 6), st.randoms())
def test_a_block_is_a_cut_of_the_matrix(mask: Mask, queries: int, keys: int, random) -> None:  # type: ignore[no-untyped-def]
    rows = torch.tensor(random.choices(range(queries), k=3))
    columns = torch.tensor(random.choices(range(keys), k=2))
    cut = mask.block(rows, columns, extent(queries, keys))
    whole = mask.dense(queries, keys)
    assert torch.equal(*torch.broadcast_tensors(cut, whole[..., rows[:, None], columns]))


class Counted(Mask):
    """Every other key; counts the calls of `reach`."""

    def __init__(self) -> None:
        self.asked: list[Extent] = []

    def block(self, rows: torch.Tensor, columns: torch.Tensor, extent: Extent) -> torch.Tensor:
        self.asked.append(extent)
        return (columns % 2 == 0).expand(len(rows), len(columns))

    def __repr__(self) -> str:
        return "Counted()"


def test_a_shared_mask_is_worked_out_once_for_each_size() -> None:
    mask = Counted()
    shared, alone = mask.shared(), Counted()
    for queries in (3, 3, 7, 3):
        query, key, value = torch.randn(2, 5, queries, 4), torch.randn(2, 5, 7, 4), torch.randn(2, 5, 7, 4)
        assert torch.equal(attend(query, key, value, shared), attend(query, key, value, alone))
    assert [extent.queries for extent in mask.asked] == [3, 7]  # the copy has the same list
    assert len(alone.asked) == 4


@pytest.mark.parametrize(
    "mask",
    [
        causal(),
        window(2),
        lengths(torch.tensor([0, 5, 7])),
        causal() & lengths(torch.tensor([2, 5, 7])),
        causal() & lengths(torch.tensor([2, 5, 7]), padded="left"),
        lengths(keys=torch.tensor([0, 5, 7]), queries=torch.tensor([7, 2, 3])),
    ],
    ids=repr,
)
def test_sharing_a_mask_changes_no_bit_of_outputs_and_gradients(mask: Mask) -> None:
    shared = mask.shared()
    assert repr(shared) == repr(mask)
    inputs = [torch.randn(3, 2, 7, 4, requires_grad=True) for _ in range(3)]
    grad = torch.randn(3, 2, 7, 4)
    alone = attend(*inputs, mask)
    expected = torch.autograd.grad(alone, inputs, grad)
    for _ in range(2):
        output = attend(*inputs, shared)
        assert torch.equal(output, alone)
        for ours, theirs in zip(torch.autograd.grad(output, inputs, grad), expected, strict=True):
            assert torch.equal(ours, theirs)


def test_a_copy_of_a_shared_mask_keeps_nothing_of_it() -> None:
    shared = (causal() & window(2)).shared()
    before = len(pickle.dumps(shared))
    attend(*torch.randn(3, 1, 1, 300, 4), shared)
    assert len(pickle.dumps(shared)) == before
    assert torch.equal(pickle.loads(pickle.dumps(shared)).dense(5, 5), (causal() & window(2)).dense(5, 5))


def test_sharing_a_mask_leaves_the_mask_itself_without_kept_answers() -> None:
    counts = torch.tensor([3, 1])
    mask = lengths(counts)
    shared = mask.shared()
    extent = Extent(queries=3, keys=3, device=counts.device)
    before = [each.reach_over(extent, 1).keys for each in (mask, shared)]
    counts.fill_(2)
    assert torch.equal(shared.reach_over(extent, 1).keys, before[1])
    assert mask.reach_over(extent, 1).keys.sum(-1).tolist() == [2, 2]
