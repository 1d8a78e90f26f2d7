"""Sources: the files that a run was trained on, to be recognised when it is resumed.

`data.json` in the run folder holds the size of each file and a digest of its contents; of a folder, the number of its
files and a digest of their names and sizes, for it may hold a million pictures.
"""

import glob
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.atomic import write_atomically
from regard.data.bounded import parse_settings, read_text
from regard.data.records import Parallel
from regard.runs.folder import RunFolder
from regard.runs.recipe import Recipe
from regard.runs.tasks.prepared import located


def keep_sources(run: RunFolder, recipe: Recipe) -> None:
    """Write `data.json`, unless the data is made rather than read."""
    found = sources_of(recipe)
    if found:
        write_atomically(run.data, json.dumps({"files": found}, indent=2, ensure_ascii=False) + "\n")


def changed_sources(run: RunFolder, recipe: Recipe) -> str | None:
    """Which files changed since the run began, in one line; None if none did, or nothing is known of them."""
    if not run.data.is_file():
        return None
    before = parse_settings(read_text(run.data, within=run.path), run.data).get("files")
    now = sources_of(recipe)
    if not isinstance(before, list) or before == now:
        return None
    if len(before) != len(now):
        return _said(f"{len(before)} files then, {len(now)} now")
    differ = [
        (then, each) for then, each in zip(before, now, strict=True) if _contents(then) != _contents(each)
    ]
    told = [f"{each['path']} ({_how(then, each)})" for then, each in differ]
    return (
        _said(", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")) if told else None
    )


def sources_of(recipe: Recipe) -> list[dict[str, Any]]:
    """What is known of every file, in the order of the recipe."""
    return [_of(path) for path in _paths(recipe)]


def _paths(recipe: Recipe) -> Iterator[Path]:
    folder = getattr(recipe.data, "folder", "")
    for part in ("train", "valid", "test"):
        for name in _names(getattr(recipe.data, part, None)):
            path = located(folder, name)
            there = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            yield from map(Path, there)


def _names(place: object) -> Iterator[str]:
    """The names in a place: none, one, two parallel ones, or several of these."""
    if isinstance(place, str):
        yield place
    elif isinstance(place, Parallel):
        for side in (place.source, place.target):
            yield from _names(side)
    elif isinstance(place, list | tuple):
        for each in place:
            yield from _names(each)


def _of(path: Path) -> dict[str, Any]:
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        listed = "".join(f"{each.relative_to(path)}\t{each.stat().st_size}\n" for each in files)
        return {"path": str(path), "files": len(files), "digest": _short(hashlib.sha256(listed.encode()))}
    with path.open("rb") as file:
        digest = _short(hashlib.file_digest(file, "sha256"))
        return {"path": str(path), "size": os.fstat(file.fileno()).st_size, "digest": digest}


def _short(digest: Any) -> str:
    return str(digest.hexdigest()[:16])


def _contents(source: dict[str, Any]) -> dict[str, Any]:
    """Without the path: a file may move."""
    return {name: value for name, value in source.items() if name != "path"}


def _how(then: dict[str, Any], now: dict[str, Any]) -> str:
    for unit, word in (("size", "bytes"), ("files", "files")):
        if unit in then and unit in now and then[unit] != now[unit]:
            return f"{then[unit]:,} {word} then, {now[unit]:,} now"
    return "other contents"


def _said(what: str) -> str:
    return f"the data changed since this run began: {what}; it goes on with what is there now"
