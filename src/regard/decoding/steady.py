"""Decoding where every step is the same work and nobody waits for its outcome: for a GPU, which records it once.

What the loops of `greedy` and `beam` do in Python is done by tensors here: texts that have ended stay in the batch and
are stepped along, and who came from whom is read back when all is over. The texts are those of the other loops.
"""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.batches import END, PAD, START
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.probabilities import normalised
from regard.errors import RegardError
from regard.models.protocols import Stood


class Steady(ABC):
    """A decode of one shape, that can be made again and again."""

    def __init__(self, standing: Stood, most: Int[Tensor, " s"], *, group: int, room: int) -> None:
        self.standing, self.room, self.group = standing, room, group
        device, rows = most.device, len(most) * group
        self.most = most.clone()
        self._limits: list[int] = most.tolist()
        self.tokens = torch.full((rows,), START, device=device)
        self.over = torch.zeros_like(self.most, dtype=torch.bool)
        # What each row wrote at each step, and how likely its best was, or 0 where nobody reads that; the host reads
        # them in one go.
        self._notes = torch.zeros(2, room, rows, dtype=torch.int32, device=device)
        self._written, self._tops = self._notes[0], self._notes[1].view(torch.float32)

    def limit(self, most: Int[Tensor, " s"]) -> None:
        """The most tokens of each source in the next decode."""
        limits = most.tolist()
        if limits != self._limits:
            self.most.copy_(most, non_blocking=True)
            self._limits = limits

    def begin(self) -> None:
        """Anew, once the limits and the sources are there."""
        self.tokens.fill_(START)
        self.over.zero_()
        self._tops.zero_()

    @abstractmethod
    def step(self) -> None:
        """One token more for every text that goes on."""

    @abstractmethod
    def found(self) -> list[list[Hypothesis]]:
        """The texts of every source, best first. Waits for them."""

    def _read(self) -> tuple[Int[Tensor, "room rows"], list[float]]:
        """What was written, and how likely the best of each row were together, where the host can look at it."""
        written, notes = self._notes.cpu()
        tops = notes.view(torch.float32)
        totals = tops.sum(0, dtype=torch.float64).tolist()
        if not all(map(math.isfinite, totals)):
            step, row = (~tops.isfinite()).nonzero().tolist()[0]
            raise RegardError(
                f"step {step}, row {row // self.group}: the model gave NaN or inf, or leaves nothing to choose from; "
                "decode in a wider dtype, or look at its weights and at that source"
            )
        return written, totals


class SteadyGreedy(Steady):
    """Always the likeliest next token."""

    def __init__(self, standing: Stood, most: Int[Tensor, " s"], *, room: int) -> None:
        super().__init__(standing, most, group=1, room=room)

    def step(self) -> None:
        """The likeliest token of every row."""
        logits = self.standing.step(self.tokens)
        if fits_a_kernel(logits):
            from regard.decoding.kernels.likeliest import likeliest

            likeliest(
                logits,
                at=self.standing.at,
                most=self.most,
                over=self.over,
                tokens=self.tokens,
                written=self._written,
                tops=self._tops,
            )
            self.standing.go_on()
            return
        top, chosen = permitted(logits).max(-1)  # of equals the first
        at = self.standing.at
        self._written.index_copy_(0, at, chosen[None].int())
        self._tops.index_copy_(0, at, top.to(self._tops).where(~self.over, 0.0)[None])
        self.over |= (chosen == END) | (self.most <= at + 1)
        self.tokens.copy_(torch.where(self.over, END, chosen))
        self.standing.go_on()

    def found(self) -> list[list[Hypothesis]]:
        """One text a source."""
        written, totals = self._read()
        found = []
        for row, (text, limit, total) in enumerate(
            zip(written.t().tolist(), self._limits, totals, strict=True)
        ):
            text[limit:] = [END]
            length = min(text.index(END) + 1, limit)
            finished = text[length - 1] == END
            found.append(
                [
                    Hypothesis(
                        tokens=text[: length - finished],
                        logprob=total,
                        score=total,
                        finished=finished,
                        rows=[row] * length,
                    )
                ]
            )
        return found


def fits_a_kernel(logits: Tensor) -> bool:
    """Whether a kernel can choose among these."""
    return TRITON_INSTALLED and logits.is_cuda and logits.dtype != torch.float64


def permitted(logits: Tensor) -> Float[Tensor, "rows vocabulary"]:
    """The log-probabilities of what may come next."""
    logprobs = normalised(logits)
    logprobs[:, PAD : START + 1] = -torch.inf
    return logprobs
