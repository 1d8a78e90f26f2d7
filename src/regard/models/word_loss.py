"""The loss of words: from vectors to cross-entropy without ever holding every score of every word in float32.

The scores of all tokens over the vocabulary are the largest thing in training a small model. Here they are made some
tokens at a time, turned into their own gradient on the spot, and given away; what is kept for the backward pass has the
size of the vectors and of the table.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.models.protocols import Loss

_NARROW = 8192  # tokens at a time in 16 bits
_WIDE = 1024  # and in more
_WIDEST = 1 << 16  # words whose scores fit into a row of the kernel
_ROWS = 64  # tokens whose scores are in float32 at once on a CPU: they stay in its cache


def word_loss(
    vectors: Float[Tensor, "n d"],
    table: Float[Tensor, "vocabulary d"],
    targets: Int[Tensor, " n"],
    *,
    bias: Float[Tensor, " vocabulary"] | None = None,
    smoothing: float = 0.0,
) -> Loss:
    """`cross_entropy(vectors · tableᵀ + bias, targets)`, and the same metrics. A target less than 0 counts as nothing."""
    device = vectors.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else vectors.dtype
    if not torch.is_grad_enabled():  # inside, there is no telling whether gradients will be asked for
        vectors, table, bias = vectors.detach(), table.detach(), None if bias is None else bias.detach()
    total, nll, correct = _WordLoss.apply(vectors, table, bias, targets, smoothing, dtype)  # type: ignore[no-untyped-call]
    return Loss(total, (targets >= 0).sum(), {"nll": nll, "correct": correct})


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, vectors, table, bias, targets, smoothing, dtype):  # type: ignore[no-untyped-def]
        wide = torch.promote_types(vectors.dtype, torch.float32)
        to_vectors, to_table, to_bias = ctx.needs_input_grad[:3]
        each = _NARROW if dtype.itemsize == 2 else _WIDE
        sums = torch.zeros(3, dtype=wide, device=vectors.device)
        vector_parts, table_sum, bias_sum = [], None, None
        with torch.autocast(vectors.device.type, enabled=False):
            words, offset = table.to(dtype), None if bias is None else bias.to(dtype)
            for some, aims in zip(vectors.to(dtype).split(each), targets.split(each), strict=True):
                scores = torch.nn.functional.linear(some, words, offset)
                sums += _turned_into_slopes(scores, aims, smoothing, wide)
                if to_vectors:
                    vector_parts.append((scores @ words).to(vectors.dtype))
                if to_table:
                    part = (scores.mT @ some).to(table.dtype)
                    table_sum = part if table_sum is None else table_sum.add_(part)
                if to_bias:
                    part = scores.sum(0, dtype=wide).to(bias.dtype)
                    bias_sum = part if bias_sum is None else bias_sum.add_(part)
        slopes = torch.cat(vector_parts) if vector_parts else None
        ctx.save_for_backward(slopes, table_sum, bias_sum)
        total, nll, correct = (each.clone() for each in sums)
        ctx.mark_non_differentiable(nll, correct)
        return total, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, *_):  # type: ignore[no-untyped-def]
        return (
            *(None if part is None else part * grad.to(part) for part in ctx.saved_tensors),
            None,
            None,
            None,
        )


def _fits_a_kernel(scores: Tensor) -> bool:
    return scores.dtype != torch.float64 and scores.shape[-1] <= _WIDEST and TRITON_INSTALLED


def _turned_into_slopes(scores: Tensor, targets: Tensor, smoothing: float, wide: torch.dtype) -> Tensor:
    """Scores become the slopes of the loss along them, in place. The sums of loss, nll and right answers come back."""
    if scores.device.type == "cuda" and _fits_a_kernel(scores):
        from regard.models.kernels.word_slopes import turn_into_slopes

        return turn_into_slopes(scores, targets, smoothing)
    sums = torch.zeros(3, dtype=wide, device=scores.device)
    vocabulary = scores.shape[-1]
    for some, aims in zip(torch.split(scores, _ROWS), torch.split(targets, _ROWS), strict=True):
        real = aims >= 0
        at = aims.clamp(0, vocabulary - 1)[:, None]
        score = some.to(wide)
        aimed, largest = score.gather(-1, at)[:, 0], score.amax(-1)
        aimed = torch.where(aims < vocabulary, aimed, torch.nan)  # models refuse such a word before this
        shares = torch.softmax(score, -1)
        above = -shares.amax(-1).log()  # log Σ exp(score − largest), for the largest share is never nothing
        nll = torch.where(real, (largest - aimed) + above, 0.0)
        even = torch.where(real, (largest - score.mean(-1)) + above, 0.0)
        right = (real & (aimed == largest)).sum().to(wide)  # argmax takes twenty times as long
        total = (1 - smoothing) * nll + smoothing * even
        sums += torch.stack([total.sum(), nll.sum(), right])
        slopes = shares.sub_(smoothing / vocabulary)
        slopes.scatter_add_(-1, at, slopes.new_full(at.shape, smoothing - 1.0))
        if scores.is_cuda or not real.all():  # a GPU would have to be waited for
            slopes.masked_fill_(~real[:, None], 0.0)
        some.copy_(slopes)
    return sums
