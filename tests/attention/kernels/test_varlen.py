"""Which calls take the kernels for variable lengths on a GPU, and what they launch there."""

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard import (
    ALiBi,
    Bilinear,
    Call,
    Mask,
    attend,
    causal,
    explain,
    keep,
    lengths,
    packed,
    weigh,
    window,
)

pytestmark = pytest.mark.gpu

N = 150
COUNTS = torch.tensor([150, 77, 0])


def drawn(keys: int = N, kv_heads: int = 4, **options: object) -> list[Tensor]:
    chance = torch.Generator("cuda").manual_seed(3)
    sizes = [(3, 4, N, 32), (3, kv_heads, keys, 32), (3, kv_heads, keys, 32)]
    return [torch.randn(size, device="cuda", generator=chance, **options) for size in sizes]  # type: ignore[call-overload]


def counts() -> Tensor:
    return COUNTS.cuda()


TAKEN: dict[str, Callable[[], Mask]] = {
    "lengths": lambda: lengths(counts()),
    "of a CPU": lambda: lengths(COUNTS),
    "a number": lambda: lengths(77),
    "for all": lambda: lengths(torch.tensor(77).cuda()),
    "with an axis of heads": lambda: lengths(counts()[:, None]),
    "left": lambda: causal() & lengths(counts(), padded="left"),
    "causal": lambda: causal() & lengths(counts()),
    "keys": lambda: lengths(keys=counts()),
    "queries": lambda: lengths(queries=counts()),
    "window": lambda: window(9),
    "window back": lambda: causal() & window(9) & lengths(counts()),
    "an earlier part": lambda: causal(offset=-3),
    "shared": lambda: (causal() & lengths(counts())).shared(),
}


def written(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    query, key, value = query.double(), key.double(), value.double()
    return weigh(query, key, mask) @ value.repeat_interleave(query.shape[1] // key.shape[1], 1)


def with_gradients(how: Callable[..., Tensor], mask: Mask, parts: list[Tensor]) -> list[Tensor]:
    parts = [part.clone().requires_grad_() for part in parts]
    mixed = how(*parts, mask)
    slope = torch.randn(mixed.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(4))
    return [mixed.detach(), *torch.autograd.grad(mixed, parts, slope.to(mixed.dtype))]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-5), (torch.bfloat16, 6e-2)], ids=str)
def test_it_gives_what_the_equation_gives(name: str, kv_heads: int, dtype: torch.dtype, error: float) -> None:
    mask, parts = TAKEN[name](), drawn(kv_heads=kv_heads, dtype=dtype)
    assert explain(Call(*parts[:2], mask)).choice.kernel == "varlen"
    right = with_gradients(written, TAKEN[name](), parts)
    for mine, other in zip(with_gradients(attend, mask, parts), right, strict=True):
        torch.testing.assert_close(mine.double(), other.double(), rtol=error, atol=error)


def test_torch_keeps_what_it_can_be_told_by_a_flag() -> None:
    for mask in (None, causal(), window(N), causal(offset=N), causal() & window(N)):
        assert explain(Call(*drawn()[:2], mask)).choice.kernel == "fused"


def test_what_it_does_not_take_is_named() -> None:
    query, key, _ = drawn()
    mixed = keep(torch.ones(N, N, dtype=torch.bool, device="cuda"))
    several = torch.randint(N, (3, 4), device="cuda")
    refused = {
        "the mask says more than these": causal() & mixed,
        "the mask puts several together": lengths(counts()) & lengths(keys=counts()),
        "lengths of shape (3, 4)": lengths(several),
    }
    for reason, mask in refused.items():
        said = explain(Call(query, key, mask))
        assert said.choice.kernel == "fused"
        assert reason in str(said)
    assert "numbers of at most 32 bits" in str(explain(Call(query.double(), key.double(), lengths(counts()))))
    assert "without a bias" in str(explain(Call(query, key, lengths(counts()), ALiBi(4))))


def launches(run: Callable[[], object]) -> int:
    """Kernels and copies that reach the device."""
    run(), run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in seen.events())


