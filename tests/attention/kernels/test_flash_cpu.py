"""The flash kernel for the CPU, called by name: padded rows cut to what is real."""

import pytest
import torch
from torch import Tensor

from regard.attention.attend import attend, attend_within
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.kernels.flash_cpu import _joined
from regard.attention.masks import Mask, causal, lengths
from regard.attention.scores import Cosine, Score
from regard.attention.weights import weigh

pytestmark = pytest.mark.skipif("config.getoption('--device') != 'cpu'", reason="a kernel of the CPU")
N = torch.tensor([83, 0, 64, 83, 97, 1])
SIZE = 97
MASKS = {
    "causal": lambda: causal() & lengths(N),
    "causal, left": lambda: causal() & lengths(N, padded="left"),
    "lengths": lambda: lengths(N),
    "left": lambda: lengths(N, padded="left"),
    "keys": lambda: lengths(keys=N),
    "queries": lambda: lengths(queries=N),
    "both": lambda: lengths(keys=N, queries=N.flip(0)),
    "one length": lambda: causal() & lengths(71),
    "one length in a tensor": lambda: causal() & lengths(torch.tensor([71])),
}


def parts(dtype: torch.dtype = torch.float32, groups: int = 4, values: int = 16) -> list[Tensor]:
    torch.manual_seed(5)
    shapes = [(6, 4, SIZE, 16), (6, groups, SIZE, 16), (6, groups, SIZE, values)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def exact(query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, score: Score | None = None) -> Tensor:
    share = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(share, 1) for x in (key, value))
    return weigh(query, key, mask, score=score) @ value


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("values", [16, 5, 24])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_outputs_and_gradients_of_padded_rows_are_those_of_float64(mask, values: int, groups: int) -> None:
    given = parts(groups=groups, values=values)
    assert explain(Call(*given[:2], mask())).choice.kernel == "flash padded"
    wide = [x.detach().double().requires_grad_() for x in given]
    found, wanted = attend(*given, mask()), exact(*wide, mask())
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-6)
    slope = torch.randn(found.shape)
    of_found = torch.autograd.grad(found, given, slope)
    for one, other in zip(of_found, torch.autograd.grad(wanted, wide, slope.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dirt", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("mask", [MASKS["causal"], MASKS["causal, left"], MASKS["lengths"]])
def test_what_is_in_the_padding_changes_no_bit(mask, dirt: float, dtype: torch.dtype) -> None:
    def run(given: list[Tensor], slope: Tensor) -> list[Tensor]:
        found = attend(*given, mask())
        return [found, *torch.autograd.grad(found, given, slope)]

    clean = parts(dtype)
    real = mask().dense(SIZE, SIZE).any(-1)[:, None, :, None]
    dirty = [x.detach().where(real, dirt).requires_grad_() for x in clean]
    slope = torch.randn(clean[0].shape, dtype=dtype)
    for one, other in zip(run(clean, slope), run(dirty, slope.where(real, dirt)), strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()
        assert (one.where(~real, 0) == 0).all()


def test_a_score_that_maps_its_inputs_meets_no_padding() -> None:
    given, score = parts(), Cosine(0.3)
    with torch.no_grad():
        given[1][0, :, 83:] = torch.nan
    found = attend(*given, lengths(N), score=score)
    assert found.isfinite().all()
    wide = [x.detach().double() for x in given]
    wide[1] = wide[1].nan_to_num()
    torch.testing.assert_close(found.double(), exact(*wide, lengths(N), score), rtol=0, atol=2e-6)


def test_rows_of_like_lengths_are_computed_together() -> None:
    """As far as the longest, in whole blocks of 32 queries, and never beyond the size of the batch."""
    assert _joined([40, 64, 50], 64, 16) == [(0, 64)] * 3
    assert _joined([33, 3], 40, 1) == [(0, 40)] * 2
    assert _joined([1000, 10, 12], 1000, 64) == [(0, 1000), (0, 32), (0, 32)]
    assert _joined([10, 1000], 1000, 64) == [(0, 32), (0, 1000)]
    assert _joined([0, 0], 32, 64) == [(0, 0)] * 2


def test_what_layers_promise_to_be_finite_is_not_cleaned_again() -> None:
    """Padding of zeros, with and without that promise: the same bits, forward and backward."""
    mask = MASKS["causal"]()
    real = mask.dense(SIZE, SIZE).any(-1)[:, None, :, None]
    given = [x.detach().where(real, 0).requires_grad_() for x in parts()]
    call, slope = Call(given[0], given[1], mask), torch.randn(6, 4, SIZE, 16)
    both = [attend_within(call, given[2], call.reach(), sanitised=promised) for promised in (False, True)]
    assert torch.equal(*both)
    for one, other in zip(*(torch.autograd.grad(each, given, slope) for each in both), strict=True):
        assert torch.equal(one, other)


def test_neither_gradients_nor_autocast_choose_the_kernel() -> None:
    given, mask = parts(), causal() & lengths(N)
    with_gradients = attend(*given, mask)
    assert with_gradients.requires_grad
    with torch.no_grad():
        assert torch.equal(attend(*given, mask), with_gradients)
    with torch.autocast("cpu"):
        assert attend(*given, mask).dtype == torch.bfloat16


def test_it_is_said_which_kernel_runs() -> None:
    query = torch.randn(2, 4, 97, 16)
    call = Call(query, query, lengths(torch.tensor([3, 4])))
    assert "over the real positions of each row" in str(explain(call))
    assert explain(call, dropout=0.1).choice.kernel == "fused"
