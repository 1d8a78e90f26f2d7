"""Multi-head attention against torch, against a loop over heads, and its freedoms one by one."""

import inspect
import itertools

import pytest
import torch
from torch import nn

from regard import (
    Additive,
    ALiBi,
    Bilinear,
    Cosine,
    Dot,
    HeadSizes,
    LowRank,
    MultiHeadAttention,
    RegardError,
    causal,
    keep,
    lengths,
    weigh,
)
from regard.attention.kv_cache import BeamCache, GrowingSlots
from regard.interop import torch as drop_in
from regard.layers.rotary import Rotary


def head_by_head(
    module: MultiHeadAttention, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask=None
):  # type: ignore[no-untyped-def]
    """Σ_h W_o[h] softmax(…) V_h, one head after another."""
    (w_q, b_q), (w_k, b_k), (w_v, b_v) = module.input._parts()
    heads, group = module.heads, module.heads // module.kv_heads
    queries = (query @ w_q.T + b_q).chunk(heads, -1)
    keys, values = (
        (key @ w_k.T + b_k).chunk(module.kv_heads, -1),
        (value @ w_v.T + b_v).chunk(module.kv_heads, -1),
    )
    outs = module.output.weight.chunk(heads, -1)
    answers = [
        weigh(queries[h], keys[h // group], mask) @ values[h // group] @ outs[h].T for h in range(heads)
    ]
    return sum(answers) + module.output.bias


@pytest.mark.parametrize(
    "sizes",
    [
        HeadSizes(),
        HeadSizes(kv_heads=2),
        HeadSizes(kv_heads=1),
        HeadSizes(key_width=5),
        HeadSizes(key_width=3, value_width=7, output=9),
        HeadSizes(key_input=5, value_input=6, kv_heads=2, value_width=1),
    ],
)
def test_it_is_the_sum_of_its_heads(sizes: HeadSizes) -> None:
    module = MultiHeadAttention(12, 4, sizes=sizes).double()
    nn.init.normal_(module.output.bias)
    query = torch.randn(3, 5, 12).double()
    key = torch.randn(3, 7, sizes.key_input or 12).double()
    value = torch.randn(3, 7, sizes.value_input or sizes.key_input or 12).double()
    mask = lengths(keys=torch.tensor([7, 3, 1]))
    torch.testing.assert_close(
        module(query, key, value, mask=mask),
        head_by_head(module, query, key, value, mask),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("heads", "batch", "queries", "keys", "masked", "affine"),
    list(itertools.product([1, 2, 3], [1, 4], [1, 5], [1, 7], [False, True], [False, True])),
)
def test_it_is_torch_multihead_attention(
    heads: int, batch: int, queries: int, keys: int, masked: bool, affine: bool
) -> None:
    theirs = nn.MultiheadAttention(12, heads, bias=affine, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(12, heads, affine=affine).double()
    ours.input.all.weight.data = theirs.in_proj_weight.data
    ours.output.weight.data = theirs.out_proj.weight.data
    if affine:
        ours.input.all.bias.data = torch.randn_like(theirs.in_proj_bias)
        theirs.in_proj_bias.data = ours.input.all.bias.data
        ours.output.bias.data = theirs.out_proj.bias.data
    query, memory = torch.randn(batch, queries, 12).double(), torch.randn(batch, keys, 12).double()
    kept = torch.rand(queries, keys) > 0.4
    kept[:, 0] = True
    expected, _ = theirs(query, memory, memory, attn_mask=~kept if masked else None, need_weights=False)
    found = ours(query, memory, mask=keep(kept) if masked else None)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_self_attention_is_cross_attention_to_oneself() -> None:
    for sizes in (HeadSizes(), HeadSizes(kv_heads=2, key_width=5)):
        module = MultiHeadAttention(12, 4, sizes=sizes).double()
        x = torch.randn(2, 6, 12).double()
        torch.testing.assert_close(module(x, mask=causal()), module(x, x, mask=causal()), rtol=0, atol=1e-12)


def test_one_tensor_goes_through_one_packed_product() -> None:
    module = MultiHeadAttention(12, 4)
    assert {name: tuple(p.shape) for name, p in module.input.named_parameters()} == {
        "all.weight": (36, 12),
        "all.bias": (36,),
    }
    apart = MultiHeadAttention(12, 4, sizes=HeadSizes(value_input=5))
    assert {name: tuple(p.shape) for name, p in apart.input.named_parameters() if "weight" in name} == {
        "query.weight": (12, 12),
        "key.weight": (12, 12),
        "value.weight": (12, 5),
    }


def test_each_projection_starts_in_its_own_glorot_range() -> None:
    module = MultiHeadAttention(64, 4, sizes=HeadSizes(value_width=2))
    query, _, value = (weight for weight, _ in module.input._parts())
    for part in (query, value):
        bound = (6 / (part.shape[0] + part.shape[1])) ** 0.5
        assert 0.95 * bound < part.abs().max() <= bound
    assert (module.input.all.bias == 0).all()


def test_without_a_batch_it_is_a_batch_of_one() -> None:
    module = MultiHeadAttention(12, 4).double()
    x, memory = torch.randn(5, 12).double(), torch.randn(7, 12).double()
    torch.testing.assert_close(module(x), module(x[None])[0])
    torch.testing.assert_close(module(x, memory, mask=lengths(keys=3)), module(x, memory[:3]))


@pytest.mark.parametrize(
    "parts",
    [
        {"score": Cosine(0.1)},
        {"score": Bilinear(3, 3, heads=4)},
        {"score": LowRank(3, 3, rank=2, heads=4)},
        {"score": Additive(3, 3, hidden=5, heads=4)},
        {"bias": ALiBi(4)},
    ],
    ids=lambda parts: type(next(iter(parts.values()))).__name__,
)
def test_scores_and_biases_are_parts(parts: dict[str, nn.Module]) -> None:
    module = MultiHeadAttention(12, 4, **parts).double()  # type: ignore[arg-type]
    x = torch.randn(2, 5, 12).double()
    query, key, value = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in module.input.together(x))
    part = next(iter(parts.values()))
    weights = weigh(query, key, causal(), **{next(iter(parts)): part})  # type: ignore[arg-type]
    mixed = module.output((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, mask=causal()), mixed, rtol=0, atol=1e-12)
    assert all(
        name.split(".")[0] in ("input", "output", "score", "bias") for name, _ in module.named_parameters()
    )


@pytest.mark.parametrize("scale", [0.25, 1, 3.5, -1.0])
def test_a_scale_multiplies_the_scores_as_torchs_function_scales_dot_products(scale: float) -> None:
    module = MultiHeadAttention(12, 4, score=Dot(), scale=scale).double()
    x, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
    for key in (x, memory):
        parts = (module.input.queries(x), module.input.keys(key), module.input.values(key))
        heads = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(*heads, scale=scale)
        expected = module.output(mixed.transpose(1, 2).flatten(2))
        torch.testing.assert_close(module(x, key), expected, rtol=0, atol=1e-12)
    assert module.call(x).scale == scale


def test_a_scale_comes_on_top_of_what_a_score_divides_by() -> None:
    module, x = MultiHeadAttention(12, 4, scale=2.0).double(), torch.randn(2, 5, 12).double()
    twice = MultiHeadAttention(12, 4, score=Dot(), scale=2.0 / 3**0.5).double()
    twice.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x), twice(x), rtol=0, atol=1e-12)


