"""Small batches of prime sizes, and ways to run a model over them."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.data.batches import END, Images, Pairs, Sequences, Sounds
from regard.models.protocols import AnyModel, State
from regard.runs.recipe import build, plain

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def sequences(*lengths: int, vocabulary: int) -> Sequences:
    """Random sequences that end with END."""
    rows = [[*torch.randint(4, vocabulary, (n - 1,)).tolist(), END] for n in lengths]
    return Sequences.of(rows)


def pairs(*, source: int, target: int) -> Pairs:
    """Three sources of 7, 4 and 1 tokens and their targets of 2, 5 and 3."""
    return Pairs(sequences(7, 4, 1, vocabulary=source), sequences(2, 5, 3, vocabulary=target))


def images(count: int = 3, *, channels: int = 2, size: tuple[int, int] = (6, 10)) -> Images:
    """Random pictures."""
    return Images(torch.rand(count, channels, *size))


def sounds(*lengths: int) -> Sounds:
    """Random recordings, with room for some more padding."""
    counts = torch.tensor(lengths)
    samples = torch.rand(len(lengths), max(lengths) + 5) * 2 - 1
    return Sounds(torch.where(torch.arange(samples.shape[1]) < counts[:, None], samples, 0.0), counts)


def noisy(batch: Sounds, filling: float) -> Sounds:
    """The same recordings with something else in their padding."""
    real = torch.arange(batch.samples.shape[1]) < batch.lengths[:, None]
    return Sounds(torch.where(real, batch.samples, filling), batch.lengths)


def through_json(config: Any) -> Any:
    """A config as a run folder keeps it, and back."""
    return build(type(config), json.loads(json.dumps(plain(config))))


def refilled(batch: Sequences, vocabulary: int) -> Sequences:
    """Other tokens in the padding, and more of it."""
    width = batch.tokens.shape[1] + 2
    tokens = torch.randint(0, vocabulary, (len(batch), width))
    tokens[:, : batch.tokens.shape[1]][batch.real()] = batch.tokens[batch.real()]
    return Sequences(tokens, batch.lengths)


def stepped(model: AnyModel, state: object, inputs: Tensor) -> Tensor:
    """The logits of a decoder that is told its inputs one by one."""
    logits = []
    for tokens in inputs.unbind(1):
        now, state = model.step(tokens, state)
        logits.append(now)
    return torch.stack(logits, dim=1)


def shaken(model: AnyModule) -> AnyModule:
    """The model with some noise on every parameter: biases that begin at zero would hide what they are added to."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def parameters_without_gradient(model: nn.Module, loss: Tensor) -> list[str]:
    """The names of parameters that a loss does not reach."""
    model.zero_grad()
    loss.backward()
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]


Told = Callable[[int, list[int]], Tensor]  # the logits after these tokens, for a source


def follow(model: AnyModel, state: State, picks: list[list[int]], told: Told, *, vocabulary: int) -> float:
    """Pick rows and step with random tokens in turn; the largest distance from what each text alone is told."""
    texts: list[tuple[int, list[int]]] = [(row, []) for row in range(len(state.first))]
    worst = 0.0
    for turn, rows in enumerate(picks):
        state = state.pick(torch.tensor(rows))
        texts = [(texts[row][0], texts[row][1].copy()) for row in rows]
        tokens = state.first if turn == 0 else torch.randint(4, vocabulary, (len(rows),))
        for (_, text), token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        logits, state = model.step(tokens, state)
        for found, (source, text) in zip(logits, texts, strict=True):
            worst = max(worst, (found - told(source, text)).abs().max().item())
    return worst
