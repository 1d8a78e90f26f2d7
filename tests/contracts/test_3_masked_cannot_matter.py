"""Contract 3: NaN, ±inf or 1e30 where nobody looks leaves every other output and gradient bit-identical."""

import pytest
import torch
from contracts.cases import Case
from contracts.evaluation import evaluate, looking_and_seen
from torch import nn

from regard import (
    Call,
    HeadSizes,
    MultiHeadAttention,
    causal,
    lengths,
)
from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual

POISON = [torch.nan, torch.inf, -torch.inf, 1e30]


def hides_something(case: Case) -> bool:
    return case.mask not in ("none", "causal", "window") or case.bias == "forbidding"


def test_poison_where_nobody_looks_changes_no_bit(case: Case) -> None:
    call, value = case.build()
    looking, seen = looking_and_seen(call)
    upstream = torch.randn(*call.query.shape[:-1], value.shape[-1], dtype=value.dtype)
    clean = evaluate(call, value, upstream)
    for poison in POISON:
        bad = torch.tensor(poison).to(value.dtype)
        query = call.query.where(looking[..., None], bad)
        key, bad_value = call.key.where(seen[..., None], bad), value.where(seen[..., None], bad)
        poisoned = evaluate(
            Call(query, key, call.mask, call.bias, call.score),
            bad_value,
            upstream.where(looking[..., None], bad),
        )
        assert torch.equal(poisoned.output, clean.output)
        for mine, theirs in zip(poisoned.gradients(), clean.gradients(), strict=True):
            assert torch.equal(mine, theirs)


test_poison_where_nobody_looks_changes_no_bit.wanted = hides_something  # type: ignore[attr-defined]


def modules() -> dict[str, tuple[nn.Module, bool]]:
    """Modules of width 12 and whether they look at a memory too."""

    def residual() -> Residual:
        return Residual(12)

    sizes = HeadSizes(kv_heads=1, key_width=5, value_width=7)
    return {
        "self": (MultiHeadAttention(12, 3), False),
        "grouped": (MultiHeadAttention(12, 3, sizes=sizes), False),
        "cross": (MultiHeadAttention(12, 3, sizes=HeadSizes(key_input=10)), True),
        "encoder": (EncoderBlock(MultiHeadAttention(12, 3), FeedForward(12, 20), residual), False),
        "decoder": (
            DecoderBlock(
                MultiHeadAttention(12, 3),
                MultiHeadAttention(12, 3, sizes=HeadSizes(key_input=10)),
                FeedForward(12, 20),
                residual,
            ),
            True,
        ),
    }


@pytest.mark.parametrize("name", modules())
@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("padded", ["left", "right"])
def test_poison_in_padding_reaches_neither_outputs_nor_weight_gradients(
    name: str, poison: float, padded: str
) -> None:
    module, crosses = modules()[name]
    n, m = torch.tensor([7, 4, 0]), torch.tensor([5, 2, 3])
    x, memory = torch.randn(3, 7, 12), torch.randn(3, 5, 10)
    real = lengths(n, padded=padded).dense(7, 7).any(-1)
    real_memory = lengths(keys=m, padded=padded).dense(7, 5).any(-2)
    upstream = torch.randn(3, 7, 12).where(real[..., None], 0.0)

    def run(x: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, memory = x.clone().requires_grad_(), memory.clone().requires_grad_()
        mask = causal() & lengths(n, padded=padded)
        if isinstance(module, DecoderBlock):
            out = module(x, memory, mask=mask, memory_mask=lengths(keys=m, padded=padded))
        elif crosses:
            out = module(x, memory, mask=lengths(keys=m, queries=n, padded=padded))
        else:
            out = module(x, mask=mask)
        inputs = [x, memory] if crosses else [x]
        return (out[real], *torch.autograd.grad(out, [*inputs, *module.parameters()], upstream))

    clean = run(x.where(real[..., None], 0.5), memory.where(real_memory[..., None], 0.5))
    bad = torch.tensor(poison)
    poisoned = run(x.where(real[..., None], bad), memory.where(real_memory[..., None], bad))
    for mine, theirs in zip(poisoned, clean, strict=True):
        assert torch.equal(mine, theirs)
        assert mine.isfinite().all()


@pytest.mark.parametrize("poison", POISON)
def test_poison_in_a_key_that_itself_looks_reaches_no_other_position(poison: float) -> None:
    # The padded positions still ask here, so they may spoil their own answers, but nobody sees them.
    module, x, n = MultiHeadAttention(12, 3), torch.randn(2, 7, 12), torch.tensor([5, 3])
    mask = lengths(keys=n)
    real = torch.arange(7) < n[:, None]
    clean = module(x, mask=mask)
    poisoned = module(x.where(real[..., None], torch.tensor(poison)), mask=mask)
    assert torch.equal(poisoned[real], clean[real])
