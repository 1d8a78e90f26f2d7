"""Beam search: the best few beginnings of every sentence, followed side by side."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import END
from regard.data.given import number, whole
from regard.decoding.decode import Limits, decode
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search, best, kernel_fits, leading
from regard.errors import RegardError
from regard.models.protocols import AnyModel


def beam(
    model: AnyModel, source: Any, *, size: int, limits: Limits, penalty: float = 0.6, count: int = 1
) -> list[list[Hypothesis]]:
    """For every row of the source its `count` best texts, best first.

    At each step the `size` likeliest continuations of a sentence are kept; those that end are set aside as
    finished, the others live on. Finished texts are ranked by

        log p(text | source) / ((5 + length) / 6)^penalty        (Wu 2016, eq. 14, without coverage)

    with END counted in the length. A sentence stops when `count` texts are finished and none that is alive could
    still beat the worst of them at any length up to its limit; stopping there loses nothing. Where fewer than
    `count` finish within the limit, the best unfinished ones follow them. `limits` as in `greedy`, which is what
    size 1 gives.
    """
    _check(size, count, penalty)
    make = partial(BeamSearch, size=size, count=count, penalty=penalty)
    return decode(model, source, make, limits=limits, group=size, name=("beam", size, count, penalty))


class BeamSearch(Search):
    """`size` texts of each source, and the `count` best that have ended.

    A log-probability of −inf marks a place without a text. Log-probabilities are summed in float64.
    """

    def __init__(
        self,
        limits: Sequence[int],
        *,
        capacity: int,
        device: torch.device | str,
        size: int,
        count: int,
        penalty: float,
    ) -> None:
        super().__init__(limits, group=size, capacity=capacity, device=device)
        sources = len(limits)
        self.size, self.count, self.penalty = size, count, penalty
        self.live, self.live_scores = torch.zeros(2, sources, size, dtype=torch.float64, device=device)
        self.kept, self.kept_scores = torch.zeros(2, sources, count, dtype=torch.float64, device=device)
        self.kept_ends = torch.zeros(sources, count, dtype=torch.long, device=device)  # step · size + place
        self.steps = torch.zeros_like(self.limits)  # that each source made
        self.parents = torch.zeros(capacity, sources, size, dtype=torch.int32, device=device)
        self._tabulate()

    def limit(self, limits: Sequence[int]) -> None:
        """And what their longest texts are divided by."""
        super().limit(limits)
        self.least.copy_(self._divisor(self.limits))

    def begin(self, first: Int[Tensor, " sources"] | int) -> None:
        """Nothing has ended, and the first text of each source is the empty one."""
        super().begin(first)
        # One text a source at first: equal ones would only find the same continuations again.
        self.live.fill_(-torch.inf)
        self.live[:, 0] = 0.0
        for part in (self.live_scores, self.kept, self.kept_scores):
            part.fill_(-torch.inf)
        self.steps.zero_()

    def advance(
        self, logits: Float[Tensor, "rows vocabulary"], at: Int[Tensor, " 1"]
    ) -> Int[Tensor, "sources size"]:
        """The likeliest continuations of every source."""
        if self.size <= _KERNEL_SIZE and kernel_fits(logits):
            from regard.decoding.kernels.beams import grow

            return grow(logits, self, at)
        sources, size = self.live.shape
        real = self.live > -torch.inf
        # No text has more than `size` continuations among the `size` best of its source. In the order of tokens, so
        # that of equals the first is taken as if all had been compared.
        ahead, tokens = leading(logits, size)
        tops = ahead[:, 0].double().where((real & ~self.over[:, None]).flatten(), 0.0)
        self.tops.index_copy_(0, at, tops[None])
        tokens, order = tokens.sort(-1)
        ahead = ahead.double().gather(-1, order).reshape(sources, size, size)
        total = (ahead + self.live[..., None]).where(real[..., None], -torch.inf)
        logprob, index = best(total.flatten(1), size)
        parents, token = index // size, tokens.reshape(sources, -1).gather(-1, index)
        self.written.index_copy_(0, at, token.flatten()[None])
        self.parents.index_copy_(0, at, parents[None].int())
        score, ended = logprob / self._divisor(at + 1), token == END
        self._keep_ended(logprob, score, ended, at)
        going = ~self.over
        live = logprob.where(~ended, -torch.inf)
        self.live.copy_(live.where(going[:, None], self.live))
        self.live_scores.copy_(score.where(~ended, -torch.inf).where(going[:, None], self.live_scores))
        # Log-probabilities only fall, so the best that a living text can come to is what it has now, at the length
        # that is penalised least.
        least = self.least if self.penalty >= 0 else self._divisor(at + 2)
        self.steps += going
        self.over |= (self.limits <= at + 1) | (self.kept_scores[:, -1] >= live.amax(-1) / least)
        # A row without a text is stepped along with its source, on a token that every model knows.
        self.tokens.copy_(token.where(self.live > -torch.inf, END).flatten())
        return parents

    def _keep_ended(self, logprob: Tensor, score: Tensor, ended: Tensor, at: Tensor) -> None:
        """The best texts that have ended, of those before and these; of equals the earlier."""
        scores = torch.cat([self.kept_scores, score.where(ended, -torch.inf)], dim=1)
        places = torch.arange(self.size, device=at.device)
        ends = torch.cat([self.kept_ends, (at * self.size + places).expand_as(logprob)], dim=1)
        logprobs = torch.cat([self.kept, logprob.where(ended, -torch.inf)], dim=1)
        found, index = best(scores, self.count)
        news = (found, logprobs.gather(1, index).where(found > -torch.inf, -torch.inf), ends.gather(1, index))
        for held, new in zip((self.kept_scores, self.kept, self.kept_ends), news, strict=True):
            held.copy_(held.where(self.over[:, None], new))

    def keep(self, places: Sequence[int], *, step: int) -> None:
        """With their texts."""
        super().keep(places, step=step)
        index = torch.tensor(places, dtype=torch.long, device=self.over.device)
        for name in ("live", "live_scores", "kept", "kept_scores", "kept_ends", "steps", "least"):
            setattr(self, name, getattr(self, name)[index])
        self.parents = self.parents[:, index]

    def grow(self) -> None:
        """The parents too."""
        super().grow()
        self.parents = torch.cat([self.parents, torch.zeros_like(self.parents)])
        self._tabulate()

    def _tabulate(self) -> None:
        """What a log-probability is divided by: for each length of a text, and at the limit of each source."""
        self.divisors = self._divisor(torch.arange(self.capacity + 3, device=self.over.device))
        self.least = self._divisor(self.limits)

    def _divisor(self, length: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        return ((5 + length.double()) / 6) ** self.penalty

    def texts(self, places: Sequence[int]) -> list[list[Hypothesis]]:
        """Those that have ended, then those that were alive when their source stopped."""
        written = self._read()[0].reshape(self.capacity, -1, self.size).numpy()
        kept = [part.tolist() for part in (self.kept, self.kept_scores, self.kept_ends)]
        live = [part.tolist() for part in (self.live, self.live_scores)]
        steps = self.steps.tolist()
        chosen: list[
            tuple[int, float, float, int, bool]
        ] = []  # source, log-probability, score, end, finished
        for place in places:
            last = (steps[place] - 1) * self.size
            texts = [(*each, True) for each in zip(*(part[place] for part in kept), strict=True)]
            texts += [
                (*each, last + within, False)
                for within, each in enumerate(zip(*(part[place] for part in live), strict=True))
            ]
            real = (text for text in texts if text[0] > -torch.inf)
            chosen += [(place, *text) for text in islice(real, self.count)]
        found: dict[int, list[Hypothesis]] = {place: [] for place in places}
        tokens, within = self._traced(written, self.parents.cpu().numpy(), chosen)
        for column, (place, logprob, score, end, finished) in enumerate(chosen):
            length = end // self.size + 1
            found[place].append(
                Hypothesis(
                    tokens=tokens[column][: length - finished],
                    log_probability=logprob,
                    ranking=score,
                    finished=finished,
                    rows=self._rows(place, within[column][:length]),
                )
            )
        return [found[place] for place in places]

    def _traced(
        self,
        written: NDArray[Any],
        parents: NDArray[Any],
        chosen: Sequence[tuple[int, float, float, int, bool]],
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The tokens of all texts, and the places they came from: a step at a time, from the last to the first."""
        source = np.array([text[0] for text in chosen], np.int64)
        last, place = np.divmod(np.array([text[3] for text in chosen], np.int64), self.size)
        steps = int(last.max(initial=-1)) + 1
        tokens, came = (np.zeros((len(chosen), steps), np.int64) for _ in range(2))
        for at in range(steps - 1, -1, -1):
            tokens[:, at] = written[at, source, place]
            came[:, at] = parents[at, source, place]
            place = np.where(at <= last, came[:, at], place)
        return tokens.tolist(), came.tolist()


_KERNEL_SIZE = 16  # texts of a source for which the Triton kernel has registers


def _check(size: int, count: int, penalty: float) -> None:
    if whole("size", size) < 1:
        raise RegardError(f"a beam of size {size}: keep at least 1 text a step")
    if not 1 <= whole("count", count) <= size:
        raise RegardError(
            f"the {count} best of a beam of size {size}: ask for 1 to {size}, or widen the beam"
        )
    if not math.isfinite(number("penalty", penalty)):
        raise RegardError(f"a length penalty of {penalty}: give a finite exponent; 0 means none")
