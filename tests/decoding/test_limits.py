"""How long a text may become."""

import pytest
import torch

from regard import RegardError
from regard.decoding.limits import per_row

CPU = torch.device("cpu")


def test_one_limit_is_everyones() -> None:
    assert per_row(5, 3, device=CPU).tolist() == [5, 5, 5]
    assert per_row(torch.tensor([2, 7]), 2, device=CPU).tolist() == [2, 7]


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (0, "a limit of 0 tokens"),
        (torch.tensor([3, -1]), "a limit of -1 tokens"),
        (torch.tensor([3, 4, 5]), r"shape \[3\] for 2 rows"),
        (torch.tensor([1.5, 2.0]), "float32"),
        (2.5, "limits=2.5: give a whole number"),
    ],
)
def test_a_limit_that_is_none_is_refused(limits: object, told: str) -> None:
    with pytest.raises(RegardError, match=told):
        per_row(limits, 2, device=CPU)  # type: ignore[arg-type]
