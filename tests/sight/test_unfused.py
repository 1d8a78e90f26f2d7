"""Only modules that are to be changed leave torch's fused path, and only in the thread that changes them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from regard import intervene, scale_head

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_fused_modules_of_torch_stay_fused_elsewhere(device: str) -> None:
    def make() -> nn.TransformerEncoder:
        layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True, device=device)
        return nn.TransformerEncoder(layer, 2).eval()

    model, other, x = make(), make(), torch.randn(2, 5, 16, device=device)
    padding = torch.arange(5, device=device) >= torch.tensor([[5], [3]], device=device)

    @torch.no_grad()
    def run(which: nn.Module) -> Tensor:
        return which(x, src_key_padding_mask=padding)

    plain, apart = run(model), run(other)
    assert plain[1, 3:].abs().max() == 0  # which is what the fused path leaves in the padding
    with ThreadPoolExecutor(1) as pool, intervene(model, {"layers.1.self_attn": scale_head(0, 1.0)}):
        changed = run(model)
        assert torch.backends.mha.get_fastpath_enabled()
        assert torch.equal(run(other), apart)
        assert torch.equal(pool.submit(run, model).result(), plain)
    assert changed[1, 3:].abs().max() > 0
    torch.testing.assert_close(changed[0], plain[0])
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert torch.equal(run(model), changed)  # torch's own way of taking it
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
