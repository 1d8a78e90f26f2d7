"""The kernels in C, against the torch operations they stand for and against float64."""

import copy
import pickle
import subprocess
import sys

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.kernels import native
from regard.attention.masks import causal, lengths
from regard.data.batches import START
from regard.decoding.search import best, permitted
from regard.layers.inference_only import Float32Linear, Int8Linear

pytestmark = pytest.mark.skipif(native.kernels() is None, reason="the C kernels are not built")


@pytest.fixture(params=native.LEVELS)
def compiled(request: pytest.FixtureRequest) -> native.Kernels:
    """The kernels for each instruction set of this CPU."""
    found = native.kernels_for(request.param)
    if found is None:
        pytest.skip("this CPU does not have the instructions")
    return found


@pytest.mark.parametrize("width", [1, 5, 16, 37, 512])
def test_a_sum_is_normalised(compiled: native.Kernels, width: int) -> None:
    norm = torch.nn.LayerNorm(width)
    with torch.no_grad():
        norm.weight.normal_(), norm.bias.normal_()
    x, added = torch.randn(3, 7, width) + 5, torch.randn(7, 3, width).transpose(0, 1)
    wanted = copy.deepcopy(norm).double()(x.double() + added.double())
    found = compiled.added_norm(x, added, norm)
    error = (found.double() - wanted).abs().max()
    assert error <= 2 * (norm(x + added).double() - wanted).abs().max() + 1e-6
    assert torch.equal(compiled.added_norm(x[1:2, 2:3], added[1:2, 2:3], norm), found[1:2, 2:3])


@pytest.mark.parametrize("width", [64, 24, 100])
@pytest.mark.parametrize(("queries", "masks"), [(1, None), (4, 1), (5, 5)])
def test_attention_of_a_few_queries(
    compiled: native.Kernels, width: int, queries: int, masks: int | None
) -> None:
    query = torch.randn(3, queries, 4, width).transpose(1, 2)
    key, value = (torch.randn(3, 4, 40, width)[:, :, :29] for _ in range(2))
    added = None
    if masks is not None:
        added = torch.zeros(3, 1, masks, 29).masked_fill(torch.rand(3, 1, masks, 29) < 0.5, -torch.inf)
        added[..., 0] = 0
        key[:, :, 1], value[:, :, 1] = torch.nan, torch.nan  # which no query may look at
        added[..., 1] = -torch.inf
    scores = query.double() @ key.double().mT * 0.2 + (0.0 if added is None else added.double())
    weights = scores.nan_to_num(nan=-torch.inf, neginf=-torch.inf).softmax(-1)
    wanted = weights @ value.double().nan_to_num()
    found = compiled.small_queries(query, key, value, added=added, scale=0.2)
    assert (found.double() - wanted).abs().max() < 2e-6
    alone = None if added is None else added[1:2]
    assert torch.equal(
        compiled.small_queries(query[1:2], key[1:2], value[1:2], added=alone, scale=0.2), found[1:2]
    )


def test_every_instruction_set_gives_the_same_bits(compiled: native.Kernels) -> None:
    plain = native.kernels_for("baseline")
    assert plain is not None
    x, y, norm = torch.randn(5, 83) * 3, torch.randn(5, 83), torch.nn.LayerNorm(83)
    query, key, value = torch.randn(2, 3, 4, 40), torch.randn(2, 3, 37, 40), torch.randn(2, 3, 37, 83)

    def results(kernels: native.Kernels) -> tuple[torch.Tensor, ...]:
        mixed = kernels.small_queries(query, key, value, added=None, scale=0.3)
        return kernels.added_norm(x, y, norm), mixed, *kernels.leading(x, 3, first=2)

    for one, other in zip(results(plain), results(compiled), strict=True):
        assert torch.equal(one, other)


def test_kernels_can_be_copied_and_pickled(compiled: native.Kernels) -> None:
    assert copy.deepcopy(compiled).level == pickle.loads(pickle.dumps(compiled)).level == compiled.level


