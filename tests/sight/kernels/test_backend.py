"""What computes evidence, and the reasons given."""

import pytest
import torch

from regard import watch
from regard.sight.kernels.backend import choose_backend


def test_a_layer_says_where_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.sight.kernels.backend.TRITON_INTERPRETED", False)
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True, device="cpu")
    x = torch.randn(1, 5, 8, device="cpu")
    with watch(model) as seen:
        model(x, x, x, need_weights=False)
    assert str(seen[0].explain()) == "strips: the call is on the cpu, kernels run on CUDA"
    assert choose_backend(seen[0].intact()).way == "strips"
