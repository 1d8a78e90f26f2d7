"""What stands around a layer in training, against torch in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.triton


def norm_of(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(5, 24), (7, 512), (3, 100)])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 5e-6), (torch.bfloat16, 2e-2)])
def test_an_input_is_normalised_and_its_gradients_meet(
    rows: int, width: int, dtype: torch.dtype, error: float, around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.layers.kernels import mixed_residual

    monkeypatch.setattr(mixed_residual, "_PROGRAMS", 2)  # fewer than there are tiles
    monkeypatch.setattr(mixed_residual, "_TILE", width if width == 24 else 2048)
    norm, x = norm_of(width), (3 * torch.randn(2, rows, width) + 1).requires_grad_()
    upstream = [torch.randn(2, rows, width) for _ in range(2)]
    same, normed = mixed_residual.forked(x, norm, dtype)
    assert torch.equal(same, x)
    assert normed.dtype == dtype
    loss = (normed.float() * upstream[0]).sum() + ((same * upstream[1]).sum() if around else 0.0)
    found = torch.autograd.grad(loss, [x, norm.weight, norm.bias])
    norm, x, upstream = norm.double(), x.detach().double().requires_grad_(), [u.double() for u in upstream]
    wanted = norm(x)
    assert (normed.double() - wanted).abs().max() < error * wanted.abs().max()
    loss = (wanted * upstream[0]).sum() + ((x * upstream[1]).sum() if around else 0.0)
    for mine, other in zip(found, torch.autograd.grad(loss, [x, norm.weight, norm.bias]), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - other).norm() < error * other.norm()


def test_who_asks_for_the_sum_alone_gets_its_gradient() -> None:
    from regard.layers.kernels.mixed_residual import forked

    norm, x = norm_of(24), torch.randn(3, 24).requires_grad_()
    forked(x, norm, torch.bfloat16)[0].sum().backward()
    assert x.grad is not None
    assert x.grad.eq(1).all()
    assert norm.weight.grad is None


@pytest.mark.parametrize("count", [4096, 5003])
def test_an_output_is_thinned_out_and_added_and_its_gradient_thinned_out_alike(count: int) -> None:
    from regard.layers.kernels.mixed_residual import added

    x = torch.randn(count).requires_grad_()
    f = (torch.rand(count) + 1).to(torch.bfloat16).requires_grad_()
    torch.manual_seed(3)
    out = added(x, f, 0.25)
    assert out.dtype == torch.float32
    gone = out.detach() - x.detach()
    kept = gone != 0
    assert 0.70 < kept.float().mean() < 0.80
    for part in kept.split(512):  # every stretch by itself
        assert part.float().mean() > 0.5
    torch.testing.assert_close(gone[kept], f.detach().float()[kept] / 0.75, rtol=0, atol=1e-6)
    upstream = torch.randn(count)
    to_x, to_f = torch.autograd.grad((out * upstream).sum(), [x, f])
    assert torch.equal(to_x, upstream)
    assert to_f.dtype == torch.bfloat16
    torch.testing.assert_close(to_f.float(), torch.where(kept, upstream / 0.75, 0.0), rtol=1e-2, atol=0)
    torch.manual_seed(3)
    assert torch.equal(added(x, f, 0.25), out)
    assert not torch.equal(added(x, f, 0.25), out)
