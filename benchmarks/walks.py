"""How many files of the library a command passes through, found by a profiler: what a reader would have to open.

    python benchmarks/walks.py --out benchmarks/results/walks

Each walk is made twice: the first imports and warms up, the second is counted. A file counts if one of its functions is
called; a switch is a call from one file into another. Also: lines of code, and names of files and classes used twice.
"""

import argparse
import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import regard
from regard import MultiHeadAttention, attend, causal
from regard.cli import main as command

SOURCE = Path(regard.__file__).parent
PAIRS = [
    (f"the {a} {b} number {n}", f"le {b} {a} numéro {n}")
    for n in range(40)
    for a, b in (("red", "house"), ("old", "tree"))
]
SENTENCE = "the red house number 3"
SMALL = {
    "tokens.size": 300,
    "model.width": 32,
    "model.heads": 2,
    "model.depth": 1,
    "model.decoder_depth": 1,
    "model.hidden_width": 32,
    "training.steps": 4,
    "training.evaluate": 2,
    "training.save": 2,
}


class Walk:
    """The files that calls pass through while this is open."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.switches = 0

    def __enter__(self) -> "Walk":
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        here = _file(frame)
        if here is None:
            return
        self.files[here] += 1
        caller: FrameType | None = frame.f_back
        while caller is not None and _file(caller) is None:
            caller = caller.f_back
        self.switches += caller is not None and _file(caller) != here


def _file(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(f"{SOURCE}/") if name.startswith(f"{SOURCE}/") else None


def walked(what: Callable[[int], object]) -> Walk:
    """The second of two rounds."""
    what(0)
    with Walk() as walk:
        what(1)
    return walk


def said(*arguments: object) -> None:
    """Run a command in this process, and let it end well."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as wrong:
        try:
            command([str(argument) for argument in arguments])
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(wrong.getvalue()) from None


def train_on_pairs(folder: Path, number: int = 0) -> Path:
    """`regard train translate`, a few updates on a few pairs; the folder of the run."""
    table, out = folder / "pairs.tsv", folder / f"run-{number}"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), "utf-8")
    changes = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    said("train", "translate", "--set", f"data.train={table}", *changes, "--out", out, "--device", "cpu")
    return out


def walk_greedily(run: Path) -> Walk:
    """One sentence through `regard translate`, from text to text."""
    return walked(lambda _: said("translate", run, SENTENCE, "--beam", 1, "--device", "cpu"))


def walks(folder: Path) -> dict[str, Walk]:
    """Every walk, by its name."""
    run = folder / "run-0"
    x = torch.randn(2, 7, 32)
    heads = torch.randn(2, 4, 7, 8)
    module = MultiHeadAttention(32, 4).eval()
    return {
        "regard train translate, from TSV to weights": walked(lambda number: train_on_pairs(folder, number)),
        "regard translate, greedy": walk_greedily(run),
        "regard translate, beam 4": walked(
            lambda _: said("translate", run, SENTENCE, "--beam", 4, "--device", "cpu")
        ),
        "regard look --export": walked(
            lambda _: said("look", run, "the red house", "--export", folder / "page.html", "--device", "cpu")
        ),
        "one MultiHeadAttention.forward, causal": walked(lambda _: module(x, mask=causal())),
        "one attend, causal": walked(lambda _: attend(heads, heads, heads, causal())),
    }


def names() -> dict[str, Any]:
    """Lines of the library, and names of files and classes that stand for two things (verbs and mirrors left out)."""
    stems: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    lines = 0
    for path in sorted(SOURCE.rglob("*.py")):
        text, name = path.read_text("utf-8"), str(path.relative_to(SOURCE))
        lines += text.count("\n")
        if path.stem.startswith("__") or name.startswith(("cli/", "interop/")):
            continue
        stems[path.stem].append(name)
        for kind in _classes(ast.parse(text)):
            classes[kind].append(name)
    return {
        "lines": lines,
        "stems used twice": {stem: where for stem, where in stems.items() if len(where) > 1},
        "classes used twice": {kind: where for kind, where in classes.items() if len(where) > 1},
    }


def _classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def main() -> None:
    """Walk, count, write down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="without an ending: .json is written; left out, it prints")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = walks(Path(folder))
    record = {
        "walks": {
            name: {"files": len(walk.files), "switches": walk.switches, "calls": dict(walk.files)}
            for name, walk in found.items()
        },
        **names(),
    }
    for name, walk in found.items():
        print(f"{len(walk.files):4d} files {walk.switches:9,} switches  {name}")
    print(f"{record['lines']:,} lines, {len(record['stems used twice'])} stems and ", end="")
    print(f"{len(record['classes used twice'])} classes used twice")
    if chosen.out:
        chosen.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
