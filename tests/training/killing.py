"""Train in a process that is killed again and again, and resume. A program: `killing.py FOLDER SEED`.

It loads torch once, and forks: so every life costs only what it does. It prints how often it killed, as JSON.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from training.toys import Words, plan, toy, validation

from regard.runs import checkpoints
from regard.runs.settings import Training
from regard.training.loop import train
from regard.training.observers import Log
from regard.training.state import TrainingState

SETTINGS = {
    "random": plan(steps=50, save=2, evaluate=3, accumulate=2, ema=0.9, schedule="cosine", clip=1.0),
    "saving": plan(
        steps=50, save=2, evaluate=3, last=4, keep=1, schedule="inverse-square-root", weight_decay=0.1
    ),
}
Sabotage = Callable[[], None]


def live(folder: Path, settings: Training, sabotage: Sabotage | None = None) -> int:
    """Fork a process that trains to the end, if it is let; its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    signal.alarm(60)  # nobody waits for one that hangs
    try:
        torch.set_num_threads(1)
        if sabotage is not None:
            sabotage()
        outcome = train(
            toy(dropout=0.2),
            Words(),
            settings,
            folder=folder,
            seed=1,
            evaluate=validation,
            resume=True,
            observers=[Log(folder / "log.jsonl", clock=lambda: 0.0)],
        )
        safetensors.torch.save_file(dict(outcome.weights), folder / "final.safetensors")
        code = 0
    finally:
        os._exit(code)


def ended(child: int) -> int | None:
    """The signal that ended a process, or None if it came to its end."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, f"a training failed in {child}"
    return None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(when: str, save: int) -> Sabotage:
    """To die at this point of writing the n-th checkpoint."""
    saves = 0

    def sabotage() -> None:
        write, prune, replace, fsync = (
            checkpoints.write_checkpoint,
            checkpoints.remove_others,
            os.replace,
            os.fsync,
        )

        def counted_write(*arguments: Any, **options: Any) -> Any:
            nonlocal saves
            saves += 1
            made = write(*arguments, **options)
            if saves == save and when == "after":
                die()
            return made

        def watched_replace(*arguments: Any) -> None:
            if saves == save and when == "renaming":
                die()
            replace(*arguments)

        def watched_fsync(handle: int) -> None:
            if saves == save and when in {"halfway", "flushing"}:
                if when == "halfway":
                    os.truncate(handle, os.fstat(handle).st_size // 2)
                die()
            fsync(handle)

        def watched_prune(*arguments: Any) -> None:
            if saves >= save and when == "pruning":
                die()
            prune(*arguments)

        checkpoints.write_checkpoint, checkpoints.remove_others = counted_write, watched_prune
        os.replace, os.fsync = watched_replace, watched_fsync

    return sabotage


def killed_at_random(folder: Path, settings: Training, rng: random.Random) -> int:
    """Ten times or more, at any moment. How often."""
    began = time.perf_counter()
    assert ended(live(folder / "whole", settings)) is None
    whole, kills, rounds = time.perf_counter() - began, 0, 0
    while kills < 10:
        rounds += 1
        while True:
            child = live(folder / f"killed{rounds}", settings)
            time.sleep(rng.uniform(0, 0.25) * whole)
            os.kill(child, signal.SIGKILL)
            if ended(child) is None:
                break
            kills += 1
    return kills


def killed_while_saving(folder: Path, settings: Training, rng: random.Random) -> int:
    """At each point of saving. How often an unfinished file was left."""
    assert ended(live(folder / "whole", settings)) is None
    left_overs = 0
    for when in ["halfway", "flushing", "renaming", "after", "pruning"] * 2:
        assert ended(live(folder / "killed", settings, dying(when, rng.randint(1, 2)))) == signal.SIGKILL
        left_overs += bool(list((folder / "killed" / "checkpoints").glob("*.part")))
    assert ended(live(folder / "killed", settings)) is None
    return left_overs


def main(folder: Path, seed: int) -> None:
    torch.set_num_threads(1)
    TrainingState(toy(), plan())  # torch loads much of itself when the first optimiser is made
    kills = killed_at_random(folder / "random", SETTINGS["random"], random.Random(seed))
    left_overs = killed_while_saving(folder / "saving", SETTINGS["saving"], random.Random(seed))
    sys.stdout.write(json.dumps({"kills": kills, "left_overs": left_overs}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
