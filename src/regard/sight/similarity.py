"""How alike the heads of a call look."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.sight.head_strips import heads_together
from regard.sight.strips import CAPACITY


def similarity(call: Call, *, capacity: int = CAPACITY) -> Float[Tensor, "*batch h h"]:
    """How alike each two heads look: 1 when their rows are equal, 0 when they never look at the same key.

    The mean over the queries i of Σ_j √(a_ij b_ij), the coefficient of Bhattacharyya (1946): 1 less the squared
    Hellinger distance. Like the Jensen–Shannon divergence it compares distributions (it is bounded, symmetric, and a
    key split in two alike halves changes nothing, as it would change the cosine of two rows); but it is a product of
    matrices, where Jensen–Shannon takes a logarithm for every pair of heads. Only queries at which both heads look at
    something count.
    """
    wide = torch.promote_types(call.query.dtype, torch.float32)
    batch, count = call.query.shape[:-3], call.query.shape[-3] if call.query.ndim > 2 else 1
    total = torch.zeros(batch.numel(), count, count, dtype=torch.float64, device=call.query.device)
    queries = torch.zeros_like(total)
    for part in heads_together(call, capacity=capacity):
        roots, looking = part.weights.sqrt().flatten(1), part.looking.to(wide)
        total[part.entry] += roots @ roots.mT
        queries[part.entry] += looking @ looking.mT
    return (total / queries.clamp_min(1)).to(wide).view(*batch, count, count)
