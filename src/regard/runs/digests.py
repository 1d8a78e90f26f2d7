"""The digests of a run: SHA256SUMS, one line a file, as `sha256sum -c SHA256SUMS` reads them.

A bit that a disk or a copy flips in the weights changes answers and raises no error; a digest detects it. The file lists
what training wrote, except checkpoints, whose names contain their digests. While a file is being replaced it has two
lines, one for the old contents and one for the new, so that a kill at any moment leaves a folder that can be read.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from regard.data.atomic import write_atomically
from regard.data.bounded import opened, read_text
from regard.errors import RegardError

SUMS = "SHA256SUMS"
_LARGEST = 64 << 20  # bytes of a file that holds no tensors
_LINE = re.compile(r"([0-9a-f]{64}) [ *](\S[^\r\n]*)")


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
