"""Files made to hang a machine, to fill its memory or to cause a traceback: each is a change to a valid one."""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save, save_file
from torch import Tensor

from regard import RegardError
from regard.data.audio import Recording, read_recording, wav_of
from regard.data.idx import read_idx
from regard.data.images import Frame, read_image
from regard.data.spoken import read_spoken_digits
from regard.data.text_lines import read_lines
from regard.data.tokenizer import Tokenizer
from regard.models.transformer import TransformerConfig
from regard.runs.checkpoints import found, write_checkpoint
from regard.runs.describing import describe_run
from regard.runs.folder import RunFolder
from regard.runs.load import build_model, load
from regard.runs.recipe import find, plain, resolve
from regard.runs.settings import Training
from regard.sight.seen import Seen
from regard.training.state import TrainingState

Change = Callable[[Path], object]
LINES = ["one two three", "four five", "six seven eight nine"]


@dataclass(frozen=True)
class Hostile:
    """A change to a valid folder, and what is then asked of it."""

    name: str
    asked: str  # one of ASKED
    change: Change


def model_config() -> TransformerConfig:
    return TransformerConfig(
        width=8,
        heads=2,
        depth=1,
        decoder_depth=1,
        hidden_width=12,
        source_vocabulary=280,
        target_vocabulary=280,
    )


def valid_folder(path: Path) -> None:
    """A run, as training leaves it, and beside it one file of each other kind."""
    run = RunFolder(path)
    run.checkpoints.mkdir(parents=True)
    config = model_config()
    values = {
        "data": {"kind": "numbers", "train": 60, "valid": 5, "test": 5},
        "model": plain(config),
        "training": {"steps": 4, "batch": 64},
    }
    torch.manual_seed(1)
    model = build_model(config)
    run.save_recipe(resolve(values))
    run.save_tokenizers({"source": Tokenizer.train(LINES, size=280)})
    run.save_config(config)
    run.save_generation(resolve(values).decoding)
    save_file(
        {name: each.contiguous() for name, each in model.state_dict().items()}, run.weights, {"format": "pt"}
    )
    log = [
        {"event": "update", "step": 4, "loss": 1.5},
        {"event": "evaluation", "step": 4, "metrics": {"loss": 1.0}},
    ]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in log))
    run.metrics.write_text(json.dumps([{"name": "bleu", "value": 3.5, "signature": "x"}]))
    state = TrainingState(model, Training())
    write_checkpoint(run.checkpoints, 4, state.tensors(), about={**asdict(state.progress), "step": 4})
    query = torch.randn(1, 2, 3, 4)
    told = {"name": "a", "query": "0", "key": "1", "mask": {"causal": None}, "bias": None,
            "score": {"name": "ScaledDot", "weights": {}}, "scale": 1.0}  # fmt: skip
    write_seen(path, [told], {"0": query, "1": torch.randn(1, 2, 3, 4)})
    (path / "sound.wav").write_bytes(wav_of(Recording(torch.zeros(100), 8000)))
    (path / "text.txt").write_text("a\nb\n")


def load_and_ask(path: Path) -> None:
    loaded = load(path, device="cpu")
    loaded.translate(["one two"])


def go_on(path: Path) -> None:
    torch.manual_seed(1)
    TrainingState(build_model(model_config()), Training()).restore(found(path / "checkpoints")[-1])


def look(path: Path) -> None:
    for layer in Seen.load(path / "seen.safetensors"):
        layer.weights()


ASKED: dict[str, Callable[[Path], object]] = {
    "load": load_and_ask,
    "info": describe_run,
    "recipe": lambda path: find(str(path / "recipe.yaml")),
    "resume": go_on,
    "seen": look,
    "tokenizer": lambda path: Tokenizer.load(path / "tokenizer.json").encode("a" * 40 + "!"),
    "sound": lambda path: read_recording(str(path / "sound.wav")).at(16_000),
    "picture": lambda path: read_image(str(path / "picture.png"), Frame(height=8, width=8)),
    "idx": lambda path: read_idx(str(path / "images.idx")),
    "lines": lambda path: sum(len(line) for line in read_lines(str(path / "text.txt"))),
    "spoken": lambda path: read_spoken_digits(str(path / "spoken.zip")),
}


