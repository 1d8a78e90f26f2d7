"""The C kernel for variable lengths on a CPU: lengths, windows, packed sequences, grouped heads, and their gradients."""

import pytest
import torch
from hardware import needs_varlen_in_c
from torch import Tensor

from regard.attention.attend import attend, attend_within
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.kernels import varlen_cpu as module
from regard.attention.kernels.native import LEVELS, kernels_for
from regard.attention.masks import Mask, causal, lengths, window
from regard.attention.packed_mask import packed
from regard.attention.packing import Packing
from regard.attention.reach import Extent, Reach
from regard.attention.scores import Bilinear, Cosine, Score
from regard.attention.weights import weigh

pytestmark = needs_varlen_in_c
N = torch.tensor([83, 0, 64, 83, 97, 1])
SIZE = 97
MASKS = {
    "nothing": lambda: None,
    "causal": causal,
    "causal and lengths": lambda: causal() & lengths(N),
    "causal, left": lambda: causal() & lengths(N, padded="left"),
    "lengths": lambda: lengths(N),
    "left": lambda: lengths(N, padded="left"),
    "keys": lambda: lengths(keys=N),
    "queries": lambda: lengths(queries=N),
    "both": lambda: lengths(keys=N, queries=N.flip(0)),
    "one length": lambda: causal() & lengths(71),
    "one length in a tensor": lambda: causal() & lengths(torch.tensor([71])),
    "window": lambda: window(5),
    "window and lengths": lambda: window(7) & lengths(N, padded="left"),
}


