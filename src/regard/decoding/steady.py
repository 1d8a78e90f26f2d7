"""Decoding where every step is the same work and nobody waits for its outcome: for a GPU, which records it once.

What the loops of `greedy` and `beam` do in Python is done by tensors here: texts that have ended stay in the batch and
are stepped along, and who came from whom is read back when all is over. The texts are those of the other loops.
"""

import importlib.util
import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import END, PAD, START
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.probabilities import normalised
from regard.errors import RegardError
from regard.models.protocols import Stood

_TRITON = importlib.util.find_spec("triton") is not None


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
        if _TRITON and logits.is_cuda and logits.dtype != torch.float64:
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
        top, chosen = _following(logits).max(-1)  # of equals the first
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


class SteadyBeam(Steady):
    """The best few beginnings of every sentence, side by side; the search of `beam`."""

    def __init__(
        self,
        standing: Stood,
        most: Int[Tensor, " s"],
        *,
        size: int,
        count: int,
        penalty: float,
        room: int,
    ) -> None:
        super().__init__(standing, most, group=size, room=room)
        sources, device = len(most), most.device
        self.size, self.count, self.penalty = size, count, penalty
        self._live = torch.zeros(sources, size, device=device)  # log-probabilities; −inf: no text
        self._live_scores = torch.zeros(sources, size, dtype=torch.float64, device=device)
        self._kept = torch.zeros(sources, count, device=device)
        self._kept_scores = torch.zeros(sources, count, dtype=torch.float64, device=device)
        self._kept_ends = torch.zeros(sources, count, dtype=torch.long, device=device)  # step · size + place
        self._steps = torch.zeros_like(self.most)  # that each sentence made
        self._parents = torch.zeros(room, sources, size, dtype=torch.int32, device=device)
        self._places = torch.arange(size, device=device)

    def begin(self) -> None:
        """Nothing is kept, and the first text of each sentence is the empty one."""
        super().begin()
        # One text a sentence at first: equal ones would only find the same continuations again.
        self._live.fill_(-torch.inf)
        self._live[:, 0] = 0.0
        for part in (self._live_scores, self._kept, self._kept_scores):
            part.fill_(-torch.inf)
        self._steps.zero_()

    def step(self) -> None:
        """The likeliest continuations of every sentence."""
        size, sources, at = self.size, len(self.most), self.standing.at
        real = self._live > -torch.inf
        ahead, tokens = foremost(_following(self.standing.step(self.tokens)), size)
        tops = ahead[:, 0].where((real & ~self.over[:, None]).flatten(), 0.0)
        self._tops.index_copy_(0, at, tops.to(self._tops)[None])
        tokens, order = tokens.sort(-1)  # so that of equals the first is taken
        ahead = ahead.gather(-1, order).reshape(sources, size, size)
        total = (ahead + self._live[..., None]).where(real[..., None], -torch.inf)
        logprob, index = foremost(total.flatten(1), size)
        parents, token = index // size, tokens.reshape(sources, -1).gather(-1, index)
        self._written.index_copy_(0, at, token.flatten()[None].int())
        self._parents.index_copy_(0, at, parents[None].int())
        length = (at + 1).expand_as(self.most)
        score, ended = self._weakened(logprob, length[:, None]), token == END
        self._keep(logprob, score, ended, at)
        going = ~self.over[:, None]
        live = logprob.where(~ended, -torch.inf)
        self._live.copy_(torch.where(going, live, self._live))
        self._live_scores.copy_(torch.where(going, score.where(~ended, -torch.inf), self._live_scores))
        attainable = self._weakened(live.amax(-1), self.most if self.penalty >= 0 else length + 1)
        self._steps += ~self.over
        self.over |= (self.most <= length) | (self._kept_scores[:, -1] >= attainable)
        self.tokens.copy_(token.where(self._live > -torch.inf, END).flatten())
        self.standing.go_on(parents)

    def _keep(self, logprob: Tensor, score: Tensor, ended: Tensor, at: Tensor) -> None:
        """The best finished texts, of those before and these."""
        scores = torch.cat([self._kept_scores, score.where(ended, -torch.inf)], dim=1)
        ends = torch.cat([self._kept_ends, (at * self.size + self._places).expand_as(logprob)], dim=1)
        best, places = foremost(scores, self.count)
        logprobs = torch.cat([self._kept, logprob.where(ended, -torch.inf)], dim=1)
        for held, new in (
            (self._kept_scores, best),
            (self._kept, logprobs.gather(1, places).where(best > -torch.inf, -torch.inf)),
            (self._kept_ends, ends.gather(1, places)),
        ):
            held.copy_(torch.where(self.over[:, None], held, new))

    def _weakened(self, logprob: Tensor, length: Tensor) -> Tensor:
        return logprob.double() / ((5 + length.double()) / 6) ** self.penalty

    def found(self) -> list[list[Hypothesis]]:
        """The finished texts, then those that were alive when their sentence stopped."""
        tokens = self._read()[0].reshape(self.room, -1, self.size).tolist()
        kept = [part.tolist() for part in (self._kept, self._kept_scores, self._kept_ends)]
        live = [part.tolist() for part in (self._live, self._live_scores)]
        steps, parents = self._steps.tolist(), self._parents.tolist()
        found = []
        for sentence in range(len(steps)):
            last = (steps[sentence] - 1) * self.size
            texts = [(*each, True) for each in zip(*(part[sentence] for part in kept), strict=True)]
            texts += [
                (*each, last + place, False)
                for place, each in enumerate(zip(*(part[sentence] for part in live), strict=True))
            ]
            some: list[Hypothesis] = []
            for logprob, score, end, finished in texts:
                if logprob == -torch.inf or len(some) == self.count:
                    continue
                text, rows = self._back(tokens, parents, sentence, end)
                text = text[: len(text) - finished]
                some.append(
                    Hypothesis(tokens=text, logprob=logprob, score=score, finished=finished, rows=rows)
                )
            found.append(some)
        return found

    def _back(
        self, tokens: list[list[list[int]]], parents: list[list[list[int]]], sentence: int, end: int
    ) -> tuple[list[int], list[int]]:
        """The tokens of a text, and the rows it came from."""
        step, place = divmod(end, self.size)
        text, rows = [], []
        for at in range(step, -1, -1):
            text.append(tokens[at][sentence][place])
            place = parents[at][sentence][place]
            rows.append(sentence * self.size + place)
        return text[::-1], rows[::-1]


def _following(logits: Tensor) -> Float[Tensor, "rows vocabulary"]:
    """The log-probabilities of what may come next."""
    logprobs = normalised(logits)
    logprobs[:, PAD : START + 1] = -torch.inf
    return logprobs


def foremost(values: Float[Tensor, "b n"], count: int) -> tuple[Tensor, Tensor]:
    """What `best` gives, without waiting for anything: the largest, `count` times; −inf may be of any place.

    Takes them out of `values`.
    """
    found = []
    for left in range(count, 0, -1):
        found.append(values.max(-1))
        if left > 1:
            values.scatter_(-1, found[-1].indices[:, None], -torch.inf)
    return torch.stack([each.values for each in found], -1), torch.stack([each.indices for each in found], -1)
