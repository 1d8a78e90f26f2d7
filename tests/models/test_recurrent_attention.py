"""The attention of a recurrent decoder: what it asks, and that it asks together."""

from typing import Any, get_args

import pytest
import torch

from regard import lengths, watch, weigh
from regard.attention.scores import ScoreName, make_score
from regard.models.recurrent_attention import Alignment


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("name", get_args(ScoreName))
def test_a_context_is_a_mean_of_states_by_the_written_weights(name: Any, projected: bool) -> None:
    alignment = Alignment(
        6, make_score(name, 6, 6, rank=2, hidden=6), memory_width=6, projected=projected
    ).double()
    states, asking, n = torch.randn(3, 7, 6).double(), torch.randn(3, 5, 6).double(), torch.tensor([7, 4, 1])
    states = states * (torch.arange(7) < n[:, None])[..., None]
    query = key = value = torch.eye(6).double()
    if projected:
        assert alignment.projection is not None
        query, key, value = alignment.projection.all.weight.chunk(3)
    expected = torch.stack(
        [
            weigh(a @ query.T, (s @ key.T)[:m], score=alignment.score) @ (s @ value.T)[:m]
            for a, s, m in zip(asking, states, n.tolist(), strict=True)
        ]
    )
    found = alignment(asking, alignment.remember(states), lengths(keys=n))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", get_args(ScoreName))
def test_rows_that_share_a_source_ask_it_together(name: Any) -> None:
    alignment = Alignment(6, make_score(name, 6, 6, rank=2, hidden=6), memory_width=6).double()
    states, asking, n = torch.randn(3, 7, 6).double(), torch.randn(6, 1, 6).double(), torch.tensor([7, 7, 7])
    memory = alignment.remember(states)
    with watch(alignment) as seen:
        together = alignment(asking, memory, lengths(keys=n))
    assert seen[0].shape == (3, 1, 2, 7)
    copied = alignment.remember(states.repeat_interleave(2, 0))
    torch.testing.assert_close(
        together, alignment(asking, copied, lengths(keys=n.repeat_interleave(2))), rtol=0, atol=1e-12
    )


def test_what_is_watched_can_be_saved_and_read_back(tmp_path: Any) -> None:
    alignment = Alignment(6, make_score("additive", 6, 6, rank=2, hidden=6), memory_width=6).double()
    with watch(alignment) as seen:
        alignment(
            torch.randn(3, 5, 6).double(),
            alignment.remember(torch.randn(3, 7, 6).double()),
            lengths(keys=torch.tensor([7, 4, 1])),
        )
    seen.save(tmp_path / "seen.safetensors")
    back = type(seen).load(tmp_path / "seen.safetensors")
    assert torch.equal(weigh(back[0].intact()), weigh(seen[0].intact()))