def parts(dtype: torch.dtype = torch.float32, groups: int = 4, values: int = 16) -> list[Tensor]:
    torch.manual_seed(5)
    shapes = [(6, 4, SIZE, 16), (6, groups, SIZE, 16), (6, groups, SIZE, values)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def exact(query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, score: Score | None = None) -> Tensor:
    if query.ndim == 4:
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    return weigh(query, key, mask, score=score) @ value


def check(given: list[Tensor], mask: Mask | None, slope: Tensor | None = None) -> None:
    """Output and gradients are those of the equation in float64."""
    assert explain(Call(*given[:2], mask)).choice.kernel == "varlen"
    wide = [x.detach().double().requires_grad_() for x in given]
    found, wanted = attend(*given, mask), exact(*wide, mask)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-6)
    slope = torch.randn(found.shape) if slope is None else slope
    of_found = torch.autograd.grad(found, given, slope)
    for one, other in zip(of_found, torch.autograd.grad(wanted, wide, slope.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize("values", [16, 5, 24])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_outputs_and_gradients_are_those_of_float64(mask, values: int, groups: int) -> None:
    check(parts(groups=groups, values=values), mask())


@pytest.mark.parametrize("level", LEVELS[1:])
def test_every_instruction_set_gives_the_same_bits(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = kernels_for(level)
    if found is None:
        pytest.skip("this CPU does not have the instructions")
    given, mask, slope = (
        parts(groups=2, values=21),
        MASKS["window and lengths"](),
        torch.randn(6, 4, SIZE, 21),
    )

    def run() -> list[Tensor]:
        mixed = attend(*given, mask)
        return [mixed, *torch.autograd.grad(mixed, given, slope)]

    best = run()
    monkeypatch.setattr(module, "kernels", lambda: found)
    assert all(torch.equal(one, other) for one, other in zip(run(), best, strict=True))


@pytest.mark.parametrize("mask", [None, causal(), window(300), causal() & lengths(torch.tensor([1100, 530]))])
def test_scores_in_several_blocks_are_joined(mask: Mask | None) -> None:
    """Rows longer than the 512 keys whose scores are held together, with scores that grow from block to block."""
    torch.manual_seed(3)
    given = [torch.randn(2, 2, 1100, 8) for _ in range(3)]
    given[1] *= torch.linspace(0.1, 4, 1100)[:, None]
    check([x.requires_grad_() for x in given], mask, torch.randn(2, 2, 1100, 8) / 10)


@pytest.mark.parametrize("shape", [(37, 8), (3, 37, 8), (1, 1, 6, 1), (1, 2, 13, 250)])
def test_other_shapes(shape: tuple[int, ...]) -> None:
    check([torch.randn(shape, requires_grad=True) for _ in range(3)], causal())


def test_queries_and_keys_of_other_lengths_and_values_of_any_width() -> None:
    torch.manual_seed(2)
    query, key, value = torch.randn(3, 2, 7, 16), torch.randn(3, 2, 61, 16), torch.randn(3, 2, 61, 600)
    given = [x.requires_grad_() for x in (query, key, value)]
    check(given, lengths(keys=torch.tensor([61, 3, 0])))
    check(given, window(20, offset=30))


def test_any_strides_and_gradients_that_are_expanded() -> None:
    torch.manual_seed(2)
    whole = torch.randn(2, SIZE, 3, 4, 16, requires_grad=True)
    query, key, value = (part.transpose(1, 2) for part in whole.unbind(2))
    mixed = attend(query, key, value[..., ::2], causal())
    (slope,) = torch.autograd.grad(mixed.sum(), whole)
    wide = whole.detach().double().requires_grad_()
    query, key, value = (part.transpose(1, 2) for part in wide.unbind(2))
    (wanted,) = torch.autograd.grad(exact(query, key, value[..., ::2], causal()).sum(), wide)
    torch.testing.assert_close(slope.double(), wanted, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    "mask", [packed, lambda each: causal() & packed(each), lambda each: window(3) & packed(each)]
)
@pytest.mark.parametrize("size", [50, 61])
def test_packed_sequences_are_those_of_float64(mask, size: int) -> None:
    torch.manual_seed(4)
    each = torch.tensor([7, 1, 30, 12])
    given = [torch.randn(1, 4, size, 16).requires_grad_() for _ in range(3)]
    check(given, mask(Packing.of(each, size=size)))


def test_packed_sequences_ask_others_some_of_which_are_empty() -> None:
    torch.manual_seed(4)
    asking, asked = torch.tensor([3, 0, 9, 2]), torch.tensor([5, 4, 0, 11])
    mask = packed(Packing.of(asked), queries=Packing.of(asking))
    given = [torch.randn(1, 2, size, 8).requires_grad_() for size in (14, 20, 20)]
    check(given, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dirt", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize(
    "mask",
    [MASKS["causal and lengths"], MASKS["causal, left"], MASKS["lengths"], MASKS["window and lengths"]],
)
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


@pytest.mark.parametrize("dirt", [torch.nan, torch.inf])
def test_what_no_query_sees_under_a_band_changes_no_bit(dirt: float) -> None:
    """Keys before the band of the first query and behind that of the last, and queries whose band holds no key."""

    class Ahead(Mask):
        def block(self, rows: Tensor, columns: Tensor, extent: object) -> Tensor:
            return (columns - rows[:, None] >= 40) & (columns - rows[:, None] <= 50)

        def reach(self, extent: Extent) -> Reach:
            return Reach(extent=extent, low=40, high=50)

    clean = parts()
    looking, seen = torch.arange(SIZE) < SIZE - 40, torch.arange(SIZE) >= 40
    dirty = [
        x.detach().where(used[:, None], dirt).requires_grad_()
        for x, used in zip(clean, (looking, seen, seen), strict=True)
    ]
    slope = torch.randn(clean[0].shape)
    slopes = slope, slope.where(looking[:, None], dirt)
    found = [attend(*given, Ahead()) for given in (clean, dirty)]
    assert torch.equal(*found)
    assert (found[0][..., SIZE - 40 :, :] == 0).all()
    grads = [
        torch.autograd.grad(one, given, each)
        for one, given, each in zip(found, (clean, dirty), slopes, strict=True)
    ]
    for one, other in zip(*grads, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()


def test_nan_at_a_real_position_is_not_hidden() -> None:
    given = [x.detach().clone() for x in parts()]
    given[1][0, 0, 5] = torch.nan
    found = attend(*given, lengths(N))
    assert found[0, 0, :83].isnan().all()
    assert found[0, 1:].isfinite().all()
    assert found[1:].isfinite().all()


def test_what_layers_promise_to_be_finite_is_not_cleaned_again() -> None:
    """Padding of zeros, with and without that promise: the same bits, forward and backward."""
    mask = MASKS["causal and lengths"]()
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


@pytest.mark.parametrize("score", [None, Cosine(0.3), Bilinear(16, 16)])
def test_autocast_to_float16_is_computed_in_float32_and_rounded(score: Score | None) -> None:
    given, mask = parts(), causal() & lengths(N)
    with torch.autocast("cpu", dtype=torch.float16):
        found = attend(*given, mask, score=score)
    assert found.dtype == torch.float16
    wanted = attend(*given, mask, score=score)
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=0.02)
    slope = torch.randn(wanted.shape)
    of_found, of_wanted = (torch.autograd.grad(x, given, slope.to(x.dtype)) for x in (found, wanted))
    for one, other in zip(of_found, of_wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.05)


def test_it_is_said_which_kernel_runs() -> None:
    query = torch.randn(2, 4, 97, 16)
    call = Call(query, query, lengths(torch.tensor([3, 4])))
    assert "one for variable lengths (C)" in str(explain(call))
    told = explain(call, dropout=0.1)
    assert told.choice.kernel == "fused"
    assert "not the kernel for variable lengths: it has no dropout" in str(told)


def test_bfloat16_is_computed_in_float32_and_rounded_as_torch_rounds() -> None:
    given = parts(torch.bfloat16)
    wide = [x.detach().float().requires_grad_() for x in given]
    found, wanted = attend(*given, causal()), attend(*wide, causal())
    assert torch.equal(found, wanted.bfloat16())
    slope = torch.randn(found.shape, dtype=torch.bfloat16)
    for one, other in zip(
        torch.autograd.grad(found, given, slope),
        torch.autograd.grad(wanted, wide, slope.float()),
        strict=True,
    ):
        torch.testing.assert_close(
            one.float(), other, rtol=2**-7, atol=2**-7
        )  # the output in between was rounded too
    given[2].data[0, 0, 0] = torch.nan
    assert attend(*given, causal())[0, 0].isnan().all()


def test_scores_that_overflow_give_nan_as_softmax_does() -> None:
    query, key, value = (x.detach().clone() for x in parts())
    query[0, 0, 3], key[0, 0] = 1e30, -1e30
    found = attend(query, key, value)
    assert found[0, 0, 3].isnan().all()
    assert found[0, 0, :3].isfinite().all()


def test_a_long_sequence_with_a_window_is_divided_among_threads() -> None:
    torch.manual_seed(6)
    query, key, value = torch.randn(3, 1, 1, 5000, 16)
    wanted = torch.cat(
        [
            exact(*(x.double() for x in (query[..., at : at + 500, :], key, value)), window(40, offset=at))
            for at in range(0, 5000, 500)
        ],
        dim=-2,
    )
    torch.testing.assert_close(attend(query, key, value, window(40)).double(), wanted, rtol=0, atol=2e-6)


def test_a_call_does_not_depend_on_the_others_of_its_batch() -> None:
    given, mask = [x.detach() for x in parts()], causal() & lengths(N)
    together = attend(*given, mask)
    for row, count in enumerate(N.tolist()):
        alone = attend(*(x[row : row + 1, :, :count] for x in given), causal())
        assert torch.equal(alone, together[row : row + 1, :, :count])


@pytest.mark.filterwarnings("ignore")  # torch warns of every shape that is compared
@pytest.mark.usefixtures("as_a_user")  # sizes are tensors while torch traces
def test_what_is_traced_is_not_computed_once_and_for_all() -> None:
    """The operators that torch records are those of its own kernel: the C kernel would be a constant among them."""
    one, other = [x.detach() for x in parts()], [x.detach() + 1 for x in parts()]
    traced = torch.jit.trace(lambda *given: attend(*given, causal()), one, check_trace=False)
    torch.testing.assert_close(traced(*other), attend(*other, causal()), rtol=0, atol=1e-5)
    assert not torch.equal(traced(*one), traced(*other))


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("queries", [3, SIZE])
def test_a_tangent_is_not_dropped(which: int, queries: int) -> None:
    given = [x.detach() for x in parts()]
    given[0] = given[0][:, :, :queries]
    with torch.autograd.forward_ad.dual_level():
        given[which] = torch.autograd.forward_ad.make_dual(given[which], torch.ones_like(given[which]))
        if queries > 5:
            with pytest.raises(RuntimeError, match=r"forward AD|forward mode AD"):  # which neither kernel has
                attend(*given)
        else:
            assert torch.autograd.forward_ad.unpack_dual(attend(*given)).tangent is not None


def test_an_open_level_of_forward_derivatives_changes_no_bit() -> None:
    given = [x.detach() for x in parts()]
    wanted = [attend(*given), attend(given[0][:, :, :3], *given[1:])]
    with torch.autograd.forward_ad.dual_level():
        found = [attend(*given), attend(given[0][:, :, :3], *given[1:])]
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
