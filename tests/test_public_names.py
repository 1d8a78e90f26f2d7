"""`import regard` costs nothing and shows every public name."""

import ast
import subprocess
import sys
from inspect import get_annotations
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

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
    homes = {(f"regard.{home}", name) for home, names in regard._HOMES.items() for name in names}
    assert seen == homes | {("regard", room) for room in regard._ROOMS}


@pytest.mark.parametrize(
    "room", ["attention", "data", "decoding", "interop", "layers", "models", "runs", "sight"]
)
def test_every_room_is_an_attribute(room: str) -> None:
    code = f"import regard; print(regard.{room}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"regard.{room}"


@pytest.mark.parametrize(
    "room",
    [regard.data, regard.interop, regard.layers, regard.models, regard.runs, regard.training],
    ids=lambda room: room.__name__,
)
def test_a_room_shows_its_public_names(room: ModuleType) -> None:
    for name in room.__all__:
        assert hasattr(room, name)
    assert sorted(room.__all__) == sorted(set(room.__all__))


def test_every_kind_is_found_where_a_user_looks() -> None:
    for kind in regard.models.KINDS:
        for place in (regard, regard.models):
            assert getattr(place, kind.config.__name__) is kind.config
            assert getattr(place, kind.model.__name__) is kind.model  # type: ignore[attr-defined]


def test_what_computes_a_tensor_is_a_method() -> None:
    shown = [
        getattr(place, name) for place in (regard, regard.layers, regard.models) for name in place.__all__
    ]
    classes = {one for one in shown if isinstance(one, type) and not getattr(one, "_is_protocol", False)}
    properties = {
        f"{one.__name__}.{name}": str(get_annotations(member.fget)["return"])  # type: ignore[arg-type]
        for one in classes
        for name, member in vars(one).items()
        if isinstance(member, property)
    }
    assert "Call.groups" in properties
    assert {name: hint for name, hint in properties.items() if "Tensor" in hint} == {}


def test_loading_a_run_says_what_it_returns() -> None:
    assert get_type_hints(regard.load)["return"] is regard.Loaded


def test_importing_regard_imports_neither_torch_nor_numpy() -> None:
    code = "import sys, regard; print(sorted({'torch', 'numpy', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
