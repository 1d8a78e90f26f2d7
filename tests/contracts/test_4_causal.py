"""Contract 4: a finite change to a later token changes nothing earlier, to the bit; a cached decode agrees."""

from functools import partial

import pytest
import torch
from contracts.cases import Case
from torch import Tensor, nn
from torch.nn import functional as F

from regard import ALiBi, Call, Cosine, HeadSizes, MultiHeadAttention, attend, causal
from regard.layers.blocks import (
    DecoderBlock,
    DecoderState,
    EncoderBlock,
    FeedForward,
    Residual,
    after,
    before,
    inside,
)
from regard.layers.rotary import Rotary


def looks_back(case: Case) -> bool:
    return case.square and case.mask in (
        "causal",
        "strictly-before",
        "causal-lengths",
        "causal-left",
        "causal-window-lengths",
        "documents",
    )


@pytest.mark.parametrize("change", [1.0, -1e4, 3e-3])
def test_a_later_token_changes_no_earlier_bit(case: Case, change: float) -> None:
    call, value = case.build()
    base = attend(call, value)
    for position in (3, 7, 10):
        later = torch.arange(call.key.shape[-2]) >= position
        query, key, changed = (
            part + change * later[:, None].to(part.dtype) for part in (call.query, call.key, value)
        )
        output = attend(Call(query, key, call.mask, call.bias, call.score), changed)
        assert torch.equal(output[..., :position, :], base[..., :position, :])
        assert not torch.equal(output, base)


test_a_later_token_changes_no_earlier_bit.wanted = looks_back  # type: ignore[attr-defined]


def attentions() -> dict[str, MultiHeadAttention]:
    return {
        "plain": MultiHeadAttention(16, 4),
        "grouped-rotary": MultiHeadAttention(
            16, 4, sizes=HeadSizes(kv_heads=2, key_width=6), rotary=Rotary(6)
        ),
        "alibi-cosine": MultiHeadAttention(16, 4, bias=ALiBi(4), score=Cosine(0.1)),
    }


@pytest.mark.parametrize("name", attentions())
@pytest.mark.parametrize("pieces", [(1, 1, 1, 1, 1, 1, 1), (4, 1, 2), (7,)])
def test_attention_step_by_step_is_attention_at_once(name: str, pieces: tuple[int, ...]) -> None:
    attention = attentions()[name].double()
    x = torch.randn(3, 7, 16, dtype=torch.float64)
    past, found = None, []
    for piece in x.split(pieces, dim=1):
        offset = 0 if past is None else past.length
        mixed, past = attention.step(piece, past, mask=causal(offset=offset))
        found.append(mixed)
    torch.testing.assert_close(torch.cat(found, 1), attention(x, mask=causal()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("placement", [before, after, inside])
def test_a_decoder_block_step_by_step_is_the_block_at_once(placement) -> None:  # type: ignore[no-untyped-def]
    residual = partial(Residual, 16, placement=placement, norm=nn.RMSNorm)
    block = DecoderBlock(
        MultiHeadAttention(16, 4, rotary=Rotary(4)),
        MultiHeadAttention(16, 4, sizes=HeadSizes(key_input=10)),
        FeedForward(16, 24, activation=F.gelu),
        residual,
    ).double()
    x, memory = torch.randn(3, 6, 16, dtype=torch.float64), torch.randn(3, 5, 10, dtype=torch.float64)
    state, found = block.start(memory), []
    for t in range(6):
        y, state = block.step(x[:, t : t + 1], state, mask=causal(offset=t))
        found.append(y)
    whole = block(x, memory, mask=causal())
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=0, atol=1e-12)


def test_an_encoder_block_with_a_causal_mask_steps_too() -> None:
    block = EncoderBlock(MultiHeadAttention(16, 4), FeedForward(16, 24), partial(Residual, 16)).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    first, past = block.step(x[:, :2], mask=causal())
    rest, past = block.step(x[:, 2:], past, mask=causal(offset=2))
    torch.testing.assert_close(torch.cat([first, rest], 1), block(x, mask=causal()), rtol=0, atol=1e-12)
    assert past.length == 5


def test_picking_rows_of_a_state_is_picking_rows_of_the_batch() -> None:
    block = DecoderBlock(
        MultiHeadAttention(8, 2), MultiHeadAttention(8, 2), FeedForward(8, 8), partial(Residual, 8)
    ).double()
    x, memory = torch.randn(3, 4, 8).double(), torch.randn(3, 5, 8).double()
    rows = torch.tensor([2, 0, 0, 1])

    def run(x: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        return block.step(x, state, mask=causal(offset=0 if state.past is None else state.past.length))

    _, state = run(x[:, :3], block.start(memory))
    picked, _ = run(x[rows, 3:], state.pick(rows))
    _, other = run(x[rows, :3], block.start(memory[rows]))
    expected, _ = run(x[rows, 3:], other)
    torch.testing.assert_close(picked, expected, rtol=0, atol=1e-12)
