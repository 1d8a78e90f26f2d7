"""What the package needs beside its Python files is in the wheel."""

import subprocess
import tomllib
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).parents[1]


def test_every_file_of_the_package_that_is_not_python_is_package_data() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git cannot say which files are kept")
    listed = subprocess.run(
        ["git", "ls-files", "src/regard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    built = (".py", ".c", ".h")  # packages are found by themselves, C sources become kernels.so (setup.py)
    kept = [PurePath(each).relative_to("src/regard") for each in listed if not each.endswith(built)]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    patterns = [
        (PurePath(name.replace(".", "/")), each) for name, globs in settings.items() for each in globs
    ]
    left_out = [
        str(file)
        for file in kept
        if not any(
            ("regard" / file).match(str(folder / pattern)) and len(file.parts) == len(PurePath(pattern).parts)
            for folder, pattern in patterns
        )
    ]
    assert len(kept) > 20
    assert left_out == []
