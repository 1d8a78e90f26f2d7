"""Shapes in signatures are checked in every test; one thread, so that two test processes share two cores."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

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


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> None:
    """Tests marked `gpu` need one."""
    if request.node.get_closest_marker("gpu") is not None and not torch.cuda.is_available():
        pytest.skip("there is no GPU")


@pytest.fixture(autouse=True)
def _kernels(request: pytest.FixtureRequest) -> None:
    """Tests marked `triton` need Triton, and a GPU or its interpreter; with REGARD_TRITON=required they must run."""
    if request.node.get_closest_marker("triton") is None:
        return
    missing = None
    if find_spec("triton") is None:
        missing = "Triton is not installed"
    elif os.environ.get("TRITON_INTERPRET") != "1" and request.config.getoption("--device") == "cpu":
        missing = "neither TRITON_INTERPRET=1 nor --device cuda"
    if missing and os.environ.get("REGARD_TRITON") == "required":
        pytest.fail(f"{missing}, and REGARD_TRITON says that kernels are tested")
    if missing:
        pytest.skip(missing)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Without the check of shapes, which comes before our own messages: users do not have it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
