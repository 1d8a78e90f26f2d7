"""The counter learns to count from labels alone, and looks where the answer is."""

import pytest
import torch
from models.samples import parameters_without_gradient
from torch import Tensor

from regard import watch
from regard.data.batches import Labelled
from regard.data.digit_counts import FIRST, CountFeed, count_samples
from regard.models.counter import Counter, CounterConfig


def trained(seed: int, *, steps: int = 700, rows: int = 256) -> Counter:
    torch.manual_seed(seed)
    model, feed = Counter(CounterConfig()), CountFeed(seed=seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        loss = model.loss(feed.batch(range(step * rows, (step + 1) * rows)))
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        optimiser.step()
        schedule.step()
    return model


def fresh() -> Labelled:
    return count_samples(20_000, seed=1_000)


def outweighed(weights: Tensor, tokens: Tensor) -> Tensor:
    """Per sample: the smallest weight on a 4 or a 2, over the largest on another digit; ∞ without either kind."""
    wanted = (tokens == FIRST + 4) | (tokens == FIRST + 2)
    least = weights.masked_fill(~wanted, float("inf")).amin(-1)
    return least / weights.masked_fill(wanted, 0.0).amax(-1)


@pytest.mark.usefixtures("as_a_user")  # hundreds of steps, each checked, would take a minute
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))])
def test_it_counts_and_looks_at_what_it_counts(seed: int) -> None:
    model, data = trained(seed), fresh()
    with torch.no_grad():
        right = model.predict(data.inputs).argmax(-1) == data.labels
        ratio = outweighed(model.weights(data.inputs), data.inputs.tokens)
    assert right.double().mean() >= 0.995
    assert (ratio >= 3).double().mean() >= 0.99


def test_the_answer_is_read_from_weights_and_values() -> None:
    model, data = Counter(CounterConfig()).double(), count_samples(7, seed=3)
    mean = torch.einsum("bn,bnv->bv", model.weights(data.inputs), model.values(data.inputs))
    expected = torch.log_softmax(model.reader(model.pooling.attention.output(mean)), -1)
    torch.testing.assert_close(model.predict(data.inputs), expected, rtol=0, atol=1e-12)
    picked = expected[torch.arange(7), data.labels]
    torch.testing.assert_close(model.loss(data).total, -picked.sum(), rtol=0, atol=1e-12)


def test_the_order_of_digits_does_not_matter() -> None:
    model, data = Counter(CounterConfig()).double(), count_samples(7, seed=3)
    before = model.predict(data.inputs)
    data.inputs.tokens[:] = data.inputs.tokens[:, torch.randperm(10)]
    torch.testing.assert_close(model.predict(data.inputs), before, rtol=0, atol=1e-12)


def test_its_attention_is_seen() -> None:
    model, data = Counter(CounterConfig()), count_samples(7, seed=3)
    with watch(model) as seen:
        model.predict(data.inputs)
    assert seen["pooling.attention"].shape == (7, 1, 1, 10)
    torch.testing.assert_close(seen["pooling.attention"].weights()[:, 0, 0], model.weights(data.inputs))


def test_the_gradient_reaches_every_parameter() -> None:
    model = Counter(CounterConfig())
    assert parameters_without_gradient(model, model.loss(count_samples(97, seed=3)).total) == []