def test_the_threads_are_those_of_torch() -> None:
    """One OpenMP runtime in the process: a second would start threads of its own."""
    script = """
import torch
from regard.attention.kernels.native import kernels
found = kernels()
x = torch.randn(400, 512)
torch.set_num_threads(2)
found.quantise(x, tiny=1e-30, signed=True, rectified=False)
lines = [line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps")]
print(len({line for line in lines if "gomp" in line or "omp.so" in line or "iomp" in line}))
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert int(said) == 1


def test_a_division_among_threads_leaves_the_bits(compiled: native.Kernels) -> None:
    x, norm = torch.randn(301, 520), torch.nn.LayerNorm(520)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(compiled.added_norm(x, x.flip(0), norm))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("top", [0.0, 80.0, -1e30])
def test_exponentials_are_those_of_float64(compiled: native.Kernels, top: float) -> None:
    """Through a softmax over one axis of scores: products with a one-hot query."""
    scores = torch.linspace(-95, 0, 4001)
    query, key = torch.ones(1, 1, 1, 1), (scores + top)[None, None, :, None]
    value = torch.eye(4001)[None, None]
    found = compiled.small_queries(query, key, value, added=None, scale=1.0)[0, 0, 0].double()
    wanted = key[0, 0, :, 0].double().softmax(0)
    assert ((found - wanted).abs() <= 4e-7 * wanted + 1e-37).all()


@pytest.mark.parametrize("spoilt", [torch.nan, torch.inf])
def test_what_is_seen_and_no_number_spoils_its_own_query_alone(
    compiled: native.Kernels, spoilt: float
) -> None:
    query, key, value = torch.randn(1, 2, 2, 8), torch.randn(1, 2, 20, 8).abs() + 1, torch.randn(1, 2, 20, 8)
    whole = compiled.small_queries(query, key, value, added=None, scale=1.0)
    query[0, 0, 1, 3] = spoilt
    found = compiled.small_queries(query, key, value, added=None, scale=1.0)
    assert found[0, 0, 1].isnan().all()
    assert torch.equal(found[0, 0, 0], whole[0, 0, 0])
    assert torch.equal(found[0, 1], whole[0, 1])


@pytest.mark.parametrize("words", [4, 63, 65, 1000, 10_000])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_leading_words_are_those_of_the_written_out_ranking(
    compiled: native.Kernels, words: int, count: int
) -> None:
    logits = torch.randn(7, words) * 3
    logits[3] = logits[3].round()  # equals, of which the first come first
    logits[4, 3:] = -torch.inf  # one word is left
    logits[5, :2] = 50.0  # what may not be chosen has its share of the probability
    wanted, which = best(permitted(logits), count)
    found, places = compiled.leading(logits, count, first=START + 1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)
    assert torch.equal(places.where(found > -torch.inf, 0), which.where(found > -torch.inf, 0))
    every_other = torch.stack([logits, -logits], dim=-1)[..., 0]
    assert torch.equal(compiled.leading(every_other, count, first=START + 1)[1], places)


@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_cannot_be_chosen_from_are_not_finite_in_their_own_row(
    compiled: native.Kernels, fault: float
) -> None:
    logits = torch.randn(3, 100)
    logits[1] = torch.where(torch.arange(100) == 50, fault, -torch.inf)
    found, places = compiled.leading(logits, 2, first=START + 1)
    assert found[[0, 2]].isfinite().all()
    assert not found[1, 0].isfinite()
    assert 0 <= int(places.min()) <= int(places.max()) < 100


def test_the_default_dtype_of_torch_changes_nothing() -> None:
    """Space that the kernels write to is made for float32."""
    torch.manual_seed(4)
    best_kernels = native.kernels()
    query, key, value = torch.randn(3, 2, 4, 9, 16)
    weight, x, logits = torch.randn(40, 33), torch.randn(5, 33), torch.randn(3, 500)
    norm = torch.nn.LayerNorm(33)
    some = lengths(keys=torch.tensor([9, 4]))
    grows = query.clone().requires_grad_()

    def run() -> list[torch.Tensor]:
        found = [attend(query[:, :, :3], key, value, some), attend(query, key, value, causal() & some)]
        found += torch.autograd.grad(attend(grows, key, value, some).sum(), grows)
        with torch.no_grad():
            found += [kind(weight, None, best_kernels)(x) for kind in (Float32Linear, Int8Linear)]
            found.append(best_kernels.added_norm(x, x, norm))
            found += best_kernels.leading(logits, 4, first=3)
        return found

    wanted = run()
    torch.set_default_dtype(torch.float64)
    try:
        found = run()
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
