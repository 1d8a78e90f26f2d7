"""What a step of beam search does with its logits, as two Triton kernels: one goes over words, one over sentences."""

from typing import Protocol, no_type_check, runtime_checkable

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Int
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early
from regard.data.batches import END, START
from regard.decoding.kernels.likeliest import at_once, survey


@runtime_checkable
class Beams(Protocol):
    """The buffers of a beam search, which a step changes in place; see `BeamSearch`."""

    limits: Int[Tensor, " s"]
    over: Bool[Tensor, " s"]
    tokens: Int[Tensor, " rows"]
    written: Int[Tensor, "capacity rows"]
    tops: Float[Tensor, "capacity rows"]
    parents: Int[Tensor, "capacity s size"]
    live: Float[Tensor, "s size"]
    live_scores: Float[Tensor, "s size"]
    kept: Float[Tensor, "s count"]
    kept_scores: Float[Tensor, "s count"]
    kept_ends: Int[Tensor, "s count"]
    steps: Int[Tensor, " s"]
    divisors: Float[Tensor, " lengths"]  # of a log-probability, by the length of its text
    least: Float[Tensor, " s"]  # the same at the limit of each source
    penalty: float


@triton.jit
@no_type_check
def _leaders(
    LOGITS, AHEAD, AHEAD_TOKENS, row_step, words,
    EARLY: tl.constexpr, FIRST: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """The likeliest tokens of a row, best first, and of equals the first."""
    row = tl.program_id(0)
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    LOGITS += row.to(tl.int64) * row_step
    base, total, best, chosen = survey(LOGITS, words, FIRST, N)
    level = base + tl.log(total)
    tl.store(AHEAD + row * SIZE, best - level)
    tl.store(AHEAD_TOKENS + row * SIZE, chosen)
    for rank in range(1, SIZE):
        largest = tl.full([N], float("-inf"), tl.float32)
        place = tl.full([N], 0, tl.int32)
        for begin in range(0, words, N):
            columns = begin + tl.arange(0, N)
            logit = tl.load(LOGITS + columns, columns < words, float("-inf")).to(tl.float32)
            left = (logit < best) | ((logit == best) & (columns > chosen))
            better = left & (columns >= FIRST) & (logit > largest)
            largest = tl.where(better, logit, largest)
            place = tl.where(better, columns, place)
        best = tl.max(largest, 0)
        chosen = tl.min(tl.where(largest == best, place, words), 0)
        tl.store(AHEAD + row * SIZE + rank, best - level)
        tl.store(AHEAD_TOKENS + row * SIZE + rank, chosen)


@triton.jit
@no_type_check
def _grow(
    AHEAD, AHEAD_TOKENS, AT, LIMITS, OVER, TOKENS, WRITTEN, TOPS, PARENTS, LIVE, LIVE_SCORES,
    KEPT, KEPT_SCORES, KEPT_ENDS, STEPS, DIVISORS, LEAST, NEXT, words, sentences,
    EARLY: tl.constexpr, STOP: tl.constexpr, RISING: tl.constexpr, SIZE: tl.constexpr, COUNT: tl.constexpr,
    S: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The likeliest continuations of a sentence: which go on, which are kept, and whether it is over."""
    nobody: tl.constexpr = 9223372036854775807
    sentence = tl.program_id(0)
    slots = tl.arange(0, S)
    inside = slots < SIZE
    own = sentence * SIZE + slots
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    at = tl.load(AT)
    over = tl.load(OVER + sentence) != 0
    live = tl.load(LIVE + own, inside, float("-inf"))
    real = live > float("-inf")
    top = tl.load(AHEAD + own * SIZE, inside, 0.0)
    tl.store(TOPS + at * (sentences * SIZE) + own, tl.where(real & (over == 0), top, 0.0), inside)
    both = inside[:, None] & inside[None, :]
    ahead = tl.load(AHEAD + own[:, None] * SIZE + slots[None, :], both, float("-inf"))
    token = tl.load(AHEAD_TOKENS + own[:, None] * SIZE + slots[None, :], both, 0)
    total = tl.reshape(tl.where(real[:, None], ahead.to(tl.float64) + live[:, None], float("-inf")), (S * S,))
    # Of equals the first text, and of its continuations the first token.
    key = tl.reshape(slots[:, None].to(tl.int64) * words + token, (S * S,))
    logprob = tl.full([S], float("-inf"), tl.float64)
    chosen = tl.zeros([S], tl.int64)
    for slot in range(SIZE):
        largest = tl.max(total, 0)
        first = tl.min(tl.where(total == largest, key, nobody), 0)
        first = tl.where(first == nobody, 0, first)  # nothing but NaN, which `tops` shows
        total = tl.where(key == first, float("-inf"), total)
        logprob = tl.where(slots == slot, largest, logprob)
        chosen = tl.where(slots == slot, first, chosen)
    parent = chosen // words
    token = chosen % words
    length = at + 1
    score = logprob / tl.load(DIVISORS + length)
    ended = (token == STOP) & inside
    tl.store(WRITTEN + at * (sentences * SIZE) + own, token, inside)
    tl.store(PARENTS + at * (sentences * SIZE) + own, parent, inside)
    tl.store(NEXT + own, parent, inside)
    # What is kept: the best of what was and of what ends now; of equals the earlier.
    places = tl.arange(0, C)
    going = over == 0
    held = (places < COUNT) & going
    where_kept = sentence * COUNT + places
    old_scores = tl.load(KEPT_SCORES + where_kept, places < COUNT, float("-inf"))
    old = tl.load(KEPT + where_kept, places < COUNT, float("-inf"))
    old_ends = tl.load(KEPT_ENDS + where_kept, places < COUNT, 0)
    new_scores = tl.where(ended, score, float("-inf"))
    kept_scores = tl.full([C], float("-inf"), tl.float64)
    kept = tl.full([C], float("-inf"), tl.float64)
    kept_ends = tl.zeros([C], tl.int64)
    worst = tl.full([], float("-inf"), tl.float64)
    for place in range(COUNT):
        worst = tl.maximum(tl.max(old_scores, 0), tl.max(new_scores, 0))
        earlier = tl.min(tl.where(old_scores == worst, places, C), 0)
        later = tl.min(tl.where((new_scores == worst) & (earlier == C), slots, S), 0)
        of_old = places == earlier
        of_new = slots == later
        one = tl.maximum(
            tl.max(tl.where(of_old, old, float("-inf")), 0),
            tl.max(tl.where(of_new, logprob, float("-inf")), 0),
        )
        end = tl.max(tl.where(of_old, old_ends, 0), 0) + tl.max(tl.where(of_new, at * SIZE + slots, 0), 0)
        kept_scores = tl.where(places == place, worst, kept_scores)
        kept = tl.where(places == place, tl.where(worst > float("-inf"), one, float("-inf")), kept)
        kept_ends = tl.where(places == place, end, kept_ends)
        old_scores = tl.where(of_old, float("-inf"), old_scores)
        new_scores = tl.where(of_new, float("-inf"), new_scores)
    tl.store(KEPT_SCORES + where_kept, kept_scores, held)
    tl.store(KEPT + where_kept, kept, held)
    tl.store(KEPT_ENDS + where_kept, kept_ends, held)
    grown = tl.where(ended, float("-inf"), logprob)
    tl.store(LIVE + own, grown, inside & going)
    tl.store(LIVE_SCORES + own, tl.where(ended, float("-inf"), score), inside & going)
    alive = tl.where(going, grown, live) > float("-inf")
    tl.store(TOKENS + own, tl.where(alive, token, STOP), inside)
    tl.store(STEPS + sentence, tl.load(STEPS + sentence) + going.to(tl.int64))
    most = tl.load(LIMITS + sentence)
    if RISING:  # noqa: SIM108  # two loads, of which one is compiled
        least = tl.load(LEAST + sentence)
    else:
        least = tl.load(DIVISORS + length + 1)
    attainable = tl.max(grown, 0) / least
    over = over | (most <= length) | (worst >= attainable)
    tl.store(OVER + sentence, over.to(tl.int8))


def grow(logits: Float[Tensor, "rows words"], beams: Beams, at: Int[Tensor, " 1"]) -> Int[Tensor, "s size"]:
    """One token more for every text that is not over. Says from which text of its sentence each came."""
    (rows, words), (sentences, size), count = logits.shape, beams.live.shape, beams.kept.shape[1]
    ahead = torch.empty(rows, size, device=logits.device)
    tokens = torch.empty(rows, size, dtype=torch.int32, device=logits.device)
    parents = torch.empty(sentences, size, dtype=torch.long, device=logits.device)
    _leaders[(rows,)](
        logits, ahead, tokens, logits.stride(0), words,
        FIRST=START + 1, SIZE=size, N=at_once(words), num_warps=8, **early(logits.device),
    )  # fmt: skip
    _grow[(sentences,)](
        ahead, tokens, at, beams.limits, beams.over.view(torch.int8), beams.tokens, beams.written, beams.tops,
        beams.parents, beams.live, beams.live_scores, beams.kept, beams.kept_scores, beams.kept_ends, beams.steps,
        beams.divisors, beams.least, parents, words, sentences, STOP=END, RISING=beams.penalty >= 0, SIZE=size,
        COUNT=count, S=triton.next_power_of_2(size), C=triton.next_power_of_2(count), num_warps=1,
        **early(logits.device),
    )  # fmt: skip
    return parents
