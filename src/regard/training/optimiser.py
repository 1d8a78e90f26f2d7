"""AdamW and its learning rate: what decays, how long a gradient may be, and the schedule. Updates are counted from 1."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.embedding import Embedding, Learned
from regard.runs.settings import Training


def adamw(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    """AdamW (Loshchilov 2019) over what is not frozen. What `decays` says decays, and nothing else.

    The fused form: one pass over the memory instead of a dozen, on CPU and GPU, and each number is updated independently,
    so that its answer does not depend on timing. ε = 10⁻⁹ is Vaswani's (2017, section 5.3).
    """
    decayed = decays(model)
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    if not trained:
        raise RegardError("nothing to train: the model has no parameters, or all of them are frozen")
    groups = [
        {
            "params": [weight for name, weight in trained if name in decayed],
            "weight_decay": settings.weight_decay,
        },
        {"params": [weight for name, weight in trained if name not in decayed], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=1e-9, fused=True)


def decays(model: nn.Module) -> set[str]:
    """The names of the weights that decay: matrices that multiply.

    Biases, gains and other vectors have nothing to gain from being small. Nor have embeddings, tied ones included:
    the row of a rare token would shrink at every update and grow only when the token is seen.
    """
    tables = {id(table) for part in model.modules() if (table := _table(part)) is not None}
    return {
        name for name, weight in model.named_parameters() if weight.ndim >= 2 and id(weight) not in tables
    }


def _table(part: nn.Module) -> Tensor | None:
    if isinstance(part, Embedding | Learned):
        return part.table
    return part.weight if isinstance(part, nn.Embedding) else None


def normalise_(gradients: list[Tensor], count: Float[Tensor, ""], *, clip: float = 0.0) -> Float[Tensor, ""]:
    """BatchPlace summed gradients into means over `count`, no longer than `clip` (0: any), in place (Pascanu 2013).

    What comes back is the norm before clipping. Nothing here waits for a GPU.
    """
    summed = torch.nn.utils.get_total_norm(gradients)
    count = count.to(summed.dtype)
    norm = summed / count
    shorter = (clip / (norm + 1e-6)).clamp(max=1.0) if clip else torch.ones_like(norm)
    torch._foreach_mul_(gradients, shorter / count)
    return norm


def inverse_square_root(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, √(w / t)): up in a line, then down with the root (Vaswani 2017, eq. 3).

    The paper's d_model^-½ · min(t^-½, t · w^-1½) has the same shape; here its peak, at t = w, is `rate`.
    """
    warmup = max(warmup, 1)
    return rate * min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, rate: float, warmup: int, steps: int) -> float:
    """rate · ½(1 + cos π(t - w) / (T + 1 - w)): half a wave from the peak down (Loshchilov 2017, eq. 5).

    It reaches zero one update after the last, so that the last still learns something.
    """
    if step < warmup:
        return rate * step / warmup
    share = min((step - warmup) / max(steps + 1 - warmup, 1), 1.0)
    return rate * 0.5 * (1 + math.cos(math.pi * share))


def constant(step: int, *, rate: float, warmup: int) -> float:
    """rate · min(t / w, 1): up in a line, then level."""
    return rate * min(step / max(warmup, 1), 1.0)


def rate_at(step: int, settings: Training) -> float:
    """The learning rate that a training asks for at an update."""
    rate, warmup = settings.learning_rate, settings.warmup
    if settings.schedule == "cosine":
        return cosine(step, rate=rate, warmup=warmup, steps=settings.steps)
    if settings.schedule == "constant":
        return constant(step, rate=rate, warmup=warmup)
    return inverse_square_root(step, rate=rate, warmup=warmup)
