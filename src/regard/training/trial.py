"""A trial: how long an update of a training takes on this machine, with real batches, before any plan is made."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from regard.data.batches import Feed
from regard.data.prefetch import Prefetch
from regard.runs.load import build_model
from regard.runs.recipe import Recipe
from regard.training.distribution import BatchPlace, World, batch_order
from regard.training.state import TrainingState, decays
from regard.training.update import Updater

_WARM = {"cpu": 2, "cuda": 6}  # updates before the clock runs: kernels are chosen, graphs captured
_FEWEST = 3  # updates that are timed at least
_MOST = 400


@dataclass(frozen=True)
class Speed:
    """What a trial found."""

    seconds: float  # an update
    weights: int  # of the model
    products: int  # weights that multiply: without tables of embeddings


def try_out(recipe: Recipe, config: Any, feed: Feed[Any], device: torch.device, *, seconds: float) -> Speed:
    """Make updates of a model for about so many seconds. Nothing of them stays.

    The batches of the feed may be larger than those of the recipe: of each so many samples are taken as fill one.
    """
    torch.manual_seed(recipe.seed)
    model = build_model(config, recipe.kinds).to(device).train()
    weights = sum(weight.numel() for weight in model.parameters())
    multiplying = decays(model)
    products = sum(weight.numel() for name, weight in model.named_parameters() if name in multiplying)
    state = TrainingState(model, recipe.training)
    updater = Updater(state, recipe.training, world=World(device), seed=recipe.seed)
    warm, timed = _WARM.get(device.type, 2), 0
    began = start = time.perf_counter()
    for number, place in enumerate(islice(_smaller(feed, recipe.training.batch), _MOST), start=1):
        work = updater.prepare(feed, place)
        update, _ = updater.apply(work, updater.compute(work, stop=False))
        state.progress = replace(state.progress, step=update.step)
        timed = number - warm
        if timed == 0:
            start = time.perf_counter()
        if timed >= _FEWEST and time.perf_counter() - began >= seconds:
            break
    return Speed((time.perf_counter() - start) / max(timed, 1), weights, products)


def _smaller(feed: Feed[Any], batch: int) -> Iterator[BatchPlace]:
    """Batches of a feed cut down to those that fill a smaller one."""
    whole = budget_of(feed)
    for place in batch_order(feed, epoch=0, position=0):
        count = max(1, len(place.samples) * batch // whole)
        yield replace(place, samples=place.samples[:count])


def budget_of(feed: Feed[Any]) -> int:
    """The most tokens, or samples, of a batch."""
    if isinstance(feed, Prefetch):
        return budget_of(feed.feed)
    return int(feed.budget) if hasattr(feed, "budget") else int(getattr(feed, "rows", 1))


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """So many threads of the CPU, for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
