"""The folder a training leaves behind, in the conventions people know, with the digests of its files. Nothing in it is pickled.

SHA256SUMS has one line per file, as `sha256sum -c SHA256SUMS` reads them. A bit that a disk or a copy flips in the weights
changes answers and raises no error; a digest detects it. The file lists what training wrote, except checkpoints, whose
names contain their digests. While a file is being replaced it has two lines, one for the old contents and one for the
new, so that a kill at any moment leaves a folder that can be read.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from regard.data.batches import END, PAD, START
from regard.data.file_access import LOCK, locked, opened, read_text, tidy, unfinished_in, write_atomically
from regard.data.given import parse_settings
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, warn
from regard.models.kind import Kind
from regard.models.kinds import KINDS
from regard.runs.checkpoints import Header, expanded, expanded_header, load_tensors, read_header
from regard.runs.recipe import Recipe, joined, parse, plain, resolve, written
from regard.runs.settings import Decoding

SUMS = "SHA256SUMS"
_LARGEST = 64 << 20  # bytes of a file that holds no tensors
SHIPPED = Path(__file__).parent.parent / "shipped"  # runs that come with the package
_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S[^\r\n]*)")


def shipped_names() -> list[str]:
    """The names of the runs that come with the package."""
    return sorted(recipe.parent.name for recipe in SHIPPED.glob("*/recipe.yaml"))


def located_run(path: str | os.PathLike[str]) -> Path:
    """The folder that a path means: the path itself or, where that is no run, the shipped run of that name."""
    if not (Path(path) / "recipe.yaml").exists() and str(Path(path)) in shipped_names():
        return SHIPPED / path
    return Path(path)


class Digests:
    """The digests of the files of a folder. A folder without SHA256SUMS, or a file without a line, is not checked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / SUMS

    def known(self) -> dict[str, list[str]]:
        """The digests by name: one, or two while a file was being replaced."""
        found: dict[str, list[str]] = {}
        if not os.path.lexists(self.path):
            return found
        for number, line in enumerate(read_text(self.path, within=self.folder).splitlines(), 1):
            if (match := _LINE.fullmatch(line)) is None:
                raise RegardError(
                    f"{self.path}:{number}: not a SHA-256 and a name; if the files beside it are as they should be, "
                    f"write it anew with `regard info {self.folder} --accept-changes`"
                )
            found.setdefault(match[2], []).append(match[1])
        return found

    def write(self, path: Path, contents: str | bytes) -> None:
        """Write a file of the folder, and its digest."""
        data = contents.encode() if isinstance(contents, str) else contents
        known, name, new = self.known(), path.name, hashlib.sha256(data).hexdigest()
        before = known.get(name, []) if path.exists() else []
        # The digest goes first, or a kill would leave a file that is not checked. Two kinds of file go before theirs:
        # the first of a folder, which makes it a run, and one that existed before it had a digest.
        if before or (known and not path.exists()):
            self._save({**known, name: [*before, *({new} - {*before})]})
        write_atomically(path, data)
        self._save({**known, name: [new]})

    def as_written(self, path: Path) -> bool:
        """Whether a file has the contents that were written, or no digest to tell by."""
        known = self.known().get(path.name)
        return known is None or self._found(path.name) in known

    def verified(self) -> list[tuple[str, str]]:
        """Every file that has a digest, with what became of it: as written, changed or missing."""
        return [(name, self._judged(name, digests)) for name, digests in self.known().items()]

    def accept(self, paths: Iterable[Path]) -> list[str]:
        """Take these files as they are now, and write their digests; the names of those that had other ones."""
        try:
            known = self.known()
        except RegardError:  # what is being replaced may be broken
            known = {}
        found = {path.name: [self._found(path.name)] for path in paths}
        self._save(found)
        return [name for name in found if name in known and known[name] != found[name]]

    def _judged(self, name: str, digests: list[str]) -> str:
        if not os.path.lexists(self.folder / name):
            return "missing"
        return "as written" if self._found(name) in digests else "changed"

    def _found(self, name: str) -> str:
        most = None if name.endswith(".safetensors") else _LARGEST
        with opened(self.folder / name, most=most, within=self.folder) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _save(self, known: dict[str, list[str]]) -> None:
        lines = [f"{digest}  {name}\n" for name in sorted(known) for digest in known[name]]
        write_atomically(self.path, "".join(lines))


