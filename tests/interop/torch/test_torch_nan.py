"""A query that may look at nothing: 0 by default, and inside strict_nan() whatever torch says."""

import contextvars
from typing import Any

import pytest
import torch
from torch import nn

from regard.interop import torch as ours

X = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(1))
BLIND: dict[str, dict[str, Any]] = {
    "a padded sequence": {
        "key_padding_mask": torch.tensor([[False] * 4, [True] * 4, [True, False, True, True]])
    },
    "a float padding": {"key_padding_mask": torch.zeros(3, 4).index_fill(0, torch.tensor(1), -torch.inf)},
    "a hidden row": {"attn_mask": torch.eye(4).bool().logical_not().index_fill(0, torch.tensor(2), True)},
    "a float row": {"attn_mask": torch.zeros(4, 4).index_fill(0, torch.tensor(2), -torch.inf)},
    "one head": {"attn_mask": torch.zeros(6, 4, 4).bool().index_fill(0, torch.tensor(3), True)},
    "both together": {
        "attn_mask": torch.ones(4, 4).triu(1).bool(),
        "key_padding_mask": torch.tensor(
            [[True, False, False, False], [False] * 4, [True, True, False, False]]
        ),
    },
}


def modules() -> tuple[nn.Module, nn.Module]:
    mine, torchs = (
        ours.MultiheadAttention(8, 2, batch_first=True),
        nn.MultiheadAttention(8, 2, batch_first=True),
    )
    mine.load_state_dict(torchs.state_dict())
    return mine, torchs


@pytest.mark.parametrize("case", BLIND)
def test_zeros_by_default_and_finite_gradients(case):
    mine, torchs = modules()
    x = X.clone().requires_grad_()
    wanted, wanted_weights = torchs(X, X, X, **BLIND[case], average_attn_weights=False)
    output, weights = mine(x, x, x, **BLIND[case], average_attn_weights=False)
    blind = wanted_weights.isnan().any(-1)
    assert blind.any()
    assert (weights[blind] == 0).all()
    torch.testing.assert_close(weights[~blind], wanted_weights[~blind])
    blind_rows = wanted.isnan().any(-1)
    torch.testing.assert_close(output[~blind_rows], wanted[~blind_rows])
    if case != "one head":  # of all heads nothing but the bias of the projection is left
        assert torch.equal(output[blind_rows], mine.out_proj.bias.expand_as(output)[blind_rows])
    (output.square().sum() + weights.square().sum()).backward()
    assert all(torch.isfinite(part.grad).all() for part in (x, *mine.parameters()))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("case", BLIND)
def test_strict_nan_is_what_torch_gives(case, need_weights, average):
    mine, torchs = modules()
    asked = {"need_weights": need_weights, "average_attn_weights": average, **BLIND[case]}
    with ours.strict_nan():
        got = mine(X, X, X, **asked)
    wanted = torchs(X, X, X, **asked)
    assert wanted[0].isnan().any() == need_weights
    torch.testing.assert_close(got, wanted, equal_nan=True)


def test_strict_nan_ends_with_its_block_and_stays_in_its_context():
    mine, _ = modules()
    hidden = torch.ones(4, 4).bool()

    def finite() -> bool:
        return bool(torch.isfinite(mine(X, X, X, attn_mask=hidden)[0]).all())

    elsewhere = contextvars.copy_context()
    with ours.strict_nan():
        assert not finite()
        assert elsewhere.run(finite)
        with ours.strict_nan():
            assert not finite()
        assert not finite()
    assert finite()
    with pytest.raises(KeyError), ours.strict_nan():
        raise KeyError
    assert finite()


def test_keys_that_are_not_there_are_no_nan_even_when_strict():
    mine, torchs = modules()
    with ours.strict_nan():
        output, weights = mine(X, X[:, :0], X[:, :0], attn_mask=torch.zeros(4, 0).bool())
    torch.testing.assert_close(
        (output, weights), torchs(X, X[:, :0], X[:, :0], attn_mask=torch.zeros(4, 0).bool())
    )
    assert torch.equal(output, mine.out_proj.bias.expand_as(output))


def test_a_transformer_over_a_fully_padded_source_is_finite_in_both_modes():
    model = ours.Transformer(8, 2, 2, 2, 16, 0.0, batch_first=True)
    padding = torch.tensor([[False] * 4, [True] * 4, [False] * 4])
    for train in (True, False):
        output = model.train(train)(X, X, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        assert torch.isfinite(output).all()
    output.square().sum().backward()
    assert all(torch.isfinite(part.grad).all() for part in model.parameters())
