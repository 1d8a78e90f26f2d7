"""What training makes small: cross-entropy over the tokens that are real, from logits or straight from vectors."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.layers.mixed_precision import MixedPrecision
from regard.models.protocols import Loss

_NARROW = 8192  # tokens at a time in 16 bits
_WIDE = 1024  # and in more
_WIDEST = 1 << 16  # words whose scores fit into a row of the kernel
_ROWS = 64  # tokens whose scores are in float32 at once on a CPU: they stay in its cache


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


class WordLoss(nn.Module):
    """`cross_entropy(vectors · tableᵀ + bias, targets)` without ever holding every score of every word in float32.

    The scores of all tokens over the vocabulary are the largest tensor in training a small model. Here they are computed
    some tokens at a time, turned into their own gradient on the spot, and freed; what is kept for the backward pass has
    the size of the vectors and of the table. A target less than 0 counts as nothing.
    """

    def forward(
        self,
        vectors: Float[Tensor, "n d"],
        table: Float[Tensor, "vocabulary d"],
        targets: Int[Tensor, " n"],
        bias: Float[Tensor, " vocabulary"] | None = None,
        *,
        smoothing: float = 0.0,
    ) -> Loss:
        """The loss, and the metrics of `cross_entropy`."""
        # A Function is not told whether gradients are wanted, and would compute them.
        if not torch.is_grad_enabled():
            vectors, table, bias = vectors.detach(), table.detach(), None if bias is None else bias.detach()
        dtype = self.dtype_of(vectors)
        total, nll, correct = _WordLoss.apply(vectors, table, bias, targets, smoothing, dtype)  # type: ignore[no-untyped-call]
        return Loss(total, (targets >= 0).sum(), {"nll": nll, "correct": correct})

    def dtype_of(self, vectors: Tensor) -> torch.dtype:
        """Of the products: that of the vectors."""
        return vectors.dtype


class MixedWordLoss(MixedPrecision, WordLoss):
    """The same with products in 16 bits, for training; the loss itself and its sums stay float32."""

    plain: ClassVar[type[nn.Module]] = WordLoss

    def dtype_of(self, vectors: Tensor) -> torch.dtype:
        """16 bits."""
        return self.precision


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
