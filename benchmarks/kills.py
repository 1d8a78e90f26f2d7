"""Trainings that are killed and resumed, against one that was not: the files of both runs, to the bit.

    python benchmarks/kills.py --out benchmarks/results/kills.json

A training is the command line itself, in a forked process that loaded torch already. It is killed (SIGKILL) once, at a
chosen point of writing a chosen file or at a random moment, then resumed to its end (or started again, if it had
written no recipe yet). What is aimed at is found by replacing os.fsync and os.replace in the process that is to die.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sacrebleu.metrics  # noqa: F401
import torch
import torch._dynamo

import regard.training.experiment
import regard.training.observers  # noqa: F401
from regard.cli import main as command_line
from regard.sight.pictures import curves  # noqa: F401 (all is loaded before the forks)

FILES = (
    "recipe.yaml", "tokenizer.json", "generation_config.json", "data.json", "config.json", "SHA256SUMS",
    "step-00000006", "step-00000012", "best-", "model.safetensors", "metrics.json", "README.md", "curves.png",
)  # fmt: skip
POINTS = ("half written", "before renaming", "after renaming")
RECIPE = """
data: {kind: pairs, train: PAIRS, held_out: 0.1}
tokens: {size: 300}
model: {kind: transformer, width: 16, heads: 2, depth: 1, decoder_depth: 1, hidden_width: 16, dropout: 0.2}
training: {steps: 12, batch: 256, evaluate: 4, save: 3, warmup: 2, averaging: {last: 2}}
"""
Aim = Callable[[], None]


def die() -> None:
    """As if the power had gone."""
    os.kill(os.getpid(), signal.SIGKILL)


def aimed(name: str, point: str) -> Aim:
    """To die at a point of writing the first file whose name begins so."""

    def aim() -> None:
        fsync, replace = os.fsync, os.replace

        def dying_fsync(handle: int) -> None:
            written = Path(os.readlink(f"/proc/self/fd/{handle}")).name
            if point == "half written" and written.startswith(name):
                size = os.fstat(handle).st_size
                os.truncate(handle, size - 9 if name == "log.jsonl" else size // 2)
                die()
            fsync(handle)

        def dying_replace(source: Any, target: Any) -> None:
            ours = Path(target).name.startswith(name)
            if ours and point == "before renaming":
                die()
            replace(source, target)
            if ours and point == "after renaming":
                die()

        for function, dying in (("fsync", dying_fsync), ("replace", dying_replace)):
            setattr(os, function, dying)

    return aim


def life(arguments: list[str], *, aim: Aim | None = None, world: Mapping[str, str] | None = None) -> int:
    """Fork a process that runs a command of regard; its id."""
    child = os.fork()
    if child:
        return child
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.environ |= world or {}
    code = 1
    try:
        if aim is not None:
            aim()
        command_line(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a process ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Run:
    """One run folder, and the processes that train it."""

    def __init__(self, recipe: Path, path: Path, *, processes: int = 1) -> None:
        self.recipe, self.path, self.processes = recipe, path, processes

    def start(self, aim: Aim | None = None) -> list[int]:
        """Begin, or go on."""
        whole = ["train", str(self.recipe), "--out", str(self.path)]
        arguments = ["resume", str(self.path)] if (self.path / "recipe.yaml").exists() else whole
        arguments += ["--device", "cpu", "--threads", "1"]
        if self.processes == 1:
            return [life(arguments, aim=aim)]
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = str(one.getsockname()[1])
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(self.processes)}
        return [
            life(arguments, world={**places, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(self.processes)
        ]

    def finish(self) -> None:
        """To the end, without a kill."""
        codes = [ended(child) for child in self.start()]
        if any(codes):
            raise SystemExit(f"{self.path} was not finished: exit codes {codes}")

    def digest(self) -> str:
        """A digest of all files, without the times in them."""
        found = hashlib.sha256()
        for file in sorted(each for each in self.path.rglob("*") if each.is_file()):
            data = file.read_bytes()
            if file.name == "log.jsonl":
                data = re.sub(rb', "seconds": [0-9.]+', b"", data)
            if file.name == "README.md":
                data = re.sub(rb"- minutes: [0-9.]+", b"", data).replace(str(self.path).encode(), b"RUN")
                data = data.replace(self.path.name.encode(), b"RUN")
            found.update(file.relative_to(self.path).as_posix().encode() + b"\0" + data)
        return found.hexdigest()[:16]


def killed_at(run: Run, name: str, point: str) -> dict[str, object]:
    """Kill while a file is written, then finish."""
    [child] = run.start(aimed(name, point))
    code = ended(child)
    left = len(list(run.path.rglob("*.part")))
    run.finish()
    return {
        "file": name,
        "point": point,
        "ended by": code,
        "unfinished files left": left,
        "digest": run.digest(),
    }


def killed_after(run: Run, seconds: float) -> dict[str, object] | None:
    """Kill after some time, then finish; None if it was quicker."""
    children = run.start()
    time.sleep(seconds)
    for child in children:
        os.kill(child, signal.SIGKILL)
    codes = [ended(child) for child in children]
    steps = sorted((each.name.split("-")[1] for each in run.path.glob("checkpoints/step-*")), key=int)
    run.finish()
    if not any(codes):
        return None
    newest = int(steps[-1]) if steps else 0
    return {
        "after": round(seconds, 3),
        "newest checkpoint": newest,
        "ended by": codes,
        "digest": run.digest(),
    }


def several(recipe: Path, folder: Path, *, processes: int, count: int, rng: random.Random) -> dict[str, Any]:
    """Kills at random moments of a whole run's time."""
    whole = Run(recipe, folder / f"whole-{processes}", processes=processes)
    began = time.perf_counter()
    whole.finish()
    length, tries = time.perf_counter() - began, 0
    kills: list[dict[str, object]] = []
    while len(kills) < count:
        tries += 1
        run = Run(recipe, folder / f"random-{processes}-{tries}", processes=processes)
        kill = killed_after(run, rng.uniform(0.02, 1.0) * length)
        kills += [kill] if kill is not None else []
    return {"whole": whole.digest(), "kills": kills}


