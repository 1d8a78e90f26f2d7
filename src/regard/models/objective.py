"""What training makes small: cross-entropy over the tokens that are real."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.protocols import Loss


def cross_entropy(
    logits: Float[Tensor, "*b vocabulary"],
    targets: Int[Tensor, "*b"],
    real: Bool[Tensor, "*b"] | None = None,
    *,
    smoothing: float = 0.0,
    shares: Float[Tensor, "*b"] | None = None,
) -> Loss:
    """Σ −(1 − ε) log p(target) − ε mean_v log p(v), with ε = `smoothing` (Szegedy 2016, section 7).

    Beside it, `nll`: the sum without smoothing, and `correct`: how often the target is the likeliest. Computed in
    float32 at least, and only where `real`. `shares`: how much of each sample its target is, where it is not all
    (mixup); what it counts and what is correct stay whole.
    """
    if real is not None:
        logits, targets = logits[real], targets[real]
        shares = None if shares is None else shares[real]
    logs = torch.log_softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
    if shares is not None:
        logs = logs * shares[..., None]
    # On a GPU, to ask for a class that is not there would end all use of it. Models refuse such a label before this.
    there = targets.clamp(0, logits.shape[-1] - 1)
    nll = -logs.gather(-1, there[..., None])[..., 0].where(there == targets, torch.nan).sum()
    total = nll if smoothing == 0.0 else (1 - smoothing) * nll - smoothing * logs.mean(-1).sum()
    correct = (logits.detach().argmax(-1) == targets).sum()
    count = torch.tensor(targets.numel(), device=targets.device)
    return Loss(total, count, {"nll": nll.detach(), "correct": correct.to(nll.dtype)})
