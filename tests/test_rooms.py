"""The rooms of the house: imports point one way, files are small, names say what is in them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard

PACKAGE = Path(regard.__file__).parent
# From the top of the house to its foundations: a room may import those after it.
ROOMS = [
    "cli",
    "figures",
    "bench",
    "sight",
    "training",
    "runs",
    "decoding",
    "interop",
    "models",
    "layers",
    "attention",
    "data",
]
FILES = sorted(PACKAGE.rglob("*.py"))


def imported_rooms(file: Path) -> set[str]:
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {
        parts[1] for parts in (name.split(".") for name in names) if parts[0] == "regard" and len(parts) > 1
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down(file: Path) -> None:
    room = file.relative_to(PACKAGE).parts[0]
    if room not in ROOMS:
        return  # __init__ shows the public names of every room
    below = {*ROOMS[ROOMS.index(room) :], "errors", "__version__"}
    assert imported_rooms(file) <= below


def test_every_room_is_on_the_map() -> None:
    folders = {folder.name for folder in PACKAGE.iterdir() if folder.is_dir() and folder.name[0] != "_"}
    assert folders <= {*ROOMS, "recipes", "shipped"}  # recipes and shipped runs, which hold no code


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_file_holds_one_concept(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 400
    assert file.stem not in {"utils", "helpers", "common", "base", "misc"}


IMPORTS = """
import importlib, os, pkgutil, regard
before = dict(os.environ)
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    if ".kernels." not in module.name and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:  # an optional package that is not installed
            assert "regard" not in str(error.name), error
assert "torch" in __import__("sys").modules
changed = {name for name, _ in os.environ.items() ^ before.items()}
print(sorted(changed - {"TORCHINDUCTOR_CACHE_DIR"}))  # which torch sets
"""


@pytest.mark.slow
def test_importing_the_library_sets_no_environment_variable() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=900)
    assert (done.stdout, done.stderr) == ("[]\n", "")
