"""A search for texts, one step at a time, over buffers of fixed capacity; and the likeliest tokens, which it chooses from.

A step changes the buffers in place and reads nothing back to the host, so the same code runs eagerly on a CPU, eagerly
on a GPU, and inside a CUDA graph. What differs between searches is `advance`: which token follows. Of equals the first is
taken, by every search.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.native import MAX_LEADING, kernels
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.data.batches import END, PAD, START
from regard.decoding.hypothesis import Hypothesis
from regard.errors import RegardError


def normalised(logits: Float[Tensor, "*b vocabulary"]) -> Float[Tensor, "*b vocabulary"]:
    """log softmax, in float32 at least."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits, dim=-1, dtype=wide)


def permitted(logits: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
    """The log-probability of every token that may come next; −inf for PAD and START, which never do.

    The others keep the probabilities the model gave them, so that their sum is the one `score` finds.
    """
    logprobs = normalised(logits)
    logprobs[:, PAD] = logprobs[:, START] = -torch.inf
    return logprobs


def leading(
    logits: Float[Tensor, "rows vocabulary"], count: int
) -> tuple[Float[Tensor, "rows {count}"], Int[Tensor, "rows {count}"]]:
    """The `count` likeliest tokens that may come next, best first, of equals the first: log-probabilities and tokens.

    Where a row has fewer, −inf of token 0 fills it up; where it has none, its first log-probability is not finite.
    """
    compiled = kernels() if logits.device.type == "cpu" and logits.dtype == torch.float32 else None
    if compiled is not None and count <= MAX_LEADING:
        return compiled.leading(logits, count, first=START + 1)
    return best(permitted(logits), count)


def kernel_fits(logits: Float[Tensor, "rows vocabulary"]) -> bool:
    """Whether a Triton kernel can choose among these."""
    return TRITON_INSTALLED and logits.is_cuda and logits.dtype != torch.float64


def fault(logits: Float[Tensor, " vocabulary"]) -> str:
    """Why nothing can be chosen from the logits of a row."""
    if bool(logits.isnan().any()):
        return "the model gave NaN; look at its weights and at the source of that row"
    if bool(logits.isposinf().any()):
        return "the model gave inf; decode in a wider dtype"
    return "the model leaves nothing to choose from: all logits but those of PAD and START are -inf"


def best(
    values: Float[Tensor, "b n"], count: int
) -> tuple[Float[Tensor, "b {count}"], Int[Tensor, "b {count}"]]:
    """The `count` largest of each row, best first, and where they are; of equals, those that come first.

    `torch.topk` leaves open which of equals it takes. Where a row has fewer, −inf at place 0 fills it up.
    """
    if values.shape[-1] >= _WIDE and count <= _WIDE // _BLOCK:
        some, places = _promising(values, count)
        found, index = _best(some, count)
        return found, places.gather(-1, index)
    return _best(values, count)


_WIDE, _BLOCK = 2048, 64


def _promising(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The blocks of each row that hold its `count` best, in their order, and where their numbers come from.

    A number of any other block has, in each of `count` blocks, a number that is larger, or equal and before it.
    Looking for the largest of a block is much cheaper than looking for several in a row.
    """
    blocks = values.shape[-1] // _BLOCK
    whole = blocks * _BLOCK
    tops = values[:, :whole].reshape(-1, blocks, _BLOCK).amax(-1)
    chosen = _best(tops, count)[1].sort(-1).values
    inside = torch.arange(_BLOCK, device=values.device)
    places = (chosen[..., None] * _BLOCK + inside).flatten(1)
    if whole < values.shape[-1]:  # what is left after the last whole block
        rest = torch.arange(whole, values.shape[-1], device=values.device).expand(len(values), -1)
        places = torch.cat([places, rest], dim=-1)
    return values.gather(-1, places), places


def _best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    n = values.shape[-1]
    if n < count:
        values = F.pad(values, (0, count - n), value=-torch.inf)
    # Which of equals `topk` takes is not defined: only the value of the last is used. No step waits for the device.
    last = values.topk(count).values[:, -1:]
    larger, equal = values > last, values == last
    wanted = larger | (equal & (equal.cumsum(-1) <= count - larger.sum(-1, keepdim=True)))
    places = torch.arange(values.shape[-1], device=values.device).expand_as(values)
    index = places.where(wanted, values.shape[-1] - 1).topk(count, largest=False).values
    found, order = values.gather(-1, index).sort(dim=-1, descending=True, stable=True)
    index = index.gather(-1, order)
    return found, index.where(index < n, 0)


# From logits, the random keys of their rows and the step ([1]): the next token of each row, and its log-probability.
Choice = Callable[
    [Float[Tensor, "rows vocabulary"], Int[Tensor, " rows"], Int[Tensor, " 1"]],
    tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]],
]


class Search(ABC):
    """`group` texts of each source, in neighbouring rows, each of at most `limits` tokens, END among them."""

    def __init__(
        self, limits: Sequence[int], *, group: int, capacity: int, device: torch.device | str
    ) -> None:
        self.group = group
        self._limits = list(limits)
        self.limits = torch.tensor(self._limits, dtype=torch.long, device=device)
        self.tokens = torch.full((len(limits) * group,), END, device=device)  # to step with next
        self.over = torch.zeros(len(limits), dtype=torch.bool, device=device)
        # The token that each row wrote at each step, and the log-probability of its likeliest, or 0 once its source is
        # over. In one tensor, so that one copy brings both to the host.
        self._notes = torch.zeros(2, capacity, len(self.tokens), dtype=torch.long, device=device)
        self._view_notes()
        # The sources that are still in the batch, and for each the steps at which it moved in the batch, and where to.
        self.sources = list(range(len(limits)))
        self.parted = True  # whether the first step had a row for every text, not one for each source
        self._moves = [[(0, place)] for place in self.sources]

    @property
    def capacity(self) -> int:
        """Steps that the buffers have space for."""
        return self._notes.shape[1]

    def begin(self, first: Int[Tensor, " sources"] | int) -> None:
        """Start over: the tokens that each source begins with, or one for all."""
        if isinstance(first, Tensor):
            self.tokens.copy_(first.repeat_interleave(self.group))
        else:
            self.tokens.fill_(first)
        self.over.zero_()
        self.tops.zero_()

    def limit(self, limits: Sequence[int]) -> None:
        """The most tokens of each source in the next decode."""
        if self._limits != list(limits):
            self._limits = list(limits)
            self.limits.copy_(torch.tensor(self._limits, device="cpu"), non_blocking=True)

    def use_row_keys(self, row_keys: Int[Tensor, " sources"]) -> None:
        """The random keys of the next texts, for a search that draws."""
        raise TypeError(f"a {type(self).__name__} draws nothing")

    @abstractmethod
    def advance(
        self, logits: Float[Tensor, "rows vocabulary"], at: Int[Tensor, " 1"]
    ) -> Int[Tensor, "sources group"] | None:
        """Choose what follows at step `at`. The row of its source that each row continues; None: its own."""

    @abstractmethod
    def texts(self, places: Sequence[int]) -> list[list[Hypothesis]]:
        """The texts of these sources of the batch, best first. Waits for the device."""

    def limited(self, steps: int) -> bool:
        """Whether a source of the batch has reached its limit."""
        return min(self._limits, default=steps) <= steps

    def check(self, logits: Float[Tensor, "rows vocabulary"], step: int) -> None:
        """Refuse logits of this step from which nothing can be chosen. Waits for the device."""
        unusable = ~self.tops[step].isfinite()
        if bool(unusable.any()):
            row = int(unusable.nonzero()[0, 0])
            raise RegardError(f"step {step}, row {self.sources[row // self.group]}: {fault(logits[row])}")

    def keep(self, places: Sequence[int], *, step: int) -> None:
        """Continue with these sources of the batch alone, from this step on."""
        index = torch.tensor(places, dtype=torch.long, device=self.over.device)
        self._notes = self._notes[:, :, self.rows_of(index)]
        self._view_notes()
        self.tokens = self.tokens[self.rows_of(index)]
        self.limits, self.over = self.limits[index], self.over[index]
        self._limits = [self._limits[place] for place in places]
        self._moves = [[*self._moves[place], (step, new)] for new, place in enumerate(places)]
        self.sources = [self.sources[place] for place in places]

    def grow(self) -> None:
        """Twice the capacity, for a decode that is not captured."""
        self._notes = torch.cat([self._notes, torch.zeros_like(self._notes)], dim=1)
        self._view_notes()

    def rows_of(self, sources: Int[Tensor, " n"]) -> Int[Tensor, " rows"]:
        """All rows of some sources."""
        return (sources[:, None] * self.group + torch.arange(self.group, device=sources.device)).flatten()

    def _view_notes(self) -> None:
        self.written, self.tops = self._notes[0], self._notes[1].view(torch.float64)

    def _read(self) -> tuple[Int[Tensor, "capacity rows"], Float[Tensor, "capacity rows"]]:
        """What was written and how likely the likeliest was, on the host."""
        written, tops = self._notes.cpu()
        tops = tops.view(torch.float64)
        unusable = ~tops.isfinite()
        if bool(unusable.any()):
            step, row = unusable.nonzero().tolist()[0]
            raise RegardError(
                f"step {step}, row {self.sources[row // self.group]}: the model gave NaN or inf, or leaves nothing to "
                "choose from; decode in a wider dtype, or look at its weights and at that source"
            )
        return written, tops

    def _rows(self, place: int, within: Sequence[int]) -> list[int]:
        """The rows of the batch that a text was in: `within` its source, step by step."""
        rows = [0] * len(within)
        for start, moved in self._moves[place]:
            rows[start:] = [moved * self.group + one for one in within[start:]]
        if not self.parted:
            rows[:1] = [self._moves[place][0][1]]
        return rows


class SingleSearch(Search):
    """One text a source: greedy decoding, or sampling."""

    def __init__(
        self,
        limits: Sequence[int],
        *,
        capacity: int,
        device: torch.device | str,
        choose: Choice | None = None,  # None: the likeliest, of equals the first
    ) -> None:
        super().__init__(limits, group=1, capacity=capacity, device=device)
        self._choose = choose
        self._row_keys = torch.zeros(len(limits), dtype=torch.long, device=device)

    def advance(self, logits: Float[Tensor, "rows vocabulary"], at: Int[Tensor, " 1"]) -> None:
        """One token more for every text that is not over."""
        if self._choose is None and kernel_fits(logits):
            from regard.decoding.kernels.likeliest import likeliest

            likeliest(
                logits,
                at=at,
                most=self.limits,
                over=self.over,
                tokens=self.tokens,
                written=self.written,
                tops=self.tops,
            )
            return
        if self._choose is None:
            found, tokens = leading(logits, 1)
            logprob, chosen = found[:, 0], tokens[:, 0]
        else:
            chosen, logprob = self._choose(logits, self._row_keys, at)
        self.written.index_copy_(0, at, chosen[None])
        self.tops.index_copy_(0, at, logprob.double().masked_fill(self.over, 0.0)[None])
        self.over |= (chosen == END) | (self.limits <= at + 1)
        self.tokens.copy_(chosen.masked_fill(self.over, END))

    def keep(self, places: Sequence[int], *, step: int) -> None:
        """With their random keys."""
        super().keep(places, step=step)
        self._row_keys = self._row_keys[torch.tensor(places, dtype=torch.long, device=self._row_keys.device)]

    def use_row_keys(self, row_keys: Int[Tensor, " sources"]) -> None:
        """The random keys of the next texts."""
        self._row_keys.copy_(row_keys, non_blocking=True)

    def texts(self, places: Sequence[int]) -> list[list[Hypothesis]]:
        """One a source."""
        written, tops = self._read()
        index = torch.tensor(places, dtype=torch.long, device="cpu")
        found = []
        for place, text, total in zip(
            places, written.t()[index].tolist(), tops.sum(0)[index].tolist(), strict=True
        ):
            limit = self._limits[place]
            text[limit:] = [END]
            length = min(text.index(END) + 1, limit)
            finished = text[length - 1] == END
            rows, tokens = self._rows(place, [0] * length), text[: length - finished]
            one = Hypothesis(
                tokens=tokens, log_probability=total, ranking=total, finished=finished, rows=rows
            )
            found.append([one])
        return found