class RunFolder:
    """Where everything about a run is. With `accept_changes`, weights and tokenizers that are not those that training
    wrote are read all the same. `kinds` are those of the user's own models, beside those of the library.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, accept_changes: bool = False, kinds: Sequence[Kind] = ()
    ) -> None:
        self.path, self.accept_changes, self.kinds = Path(path), accept_changes, joined(KINDS, kinds)
        self.digests = Digests(self.path)
        self.config = self.path / "config.json"
        self.weights = self.path / "model.safetensors"
        self.generation = self.path / "generation_config.json"
        self.recipe = self.path / "recipe.yaml"
        self.card = self.path / "README.md"
        self.log = self.path / "log.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.json"
        self.data = self.path / "data.json"

    @classmethod
    def new(cls, path: str | os.PathLike[str], *, overwrite: bool = False) -> "RunFolder":
        """An empty folder for a run. One that holds a run is refused, or cleared with `overwrite`."""
        run = cls(path)
        run._refuse_others()
        try:
            if run._holds_something():
                if not overwrite:
                    raise RegardError(
                        f"{run.path} holds a run: go on with it by `regard resume {run.path}`, choose another "
                        "folder with --out, or say --overwrite"
                    )
                run._clear()
            run.tidy()
            run.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise run._refused(error) from None
        return run

    @classmethod
    @contextmanager
    def claimed(cls, path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator["RunFolder"]:
        """An empty folder for a run, for this process alone to write into."""
        run = cls(path)
        run._refuse_others()  # first: nothing is written into a folder that is no run, not even a lock
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise run._refused(error) from None
        with locked(run.path):
            yield cls.new(path, overwrite=overwrite)

    @classmethod
    def existing(
        cls, path: str | os.PathLike[str], *, accept_changes: bool = False, kinds: Sequence[Kind] = ()
    ) -> "RunFolder":
        """A folder that a training left, finished or not; or, by its name, a run that comes with the package."""
        run = cls(located_run(path), accept_changes=accept_changes, kinds=kinds)
        if not run.path.is_dir():
            names = ", ".join(shipped_names())
            raise RegardError(
                f"{path}: no such run; a run is the folder that `regard train` writes, or comes with regard ({names})"
            )
        if not run.recipe.is_file():
            raise RegardError(f"{path} is not a run: it has no recipe.yaml")
        return run

    @property
    def is_shipped(self) -> bool:
        """Whether it is a part of the package, so that nothing may be written into it."""
        return self.path.resolve().parent == SHIPPED.resolve()

    def tidy(self) -> None:
        """Remove what killed processes had begun to write."""
        for folder in (self.path, self.checkpoints):
            tidy(folder)

    def tokenizer_path(self, side: str) -> Path:
        """Of the source (or both), `tokenizer.json`; of a target with a vocabulary of its own, beside it."""
        return self.path / ("tokenizer.json" if side == "source" else f"tokenizer.{side}.json")

    def save_tokenizers(self, tokenizers: Mapping[str, Tokenizer]) -> None:
        """By side: source, and target if it has its own."""
        for side, tokenizer in tokenizers.items():
            self.digests.write(self.tokenizer_path(side), tokenizer.to_json())

    def load_tokenizers(self) -> dict[str, Tokenizer]:
        """What save_tokenizers wrote."""
        sides = [side for side in ("source", "target") if os.path.lexists(self.tokenizer_path(side))]
        for side in sides:
            self._refuse_changed(self.tokenizer_path(side))
        return {side: Tokenizer.load(self.tokenizer_path(side), within=self.path) for side in sides}

    def save_recipe(self, recipe: Recipe) -> None:
        """Resolved: every setting spelled out."""
        self.digests.write(self.recipe, written(recipe))

    def load_recipe(self) -> Recipe:
        """The recipe of the run."""
        self._tell_changed(self.recipe)
        return resolve(parse(read_text(self.recipe, within=self.path), str(self.recipe)), self.kinds)

    def save_config(self, config: Any, labels: list[str] | None = None) -> None:
        """The model's config, and the names of its classes if it has any."""
        names = {} if labels is None else {"id2label": {str(i): label for i, label in enumerate(labels)}}
        self._write_json(self.config, {"model_type": f"regard-{config.KIND}", **plain(config), **names})

    def load_config(self) -> dict[str, Any]:
        """What save_config wrote."""
        return self._read_json(self.config)

    def load_labels(self) -> list[str] | None:
        """The names of the classes, if the model has any."""
        names = self.load_config().get("id2label")
        if names is None:
            return None
        if not isinstance(names, dict) or not all(isinstance(each, str) for each in names.values()):
            raise RegardError(
                f'{self.config}: id2label names no classes, as {{"0": "cat", "1": "dog"}} would'
            )
        return list(names.values())

    def save_generation(self, decoding: Decoding) -> None:
        """In the words of Hugging Face's generation_config.json, and our own where it has none."""
        self._write_json(
            self.generation,
            {
                "bos_token_id": START,
                "eos_token_id": END,
                "pad_token_id": PAD,
                "decoder_start_token_id": START,
                "num_beams": decoding.beam,
                "length_penalty": decoding.penalty,
                "max_new_tokens": decoding.tokens,
                "temperature": decoding.temperature,
                "top_k": decoding.top_k,
                "top_p": decoding.top_p,
                "longest": decoding.longest,
                "extra": decoding.extra,
                "most": decoding.most,
            },
        )

    def load_generation(self) -> dict[str, Any]:
        """What save_generation wrote, or what a user changed it to."""
        return self._read_json(self.generation)

    def save_weights(self, tensors: Mapping[str, Tensor]) -> None:
        """model.safetensors."""
        kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self.digests.write(self.weights, save(kept, {"format": "pt"}))

    def load_weights(self, device: str = "cpu") -> dict[str, Tensor]:
        """model.safetensors."""
        self._check_weights()
        self._refuse_changed(self.weights)
        found = expanded(load_tensors(self.weights, within=self.path))
        return {name: tensor.to(device) for name, tensor in found.items()}

    def weights_header(self) -> Header:
        """What model.safetensors says it holds; matrices in int8 are listed as the float32 that they become."""
        self._check_weights()
        try:
            return expanded_header(read_header(self.weights, within=self.path))
        except RegardError as error:
            raise RegardError(f"{self.weights}: {error}") from None

    def _check_weights(self) -> None:
        if not os.path.lexists(self.weights):
            raise RegardError(f"{self.path} has no model yet: finish it with `regard resume {self.path}`")

    def accept(self) -> list[str]:
        """Take the files as they are now; the names of those that are not as they were written."""
        if self.is_shipped:
            raise RegardError(f"{self.path} comes with regard: if a file of it changed, install regard anew")
        with locked(self.path):
            known = (self.recipe, self.config, self.generation, self.weights)
            return self.digests.accept(
                path
                for path in (*known, *(self.tokenizer_path(side) for side in ("source", "target")))
                if path.exists()
            )

    def _refuse_changed(self, path: Path) -> None:
        """Weights and tokenizers are not written by hand: one that changed is damaged, or was put there on purpose."""
        if not self.accept_changes and not self.digests.as_written(path):
            again = f"remove it and make it anew with `regard resume {self.path}`, " * (path == self.weights)
            raise RegardError(
                f"{path} is not the file that training wrote (its SHA-256 is not that in {SUMS}): take it from a copy, "
                f"{again}or, if it was changed on purpose, say `regard info {self.path} --accept-changes`"
            )

    def _tell_changed(self, path: Path) -> None:
        """Settings may be changed by hand: warn that they were."""
        if not self.accept_changes and path.exists() and not self.digests.as_written(path):
            warn(
                f"{path} was changed after training wrote it, and is used as it is now; to silence this warning, say "
                f"`regard info {self.path} --accept-changes`"
            )

    def _write_json(self, path: Path, values: object) -> None:
        self.digests.write(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")

    def _read_json(self, path: Path) -> dict[str, Any]:
        if not os.path.lexists(path):
            raise RegardError(f"{path.parent} has no {path.name}: the run was never started properly")
        self._tell_changed(path)
        return parse_settings(read_text(path, within=path.parent), path)

    def _holds_something(self) -> bool:
        """Anything but what a start that failed or was killed has left."""
        left = {
            *unfinished_in(self.path),
            *unfinished_in(self.checkpoints),
            self.checkpoints,
            self.path / LOCK,
        }
        return self.path.exists() and any(
            each not in left
            for folder in (self.path, self.checkpoints)
            if folder.exists()
            for each in folder.iterdir()
        )

    def _refuse_others(self) -> None:
        """What holds something and is no run is left alone, always."""
        try:
            if self._holds_something() and not self.recipe.exists():
                raise RegardError(f"{self.path} is not empty and is no run: choose another folder with --out")
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> RegardError:
        return RegardError(f"{self.path} cannot be written to ({error.strerror}): choose another --out")

    def _clear(self) -> None:
        """Remove what a run consists of, and nothing else that may be beside it. The recipe, by which a run is known,
        goes last: what is left by a kill on the way is still a run, and can be overwritten.
        """
        for pattern in (
            "config.json", "model.safetensors", "generation_config.json", "README.md", "log.jsonl",
            "attention.jsonl",
            "metrics.json", "data.json", "tokenizer*.json", "best.safetensors", "*.png", "*.svg", SUMS, "checkpoints/*", "recipe.yaml",
        ):  # fmt: skip
            for file in self.path.glob(pattern):
                if file.is_file():
                    file.unlink()
