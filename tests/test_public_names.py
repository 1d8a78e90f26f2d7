"""`import regard` costs nothing and shows every public name."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard


@pytest.mark.parametrize("name", regard.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert (getattr(regard, name).__doc__ or "").strip()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        _ = regard.atend  # type: ignore[attr-defined]


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse(Path(regard.__file__).read_text())
    seen = {
        (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(f"regard.{home}", name) for home, names in regard._HOMES.items() for name in names}


def test_importing_regard_imports_neither_torch_nor_numpy() -> None:
    code = "import sys, regard; print(sorted({'torch', 'numpy', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
