"""Shapes in signatures are checked in every test; one thread, so that two test processes share two cores."""

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the commands that tests start, too

import jaxtyping
import pytest
import torch
from hypothesis import settings

jaxtyping.install_import_hook("regard", "shapes.checked")
torch.set_num_threads(1)
settings.register_profile("regard", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("regard")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--grid", action="store_true", help="hold the contracts over every case, not a pairwise sample"
    )
    parser.addoption(
        "--device", default="cpu", help="where tensors are made: cpu, or cuda on a machine that has one"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (
        config.getoption("--device") != "cpu"
    ):  # naming a device is a mode, which takes torch.nn off its fused path
        torch.set_default_device(config.getoption("--device"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20170612)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Without the check of shapes, which comes before our own messages: users do not have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
