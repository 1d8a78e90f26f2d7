"""Which calls kernels support, and the reasons given for the others."""

import pytest
import torch

from regard import (
    Additive,
    ALiBi,
    Call,
    RelativeBuckets,
    TensorBias,
    causal,
    documents,
    keep,
    lengths,
    prefix,
    watch,
    window,
)
from regard.sight.kernels.kernel_mask import choose_backend, obstacle
from regard.sight.selection import select


def call(width: int = 8, dtype: torch.dtype = torch.float32, **parts) -> Call:
    return Call(torch.randn(2, 4, 6, width, dtype=dtype), torch.randn(2, 2, 6, width, dtype=dtype), **parts)


@pytest.mark.parametrize(
    "mask",
    [
        None,
        causal(),
        window(2),
        causal(offset=-1) & window(3),
        lengths(torch.tensor([3, 6])),
        lengths(torch.tensor([3, 6]), padded="left") & causal(),
        documents(torch.arange(6) // 2) & causal() & lengths(5),
    ],
    ids=repr,
)
def test_bands_lengths_and_documents_are_supported(mask) -> None:
    assert obstacle(call(mask=mask)) is None
    assert obstacle(select(call(mask=mask), heads=[2, 0])) is None


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: call(score=Additive(8, 8, hidden=3)), "additive"),
        (lambda: call(dtype=torch.float64), "float64"),
        (lambda: call(width=300), "width 300"),
        (lambda: call(mask=keep(torch.ones(6, 6, dtype=torch.bool))), "keep"),
        (lambda: call(mask=causal() | prefix(2)), "prefix"),
        (lambda: call(mask=~window(2)), "~window"),
        (lambda: call(mask=documents(torch.arange(6)) & documents(torch.arange(6) // 2)), "documents"),
        (lambda: call(bias=TensorBias(torch.zeros(6, 6))), "TensorBias"),
        (lambda: call(bias=RelativeBuckets(4)), "RelativeBuckets"),
        (lambda: Call(torch.randn(0, 4, 6, 8), torch.randn(0, 4, 6, 8)), "empty"),
    ],
)
def test_what_is_not_supported_is_named(made, reason: str) -> None:
    assert reason in (obstacle(made()) or "")


def test_alibi_is_supported_by_its_slopes() -> None:
    assert obstacle(call(bias=ALiBi(4))) is None
    assert obstacle(call(bias=ALiBi(4).shifted(3))) is None
    assert obstacle(select(call(bias=ALiBi(4)), heads=1)) is None


def test_a_layer_says_where_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.sight.kernels.kernel_mask.TRITON_INTERPRETED", False)
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True, device="cpu")
    x = torch.randn(1, 5, 8, device="cpu")
    with watch(model) as seen:
        model(x, x, x, need_weights=False)
    assert str(seen[0].explain()) == "strips: the call is on the cpu, kernels run on CUDA"
    assert choose_backend(seen[0].intact()).way == "strips"