def main() -> None:
    """All kills; exits with 1 if a digest differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=17)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pairs = "".join(f"{i} little words\tund {i} mehr Wörter\n" for i in range(300))
        (folder / "pairs.tsv").write_text(pairs, "utf-8")
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE.replace("PAIRS", str(folder / "pairs.tsv")))
        aims = [(name, point) for name in FILES for point in POINTS] + [("log.jsonl", "half written")]
        written = [killed_at(Run(recipe, folder / f"aimed-{i}"), *aim) for i, aim in enumerate(aims)]
        alone = several(recipe, folder, processes=1, count=50 - len(written), rng=rng)
        pair = several(recipe, folder, processes=2, count=10, rng=rng)
    equal = [kill["digest"] == alone["whole"] for kill in [*written, *alone["kills"]]]
    equal_pair = [kill["digest"] == pair["whole"] for kill in pair["kills"]]
    result = {
        "one process": {
            "kills": len(equal),
            "equal": sum(equal),
            "aimed at a write": written,
            "at random": alone,
        },
        "two processes with dropout": {"kills": len(equal_pair), "equal": sum(equal_pair), "at random": pair},
        "torch": torch.__version__,
    }
    text = json.dumps(result, indent=1)
    if options.out is not None:
        options.out.write_text(text + "\n")
    sys.stdout.write(
        f"one process: {sum(equal)} of {len(equal)} equal; two: {sum(equal_pair)} of {len(equal_pair)} equal\n"
    )
    sys.exit(not (all(equal) and all(equal_pair)))


if __name__ == "__main__":
    main()
