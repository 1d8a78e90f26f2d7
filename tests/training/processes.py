"""Train with several processes on this machine. A program: `processes.py FOLDER`, which leaves weights and samples."""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from training.toys import Notebook, Words, plan, toy, validation

from regard.errors import RegardError
from regard.training.loop import train
from regard.training.observers import Observer, Update
from regard.training.state import TrainingState


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


class StopAt(Observer):
    def __init__(self, step: int) -> None:
        self.step = step

    def stepping(self, step: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def together(
    folder: Path, name: str, *, size: int, rows: int = 5, stop: int = 0, fails: bool = False, **changes: Any
) -> None:
    """Fork processes as torchrun would start them, and wait for them."""
    port, children = free_port(), []
    for rank in range(size):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        code = 1
        signal.alarm(60)  # nobody waits for one that hangs
        try:
            one(folder, name, rank, rows=rows, stop=stop, **changes)
            code = 0
        except RegardError as error:
            (folder / f"{name}-{rank}.error").write_text(str(error))
            code = 0 if fails else 1
        finally:
            os._exit(code)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0, name


def one(folder: Path, name: str, rank: int, *, rows: int, stop: int, **changes: Any) -> None:
    """What one process does."""
    run, resume, poison = changes.pop("run", name), changes.pop("resume", False), changes.pop("poison", False)
    made = {option: changes.pop(option) for option in ("spare", "dropout", "counting") if option in changes}
    model, feed, notes = toy(**made).double(), Words(23, size=rows), Notebook()
    if rank:  # all begin with the first one's weights, whatever they had
        torch.nn.init.zeros_(model.inner.weight)
    if poison and rank == 1:
        model.loss = lambda batch, loss=model.loss: _poisoned(loss(batch))  # type: ignore[method-assign]
    outcome = train(
        model,
        feed,
        plan(**changes),
        folder=folder / run,
        seed=1,
        evaluate=validation,
        observers=[notes, StopAt(stop)],
        resume=resume,
    )
    safetensors.torch.save_file(dict(outcome.weights), folder / f"{name}-{rank}.safetensors")
    told = {
        "taken": feed.taken,
        "stopped": outcome.stopped,
        "step": outcome.step,
        "kind": outcome.kind,
        "metrics": outcome.metrics,
        "updates": [_line(update) for update in notes.updates],
    }
    (folder / f"{name}-{rank}.json").write_text(json.dumps(told))


def _line(update: Update) -> list[float]:
    return [update.step, update.epoch, update.total, update.count, update.metrics["accuracy"], update.norm]


def _poisoned(loss: Any) -> Any:
    return type(loss)(loss.total * float("nan"), loss.count, loss.metrics)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    TrainingState(toy(), plan())
    together(folder, "alone", size=1)
    together(folder, "pair", size=2)
    together(folder, "pair-in-parts", size=2, accumulate=2)
    together(folder, "three", size=3, last=2, spare=True, weight_decay=0.1)
    together(folder, "alone-last", size=1, last=2, spare=True, weight_decay=0.1)
    together(folder, "alone-best", size=1, patience=1, evaluate=2, learning_rate=0.5, ema=0.5)
    together(folder, "pair-best", size=2, patience=1, evaluate=2, learning_rate=0.5, ema=0.5)
    together(folder, "alone-single-rows", size=1, rows=1)
    together(folder, "pair-single-rows", size=2, rows=1, accumulate=2)
    together(folder, "stopped", size=2, stop=5, run="halves")
    together(folder, "resumed", size=3, resume=True, run="halves")
    for size in (2, 3):
        noisy = {"size": size, "rows": 7, "dropout": 0.3, "counting": True, "accumulate": 2, "save": 2}
        together(folder, f"noisy-{size}", **noisy)
        together(folder, f"noisy-{size}-stopped", stop=5, run=f"noisy-{size}-halves", **noisy)
        together(folder, f"noisy-{size}-resumed", resume=True, run=f"noisy-{size}-halves", **noisy)
    together(folder, "poisoned", size=2, poison=True, fails=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
