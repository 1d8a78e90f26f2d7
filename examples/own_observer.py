"""An observer of your own: prints how widely a model looks while it trains, without changing a bit of the training."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import nn

import regard
from regard.runs import find
from regard.sight.monitor import HeadRecord
from regard.training import Observer, Update, begin


class Looking(Observer):
    """Prints the entropy of a head's weights every so many updates, beside the evaluations."""

    def __init__(self, *, every: int) -> None:
        self.every, self.looking = every, ExitStack()

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        self.monitor = regard.Monitor(model, every=self.every, write=self.tell)
        print(f"{steps - step} updates to go")

    def stepping(self, step: int) -> None:
        self.looking.enter_context(self.monitor.at(step))  # around the forward pass

    def stepped(self, update: Update) -> None:
        self.looking.close()

    def tell(self, record: HeadRecord) -> None:
        print(f"step {record.step:<4} {record.module} looks {record.entropy:.1f} nats wide")

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        print(f"step {step:<4} accuracy {metrics['accuracy']:.0%}")

    def close(self) -> None:
        self.looking.close()  # also where a training ends badly


with TemporaryDirectory() as folder:
    recipe = find("counter", ["training.evaluate=350"])
    watched = begin(recipe, Path(folder, "watched"), observers=lambda run: [Looking(every=100)]).run
    alone = begin(recipe, Path(folder, "alone")).run
    print("the same bits:", watched.weights.read_bytes() == alone.weights.read_bytes())