@pytest.mark.parametrize(
    "make",
    [
        lambda n: lengths(n),
        lambda n: lengths(keys=n),
        lambda n: causal() & lengths(n),
        lambda n: causal() & lengths(n, padded="left"),
        lambda n: causal() & window(9) & lengths(n),
        lambda n: window(9),
    ],
)
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_one_launch_forward_and_two_backward(make: Callable[[Tensor], Mask], kv_heads: int) -> None:
    parts, counted = drawn(kv_heads=kv_heads, dtype=torch.bfloat16), counts()
    assert launches(lambda: attend(*parts, make(counted))) == 1
    learned = [part.clone().requires_grad_() for part in parts]
    slope = torch.randn_like(parts[0])
    assert launches(lambda: torch.autograd.grad(attend(*learned, make(counted)), learned, slope)) == 3


def test_it_never_waits_for_the_device_and_can_be_captured() -> None:
    parts, counted = drawn(dtype=torch.bfloat16), counts()
    learned = [part.clone().requires_grad_() for part in parts]
    slope = torch.randn_like(parts[0])

    def run() -> tuple[Tensor, ...]:
        mixed = attend(*learned, causal() & lengths(counted))
        return mixed.detach(), *torch.autograd.grad(mixed, learned, slope)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()
    counted.copy_(torch.tensor([10, 150, 60]))
    graph.replay()
    for mine, other in zip(kept, run(), strict=True):
        assert torch.equal(mine, other)


COMPILED = """
import torch
from regard import attend, causal, lengths
torch.manual_seed(0)
n = torch.tensor([150, 77, 0], device="cuda")
parts = [torch.randn(3, 4, 150, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
slope = torch.randn_like(parts[0])
def plain(q, k, v, n):
    return attend(q, k, v, causal() & lengths(n))
def results(run):
    mixed = run(*parts, n)
    return mixed, *torch.autograd.grad(mixed, parts, slope)
for mine, other in zip(results(torch.compile(plain, fullgraph=True)), results(plain), strict=True):
    assert torch.equal(mine, other)
wanted = plain(*parts, n)
with torch.no_grad():
    assert torch.equal(plain(*parts, n), wanted)
"""


@pytest.mark.slow
def test_compiling_changes_no_bit() -> None:
    """In a process of its own: without the check of shapes."""
    subprocess.run([sys.executable, "-c", COMPILED], check=True, timeout=600)


def test_tensors_that_begin_anywhere_and_lie_in_any_order() -> None:
    wide = torch.randn(3, N, 4, 99, device="cuda", dtype=torch.bfloat16)
    parts = [part.transpose(1, 2) for part in wide[..., 1:97].split(32, -1)]
    mask = lengths(counts()[:])
    right = written(*parts, mask)
    torch.testing.assert_close(attend(*parts, mask).double(), right, rtol=3e-2, atol=3e-2)
    shifted = torch.cat([COUNTS[:1], COUNTS]).cuda()[1:]
    torch.testing.assert_close(attend(*parts, lengths(shifted)).double(), right, rtol=3e-2, atol=3e-2)
    copies = [part.clone(memory_format=torch.contiguous_format) for part in parts]
    torch.testing.assert_close(attend(*copies, mask).double(), right, rtol=3e-2, atol=3e-2)


def test_autocast_does_with_it_as_with_torch() -> None:
    parts, mask = drawn(), lengths(counts())
    with torch.autocast("cuda", torch.bfloat16):
        mixed = attend(*parts, mask, score=Bilinear(32, 32, heads=4).cuda())
        assert mixed.dtype == attend(*parts).dtype == torch.bfloat16
    assert mixed.isfinite().all()


def test_packed_sequences_are_never_zeroed_first() -> None:
    parts = [part[:1] for part in drawn(dtype=torch.bfloat16)]
    mask = causal() & packed(torch.tensor([100, 50], device="cuda"))
    assert launches(lambda: attend(*parts, mask)) == 1
