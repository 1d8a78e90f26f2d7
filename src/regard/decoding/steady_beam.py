"""Beam search where every step is the same work: see `steady`."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import END
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.steady import Steady, fits_a_kernel, permitted
from regard.models.protocols import Stood

_WIDEST = 16  # texts of a sentence for which kernels have room


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
        self._divisors = self._divisor(torch.arange(room + 2, device=device))

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
        logits = self.standing.step(self.tokens)
        if size <= _WIDEST and fits_a_kernel(logits):
            self.standing.go_on(self._grown(logits))
            return
        real = self._live > -torch.inf
        ahead, tokens = foremost(permitted(logits), size)
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

    def _grown(self, logits: Float[Tensor, "rows vocabulary"]) -> Int[Tensor, "s size"]:
        """The same by two kernels instead of a hundred."""
        from regard.decoding.kernels.beams import Beams, grow

        beams = Beams(
            at=self.standing.at,
            most=self.most,
            over=self.over,
            tokens=self.tokens,
            written=self._written,
            tops=self._tops,
            parents=self._parents,
            live=self._live,
            live_scores=self._live_scores,
            kept=self._kept,
            kept_scores=self._kept_scores,
            kept_ends=self._kept_ends,
            steps=self._steps,
            divisors=self._divisors,
            rising=self.penalty >= 0,
        )
        return grow(logits, beams)

    def _weakened(self, logprob: Tensor, length: Tensor) -> Tensor:
        return logprob.double() / self._divisor(length)

    def _divisor(self, length: Tensor) -> Tensor:
        return ((5 + length.double()) / 6) ** self.penalty

    def found(self) -> list[list[Hypothesis]]:
        """The finished texts, then those that were alive when their sentence stopped."""
        written = self._read()[0].reshape(self.room, -1, self.size).numpy()
        kept = [part.tolist() for part in (self._kept, self._kept_scores, self._kept_ends)]
        live = [part.tolist() for part in (self._live, self._live_scores)]
        steps, parents = self._steps.tolist(), self._parents.cpu().numpy()
        chosen: list[
            tuple[int, float, float, int, bool]
        ] = []  # sentence, log-probability, score, end, finished
        for sentence in range(len(steps)):
            last = (steps[sentence] - 1) * self.size
            texts = [(*each, True) for each in zip(*(part[sentence] for part in kept), strict=True)]
            texts += [
                (*each, last + place, False)
                for place, each in enumerate(zip(*(part[sentence] for part in live), strict=True))
            ]
            real = (text for text in texts if text[0] > -torch.inf)
            chosen += [(sentence, *text) for text in islice(real, self.count)]
        found: list[list[Hypothesis]] = [[] for _ in steps]
        tokens, rows = self._back(written, parents, chosen)
        for column, (sentence, logprob, score, end, finished) in enumerate(chosen):
            length = end // self.size + 1
            found[sentence].append(
                Hypothesis(
                    tokens=tokens[column][: length - finished],
                    logprob=logprob,
                    score=score,
                    finished=finished,
                    rows=rows[column][:length],
                )
            )
        return found

    def _back(
        self,
        written: NDArray[Any],
        parents: NDArray[Any],
        chosen: Sequence[tuple[int, float, float, int, bool]],
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The tokens of all texts, and the rows that they came from: a step at a time, from the last to the first."""
        sentence = np.array([text[0] for text in chosen], np.int64)
        step, place = np.divmod(np.array([text[3] for text in chosen], np.int64), self.size)
        tokens, rows = (np.zeros((len(chosen), self.room), np.int64) for _ in range(2))
        for at in range(int(step.max(initial=-1)), -1, -1):
            tokens[:, at] = written[at, sentence, place]
            came = parents[at, sentence, place]
            rows[:, at] = sentence * self.size + came
            place = np.where(at <= step, came, place)
        return tokens.tolist(), rows.tolist()


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
