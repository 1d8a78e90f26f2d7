"""Attention during training: a few numbers per head, every so many steps."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from regard.data.file_access import write_atomically
from regard.errors import RegardError
from regard.sight.watch import watch
from regard.training.observers import Observer, Update


@dataclass(frozen=True, kw_only=True)
class HeadRecord:
    """One head of one module at one step: how widely it looks, and how much of its mass one key receives."""

    step: int
    module: str
    head: int
    entropy: float  # nats, averaged over the queries
    sink: float  # the largest share of all mass that a single key received, averaged over the batch


class Monitor:
    """Writes a record of every head at every `every`-th step, and costs nothing at the others.

        monitor = Monitor(model, every=100, write=log)
        for step, batch in enumerate(batches):
            with monitor.at(step):
                loss = model(batch)

    The calls are summarised at once and dropped; the step itself is the same to the bit.
    """

    def __init__(self, model: nn.Module, *, every: int, write: Callable[[HeadRecord], None]) -> None:
        if every < 1:
            raise RegardError(f"Monitor(every={every}): every step is the most there is, every=1")
        self.model, self.every, self.write = model, every, write

    @contextmanager
    def at(self, step: int) -> Iterator[None]:
        """Around the forward pass of a step."""
        if step % self.every:
            yield
            return
        with watch(self.model, keep="evidence", ask=("entropy", "received")) as seen:
            yield
        for layer in seen:
            if not layer.understood:
                continue  # `watch` has warned of it
            share = layer.received() / layer.received().sum(-1, keepdim=True).clamp_min(1e-12)
            heads = layer.shape[-3] if len(layer.shape) > 2 else 1
            numbers = torch.stack([layer.entropy().mean(-1), share.amax(-1)]).reshape(2, -1, heads).mean(1)
            for head, (entropy, sink) in enumerate(numbers.T.tolist()):  # one transfer a layer
                self.write(HeadRecord(step=step, module=layer.name, head=head, entropy=entropy, sink=sink))


class AttentionLog(Observer):
    """A monitor that plugs into training: a line of JSON for every head, at every `every`-th update."""

    def __init__(self, path: Path, *, every: int) -> None:
        self.path, self.every = path, every
        self._monitor: Monitor | None = None
        self._step = ExitStack()

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Watch this model. Records of updates that will be made again are removed."""
        self._monitor = Monitor(model, every=self.every, write=self._write)
        if self.path.exists():
            kept = [
                line
                for line in self.path.read_text("utf-8").splitlines(keepends=True)
                if _step_of(line) <= step
            ]
            write_atomically(self.path, "".join(kept))

    def stepping(self, step: int) -> None:
        """The forward pass of an update comes next."""
        if self._monitor is not None:
            self._step.enter_context(self._monitor.at(step))

    def stepped(self, update: Update) -> None:
        """It is over."""
        self._step.close()

    def close(self) -> None:
        """Nothing stays watched after a training that broke off."""
        broken = RegardError("the update was not finished")
        self._step.__exit__(type(broken), broken, None)

    def _write(self, record: HeadRecord) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            raise RegardError(f"{self.path} cannot be written ({error.strerror})") from None


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError):
        return float("inf")  # a line that was being written when the process was killed
