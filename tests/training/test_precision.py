"""Which numbers products are computed in, and whether they are the same every time."""

import os
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from training.toys import plan

from regard.training.precision import chosen_precision, deterministic


@pytest.mark.parametrize(
    ("precision", "expected"), [("auto", "float32"), ("float32", "float32"), ("bfloat16", "bf16")]
)
def test_a_small_model_on_a_cpu_computes_in_bfloat16_only_when_asked(precision: str, expected: str) -> None:
    small = nn.Linear(8, 2000)
    assert chosen_precision(plan(precision=precision), torch.device("cpu"), small) == expected


@pytest.mark.parametrize("able", [True, False])
def test_a_wide_model_on_a_cpu_computes_in_bfloat16_where_the_cpu_can(
    able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    wide = nn.Sequential(nn.Linear(512, 2000), nn.Linear(2000, 512))
    chosen = chosen_precision(plan(precision="auto"), torch.device("cpu"), wide)
    assert chosen == ("bf16" if able else "float32")


@pytest.fixture
def as_before() -> Iterator[None]:
    known = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    flags = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = flags
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    if known is not None:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = known


@pytest.mark.usefixtures("as_before")
def test_what_torch_cannot_do_the_same_way_twice_is_refused() -> None:
    deterministic()
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in {":4096:8", ":16:8"}


@pytest.mark.usefixtures("as_before")
def test_a_workspace_that_somebody_chose_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    deterministic()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
