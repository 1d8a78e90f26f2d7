"""Valid small files, changed at random, given to what reads them: only a RegardError may come out.

    python benchmarks/fuzzing.py --cases 100000 --seed 1

Bits are flipped, pieces cut, doubled and exchanged, and values of JSON replaced by odd ones. It runs in one process
with a limit on its memory, and the same seed makes the same cases. Exits with 1 and the first few cases that ended in
another way, each with its number: `--only NUMBER` runs that one again.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from runs.hostile_folders import png, valid_folder, wav  # type: ignore[import-not-found]

from regard.data.audio import judge_wav
from regard.data.given import parse_settings
from regard.data.idx import read_idx
from regard.data.images import Frame, judge_image
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.load import load
from regard.runs.recipe import parse, resolve
from regard.sight.seen import Seen

PADDED = 1 << 30  # bytes of memory beyond those of the beginning: cases are small, and leaks are seen
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "a",
    "x" * 300, "\x00", "\ud800", [], {}, [[]], [0], {"a": 1}, "transformer", "0", "1.0", "null",
]  # fmt: skip


def scrambled(data: bytes, draw: random.Random) -> bytes:
    """Bytes with one to four changes."""
    made = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(made) + 1) if made else 0
        match draw.randrange(6):
            case 0 if made:
                made[place % len(made)] ^= 1 << draw.randrange(8)
            case 1:
                del made[place : place + draw.choice((1, 2, 8, 64, len(made)))]
            case 2:
                made[place:place] = bytes(draw.randrange(256) for _ in range(draw.randint(1, 8)))
            case 3:
                made[place:place] = made[place : place + draw.choice((1, 4, 32))]
            case 4:
                made[place : place + 4] = draw.choice(
                    (b"\0\0\0\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f")
                )
            case _:
                other = draw.randrange(len(made) + 1)
                made[place : place + 8], made[other : other + 8] = (
                    made[other : other + 8],
                    made[place : place + 8],
                )
    return bytes(made)


def altered(value: Any, draw: random.Random) -> Any:
    """A JSON value with one part replaced, renamed, dropped or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice([*value])
        match draw.randrange(6):
            case 0:
                return {other: each for other, each in value.items() if other != key}
            case 1:
                return {**value, str(draw.choice(ODD))[:9]: value[key]}
            case _:
                return {**value, key: altered(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        match draw.randrange(4):
            case 0:
                return value[:place] + value[place + 1 :]
            case 1:
                return value + value[place:]
            case _:
                return [*value[:place], altered(value[place], draw), *value[place + 1 :]]
    return draw.choice(ODD)


def changed(data: bytes, draw: random.Random, *, as_json: bool) -> bytes:
    """One of the two."""
    if as_json and draw.random() < 0.6:
        value = json.loads(data)
        for _ in range(draw.randint(1, 3)):
            value = altered(value, draw)
        return json.dumps(value).encode("utf-8", "surrogatepass")
    return scrambled(data, draw)


class Targets:
    """What reads, each with a valid file."""

    def __init__(self, place: Path) -> None:
        self.place, self.run = place, place / "run"
        valid_folder(self.run)
        for sums in self.run.glob("SHA256SUMS"):
            sums.unlink()  # or everything would be refused by its digest
        self.valid = {name: (self.run / name).read_bytes() for name in self.files}
        self.recipe = parse(self.valid["recipe.yaml"].decode(), "recipe")
        self.wav, self.png = wav(data=bytes(range(100))), png(5, 3, data=bytes(18))
        self.idx = b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef"

    files = ("config.json", "generation_config.json", "recipe.yaml", "tokenizer.json", "model.safetensors",
             "seen.safetensors")  # fmt: skip

    def case(self, draw: random.Random) -> tuple[str, Callable[[], object]]:
        """What is read this time, and how."""
        name = draw.choice(("load", "recipe", "tokenizer", "tokenizer", "seen", "wav", "png", "idx", "json"))
        match name:
            case "load":
                file = draw.choice(("config.json", "generation_config.json", "model.safetensors"))
                data = changed(self.valid[file], draw, as_json=file.endswith("json"))
                return f"load, {file}", lambda: self._load(file, data)
            case "recipe":
                text = self.valid["recipe.yaml"]
                if draw.random() < 0.5:
                    values = altered(self.recipe, draw)
                    return name, lambda: resolve(values if isinstance(values, dict) else {})
                return name, lambda: resolve(parse(scrambled(text, draw).decode(errors="replace"), "recipe"))
            case "tokenizer":
                data = changed(self.valid["tokenizer.json"], draw, as_json=True)
                return name, lambda: Tokenizer.of_json(data.decode("utf-8", "replace")).encode("one two")
            case "seen":
                data = self._seen(draw)
                return name, lambda: self._look(data)
            case "wav":
                return name, lambda: judge_wav(scrambled(self.wav, draw))
            case "png":
                return name, lambda: judge_image(scrambled(self.png, draw), Frame(height=4, width=4))
            case "idx":
                data = scrambled(self.idx, draw)
                return name, lambda: self._idx(data)
            case _:
                data = changed(self.valid["config.json"], draw, as_json=True)
                said = data.decode("utf-8", "replace")
                return name, lambda: parse_settings(said, "x")

    def _load(self, file: str, data: bytes) -> None:
        try:
            (self.run / file).write_bytes(data)
            load(self.run, device="cpu")
        finally:
            (self.run / file).write_bytes(self.valid[file])

    def _seen(self, draw: random.Random) -> bytes:
        data = self.valid["seen.safetensors"]
        if draw.random() < 0.4:
            return scrambled(data, draw)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        told = json.loads(header["__metadata__"]["layers"])
        header["__metadata__"]["layers"] = json.dumps(altered(told, draw))
        text = json.dumps(header if draw.random() < 0.8 else altered(header, draw)).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + length :]

    def _look(self, data: bytes) -> None:
        (self.place / "seen").write_bytes(data)
        for layer in Seen.load(self.place / "seen"):
            layer.weights()

    def _idx(self, data: bytes) -> None:
        (self.place / "idx").write_bytes(data)
        read_idx(str(self.place / "idx"))


def main() -> int:
    """Run the cases; 1 where one ended in anything but an answer or a RegardError."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        targets = Targets(Path(name))
        status = Path("/proc/self/status")
        if status.exists():
            held = next(
                int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmData")
            )
            resource.setrlimit(resource.RLIMIT_DATA, ((held << 10) + PADDED, (held << 10) + PADDED))
        began = time.monotonic()
        for number in range(options.cases) if options.only is None else [options.only]:
            draw = random.Random(f"{options.seed} {number}")
            what, read = targets.case(draw)
            try:
                read()
                counts[f"{what}: answered"] += 1
            except RegardError as error:
                counts[f"{what}: refused"] += 1
                if "\n" in str(error):
                    failures.append(f"{number} {what}: a message of several lines: {error}")
            except BaseException as error:  # a panic of Rust is no Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                counts[f"{what}: {type(error).__name__}"] += 1
                failures.append(f"{number} {what}: {type(error).__name__}: {str(error)[:200]}")
        seconds = time.monotonic() - began
    for what, count in sorted(counts.items()):
        print(f"{count:8,} {what}")
    print(
        f"{sum(counts.values()):,} cases of seed {options.seed} in {seconds:.0f} s, {len(failures)} failures"
    )
    for failure in failures[:20]:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
