"""A padded batch: zeros for padding, and what is in the padding cannot matter. Torch beside it.

The second sequence has two real positions, the third none at all. The padding holds NaN, as uninitialised memory might.
"""

import torch
from torch.nn import functional as F

import regard

torch.manual_seed(0)
n = torch.tensor([4, 2, 0])
x = torch.randn(3, 4, 8)
real = torch.arange(4) < n[:, None]
x = torch.where(real[..., None], x, torch.nan)

ours = regard.attend(x, x, x, regard.lengths(n))
allowed = real[:, :, None] & real[:, None, :]
theirs = F.scaled_dot_product_attention(x, x, x, attn_mask=allowed)


def describe(answer: torch.Tensor) -> list[str]:
    """One word a position of the batch."""
    rows = answer.flatten(0, 1)
    return ["NaN" if row.isnan().any() else "0" if (row == 0).all() else "finite" for row in rows]


names = [f"sequence {b}, position {t}" for b in range(3) for t in range(4)]
print(f"{'':<24}{'real':<8}{'regard':<8}torch")
for name, is_real, mine, torchs in zip(
    names, real.flatten().tolist(), describe(ours), describe(theirs), strict=True
):
    print(f"{name:<24}{'yes' if is_real else 'no':<8}{mine:<8}{torchs}")
