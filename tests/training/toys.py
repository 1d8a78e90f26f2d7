"""A small model, and a small feed for it: all that the loop may know of either."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batches import PAD, Sequences
from regard.models.protocols import Loss
from regard.runs.settings import Averaging, Training
from regard.runs.tasks.prepared import AnsweredSample
from regard.training.observers import Observer, Outcome, Update

VOCABULARY = 11


class Toy(nn.Module):
    """Guesses each token from the one before it; the table is tied to the output."""

    def __init__(self, *, dropout: float = 0.0, spare: bool = False, counting: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 6)
        self.inner = nn.Linear(6, 6)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(6, VOCABULARY, bias=False)
        self.output.weight = self.table.weight
        if spare:
            self.spare = nn.Linear(2, 2)  # which the loss does not depend on
        self.counting = counting
        if counting:
            self.register_buffer(
                "batches", torch.zeros(())
            )  # seen in training; part of the weights that are kept

    def loss(self, batch: Sequences) -> Loss:
        if self.counting and self.training:
            self.batches += 1
        x = self.dropout(torch.tanh(self.inner(self.table(batch.tokens[:, :-1]))))
        after = batch.tokens[:, 1:]
        wrong = nn.functional.cross_entropy(
            self.output(x).flatten(0, 1), after.flatten(), ignore_index=PAD, reduction="sum"
        )
        count = (after != PAD).sum()
        right = ((self.output(x).argmax(-1) == after) & (after != PAD)).sum()
        return Loss(wrong, count, {"accuracy": right.to(wrong.dtype)})


class Words:
    """`count` sequences of 2 to 9 tokens, in shuffled batches of `size`; the last one of an epoch is smaller."""

    def __init__(self, count: int = 37, *, size: int = 5, seed: int = 3) -> None:
        rng = random.Random(seed)
        self.rows = [
            [rng.randrange(4, VOCABULARY) for _ in range(rng.randrange(2, 10))] for _ in range(count)
        ]
        self.size, self.seed = size, seed
        self.taken: list[int] = []

    def order(self, epoch: int) -> Sequence[Sequence[int]]:
        numbers = list(range(len(self.rows)))
        random.Random(f"{self.seed} {epoch}").shuffle(numbers)
        return [numbers[i : i + self.size] for i in range(0, len(numbers), self.size)]

    def batch(self, samples: Sequence[int]) -> Sequences:
        self.taken += samples
        return Sequences.of([self.rows[i] for i in samples])


@dataclass
class Notebook(Observer):
    """Writes down all it is told."""

    def __post_init__(self) -> None:
        self.updates: list[Update] = []
        self.evaluations: list[tuple[int, Mapping[str, float]]] = []
        self.notices: list[str] = []
        self.answers: list[tuple[int, Sequence[AnsweredSample]]] = []
        self.closed = False

    def stepped(self, update: Update) -> None:
        self.updates.append(update)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self.evaluations.append((step, metrics))

    def answered(self, step: int, samples: Sequence[AnsweredSample]) -> None:
        self.answers.append((step, samples))

    def noticed(self, message: str) -> None:
        self.notices.append(message)

    def finished(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def close(self) -> None:
        self.closed = True


def toy(**options: Any) -> Toy:
    torch.manual_seed(5)
    return Toy(**options)


def validation(model: nn.Module) -> dict[str, float]:
    assert isinstance(model, Toy)
    with torch.no_grad():
        loss = model.loss(Words(12, seed=99).batch(range(12)))
    return {
        "loss": float(loss.total / loss.count),
        "accuracy": float(loss.metrics["accuracy"] / loss.count),
    }


def plan(**changes: Any) -> Training:
    averaging = Averaging(last=changes.pop("last", 0), ema=changes.pop("ema", 0.0))
    short = {"steps": 12, "warmup": 3, "evaluate": 4, "save": 4}
    plain = {"learning_rate": 0.05, "schedule": "constant", "clip": 0.0, "weight_decay": 0.0}
    return Training(**{**short, **plain, "averaging": averaging, **changes})


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}