def outcome(asked: str, path: Path) -> str:
    """What came of it: "answered", "refused: …" in one line, or what else was raised."""
    try:
        ASKED[asked](path)
        return "answered"
    except RegardError as error:
        return f"refused: {error}" if "\n" not in str(error) else f"refused in several lines: {error}"
    except BaseException as error:  # a panic of Rust is no Exception
        return f"{type(error).__name__}: {str(error)[:200]}"


# What changes are made of.


def holds(name: str, data: bytes | str | Callable[[], bytes]) -> Change:
    def change(path: Path) -> None:
        made = data() if callable(data) else data
        (path / name).write_bytes(made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass"))

    return change


def edited(name: str, **changes: Any) -> Change:
    """A JSON file with some values changed; `a__b` is b in a."""

    def change(path: Path) -> None:
        values = json.loads((path / name).read_text())
        for key, value in changes.items():
            *above, last = key.split("__")
            inner = values
            for part in above:
                inner = inner[part]
            inner[last] = value
        (path / name).write_text(json.dumps(values))

    return change


def replaced(name: str, make: Callable[[Path], object]) -> Change:
    def change(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return change


def sparse(size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def in_recipe(old: str, new: str) -> Change:
    def change(path: Path) -> None:
        text = (path / "recipe.yaml").read_text()
        assert old in text, old
        (path / "recipe.yaml").write_text(text.replace(old, new, 1))

    return change


def with_header(header: bytes, size: int | None = None, length: int | None = None) -> Change:
    """model.safetensors with this header, followed by so many bytes of tensors."""

    def change(path: Path) -> None:
        with (path / "model.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(header) if length is None else length) + header)
            if size is not None:
                file.truncate(8 + len(header) + size)

    return change


def weights(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Change:
    def made(path: Path) -> None:
        kept = change(dict(build_model(model_config()).state_dict()))
        (path / "model.safetensors").write_bytes(
            save({name: each.contiguous() for name, each in kept.items()})
        )

    return made


def checkpoint(change: Callable[[dict[str, Tensor], dict[str, Any]], object], about: Any = None) -> Change:
    """A newer checkpoint whose digest is right and whose contents are not."""

    def made(path: Path) -> None:
        torch.manual_seed(1)
        state = TrainingState(build_model(model_config()), Training())
        for parameter in state.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        state.optimiser.step()
        tensors = {name: each.clone() for name, each in state.tensors().items()}
        told = {**asdict(state.progress), "step": 8}
        change(tensors, told)
        write_checkpoint(path / "checkpoints", 8, tensors, about=told if about is None else about)

    return made


def write_seen(path: Path, told: Any, tensors: dict[str, Tensor], **about: str) -> None:
    metadata = {"format": "regard seen 1", "layers": json.dumps(told), **about}
    (path / "seen.safetensors").write_bytes(save(tensors, metadata))


def seen(tensors: dict[str, Tensor] | None = None, **changes: Any) -> Change:
    def made(path: Path) -> None:
        told = {"name": "a", "query": "0", "key": "1", "mask": None, "bias": None,
                "score": {"name": "ScaledDot", "weights": {}}, "scale": 1.0}  # fmt: skip
        held = {
            "0": torch.randn(1, 2, 3, 4),
            "1": torch.randn(1, 2, 5, 4),
            "2": torch.ones(2, dtype=torch.long),
        }
        write_seen(path, [{**told, **changes}], {**held, **(tensors or {})})

    return made


def seen_about(**about: str) -> Change:
    return lambda path: write_seen(path, [], {"0": torch.ones(1)}, **about)


def wav(
    rate: int = 8000,
    channels: int = 1,
    bits: int = 16,
    kind: int = 1,
    data: bytes = bytes(100),
    size: int | None = None,
) -> bytes:
    head = struct.pack("<HHIIHH", kind, channels, rate, rate, channels * bits // 8 % 65536, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def png(width: int, height: int, depth: int = 8, data: bytes = b"") -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def zipped(entries: dict[str, bytes]) -> Change:
    def made(path: Path) -> None:
        with zipfile.ZipFile(path / "spoken.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in entries.items():
                file.writestr(name, data)

    return made


def fifo(name: str) -> Change:
    return replaced(name, lambda path: os.mkfifo(path))


def link(name: str, to: str) -> Change:
    return replaced(name, lambda path: path.symlink_to(to))
