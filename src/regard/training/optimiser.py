"""The optimiser: AdamW, what it lets decay, and how long a gradient may be."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.positions import Learned
from regard.runs.settings import Training


def adamw(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    """AdamW (Loshchilov 2019) over what is not frozen. What `decays` says decays, and nothing else.

    The fused form: one pass over the memory instead of a dozen, on CPU and GPU, and each number is its own affair,
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
    """Turn summed gradients into means over `count`, no longer than `clip` (0: any), in place (Pascanu 2013).

    What comes back is the norm before clipping. Nothing here waits for a GPU.
    """
    summed = torch.nn.utils.get_total_norm(gradients)
    count = count.to(summed.dtype)
    norm = summed / count
    shorter = (clip / (norm + 1e-6)).clamp(max=1.0) if clip else torch.ones_like(norm)
    torch._foreach_mul_(gradients, shorter / count)
    return norm
