"""Whether Triton can be used is found out in one place."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import regard
from regard.attention.kernels import triton_available

PACKAGE = Path(regard.__file__).parent


def test_it_agrees_with_the_installed_distributions() -> None:
    try:
        installed = bool(version("triton"))
    except PackageNotFoundError:
        installed = False
    assert installed == triton_available.TRITON_INSTALLED


def test_no_other_file_asks_again() -> None:
    asking = {
        file.stem
        for file in PACKAGE.rglob("*.py")
        if any(form in file.read_text() for form in ['find_spec("triton', 'TRITON_INTERPRET"'])
    }
    assert asking == {"triton_available"}
