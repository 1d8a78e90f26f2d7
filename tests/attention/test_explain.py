"""What `explain` says is what `attend` does."""

import torch
from hardware import needs_varlen_in_c

from regard import Additive, ALiBi, Call, RelativeBuckets, TensorBias, causal, explain, keep, lengths, window

N = torch.tensor([6, 3])


def call(dtype: torch.dtype = torch.float32, **parts: object) -> Call:
    query, key = torch.randn(2, 2, 4, 6, 8, dtype=dtype)
    return Call(query, key, **parts)  # type: ignore[arg-type]


def test_the_cheapest_form_of_the_mask_is_chosen() -> None:
    """By torch's kernels, which are those for float64."""
    said = {
        "nothing": [None, causal(offset=5), window(6), lengths(queries=N)],
        "causal flag": [causal(), causal() & lengths(N), causal() & window(6), causal() & lengths(queries=N)],
        "matrix": [
            window(2),
            lengths(keys=N),
            causal() & lengths(keys=N),
            causal() & lengths(N, padded="left"),
            causal() & keep(torch.ones(6, 6).bool()),
        ],
    }
    for form, masks in said.items():
        for mask in masks:
            assert explain(call(torch.float64, mask=mask)).choice.mask == form, mask


@needs_varlen_in_c
def test_the_kernel_for_variable_lengths_is_told_what_it_takes() -> None:
    said = {
        "nothing": [None, causal(offset=5), window(6)],
        "band": [causal(), causal() & window(6), window(2)],
        "lengths": [lengths(keys=N), lengths(queries=N), lengths(N)],
        "lengths and band": [causal() & lengths(N), window(2) & lengths(N, padded="left")],
    }
    for form, masks in said.items():
        for mask in masks:
            assert explain(call(mask=mask)).choice[:2] == ("varlen", form), mask


def test_a_bias_keeps_the_causal_flag_from_the_kernel() -> None:
    assert explain(call(mask=causal(), bias=ALiBi(4))).choice.mask == "matrix"


def test_reasons_against_the_fused_kernel_are_named() -> None:
    learned = explain(call(bias=RelativeBuckets(4, buckets=8, far=16)))
    assert learned.choice.kernel == "written"
    assert "RelativeBuckets is learned" in str(learned)
    assert "TensorBias is learned" in str(
        explain(call(bias=TensorBias(torch.zeros(6, 6, requires_grad=True))))
    )
    assert explain(call(bias=TensorBias(torch.zeros(6, 6)))).choice.kernel == "fused"
    additive = explain(call(score=Additive(8, 8, hidden=3, heads=4)))
    assert "additive score is no dot product, and its own fused kernel is for CUDA" in str(additive)


@needs_varlen_in_c
def test_the_whole_text() -> None:
    grouped = Call(torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), causal() & lengths(N))
    assert str(explain(grouped, value_width=5)) == (
        "varlen\n"
        "  kernel  one for variable lengths (C): every query over its range of the keys\n"
        "  score   ScaledDot, times 0.3536\n"
        "  mask    causal() & lengths(int64[2]) over 6 × 6 → the length of each row and a band\n"
        "  heads   4 of the query over 2 of the key\n"
        "  rows    unseen keys are never read; a query that sees nothing gets zeros"
    )
    torchs = Call(grouped.query.double(), grouped.key.double(), grouped.mask)
    assert str(explain(torchs, value_width=5)) == (
        "fused\n"
        "  kernel  torch's scaled_dot_product_attention; its flash kernel for the CPU\n"
        "  why     not the kernel for variable lengths: it takes float32 and bfloat16\n"
        "  score   ScaledDot, times 0.3536\n"
        "  mask    causal() & lengths(int64[2]) over 6 × 6 → the causal flag\n"
        "  heads   4 of the query over 2 of the key\n"
        "  widths  key 8, value 5: value filled up with zeros to 8\n"
        "  rows    keys that no query may look at are zeroed first; a query that may look at nothing gets zeros"
    )
    assert "unfused form, because of dropout" in str(explain(grouped, dropout=0.1))