def test_a_scale_holds_step_by_step_and_for_rows_that_share_a_cache() -> None:
    module, x = MultiHeadAttention(12, 4, scale=3.0).double(), torch.randn(2, 5, 12).double()
    whole = module(x, mask=causal())
    past, beam = None, None
    for t in range(5):
        if t == 2 and past is not None:
            beam = BeamCache(past, GrowingSlots.of(2, 1, 2, device=x.device))
        answer, past = module.step(x[:, t : t + 1], past)
        torch.testing.assert_close(answer[:, 0], whole[:, t], rtol=0, atol=1e-12)
        if beam is not None:
            answer, beam = module.step_beam(x[:, t : t + 1], beam)
            torch.testing.assert_close(answer[:, 0], whole[:, t], rtol=0, atol=1e-12)


def test_the_drop_in_for_torch_has_no_scale_of_its_own() -> None:
    ours, torchs = (
        inspect.signature(each.__init__) for each in (drop_in.MultiheadAttention, nn.MultiheadAttention)
    )
    assert ours == torchs
    module = drop_in.MultiheadAttention(12, 4)
    x = torch.randn(5, 2, 12)
    theirs = nn.MultiheadAttention(12, 4)
    theirs.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x, x, x)[0], theirs(x, x, x)[0])


def test_rotary_attention_sees_only_differences_of_position() -> None:
    module = MultiHeadAttention(16, 2, rotary=Rotary(8)).double()
    x = torch.randn(1, 4, 16).double()
    # Three positions pushed in front and masked away move everybody by three: nothing changes.
    padded = torch.cat([torch.randn(1, 3, 16).double(), x], 1)
    shifted = module(padded, mask=lengths(torch.tensor([4]), padded="left"))[:, 3:]
    torch.testing.assert_close(shifted, module(x), rtol=0, atol=1e-12)


def test_dropout_is_of_weights_and_only_in_training() -> None:
    module = MultiHeadAttention(12, 4, dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MultiHeadAttention(10, 4), "width=10 does not divide into heads=4"),
        (lambda: MultiHeadAttention(12, 4, sizes=HeadSizes(kv_heads=3)), "heads=4, kv_heads=3"),
        (lambda: MultiHeadAttention(12, 0), "heads=0"),
        (lambda: MultiHeadAttention(12, 4, scale="half"), "scale='half': give a number"),
        (
            lambda: MultiHeadAttention(4, 2)(torch.ones(1, 2, 4), value=torch.ones(1, 2, 4)),
            "a value without a key",
        ),
        (lambda: MultiHeadAttention(6, 2, rotary=Rotary(4))(torch.ones(1, 2, 6)), "width 4, and got 3"),
    ],
)
def test_mistakes_are_named(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=said):
        make()
