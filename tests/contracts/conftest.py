"""Hands the cases of the grid to the contracts: a pairwise sample, or all of them with --grid."""

import pytest
from contracts.cases import every_case, pairwise


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    wanted = getattr(metafunc.function, "wanted", lambda case: True)
    cases = [case for case in every_case() if wanted(case)]
    cases = cases if metafunc.config.getoption("--grid") else pairwise(cases)
    metafunc.parametrize("case", cases, ids=str)
