"""multi_head_attention_forward: every argument that the module does not reach, and torch's error types."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.interop import torch as ours

BOTH = pytest.mark.parametrize(
    "function", [ours.multi_head_attention_forward, F.multi_head_attention_forward]
)


def arguments(**changes: Any) -> dict[str, Any]:
    """Packed weights for width 6 with 2 heads: 4 queries and 5 keys, in a batch of 3."""
    generator = torch.Generator().manual_seed(3)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    given: dict[str, Any] = {
        "query": numbers(4, 3, 6),
        "key": numbers(5, 3, 6),
        "value": numbers(5, 3, 6),
        "embed_dim_to_check": 6,
        "num_heads": 2,
        "in_proj_weight": numbers(18, 6),
        "in_proj_bias": numbers(18),
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.0,
        "out_proj_weight": numbers(6, 6),
        "out_proj_bias": numbers(6),
    }
    return given | changes


def separate(kdim: int = 7, vdim: int = 8) -> dict[str, Any]:
    return {
        "key": torch.randn(5, 3, kdim),
        "value": torch.randn(5, 3, vdim),
        "in_proj_weight": None,
        "use_separate_proj_weight": True,
        "q_proj_weight": torch.randn(6, 6),
        "k_proj_weight": torch.randn(6, kdim),
        "v_proj_weight": torch.randn(6, vdim),
    }


CASES = {
    "packed": {},
    "separate": separate(),
    "without weights": {"need_weights": False},
    "weights of every head": {"average_attn_weights": False},
    "static keys": {"static_k": torch.randn(6, 9, 3), "static_v": torch.randn(6, 9, 3)},
    "static keys with zeros": {"static_k": torch.randn(6, 9, 3), "static_v": torch.randn(6, 9, 3), "add_zero_attn": True},
    "static keys alone": {"static_k": torch.randn(6, 5, 3)},
    "static values alone": {"static_v": torch.randn(6, 5, 3), "key_padding_mask": torch.tensor([[False] * 4 + [True]] * 3)},
    "one more key": {"bias_k": torch.randn(1, 1, 6), "bias_v": torch.randn(1, 1, 6)},
    "no biases": {"in_proj_bias": None, "out_proj_bias": None},
    "another width out": {"out_proj_weight": torch.randn(11, 6), "out_proj_bias": torch.randn(11)},
    "dropout, but not in training": {"dropout_p": 0.5, "training": False},
    "a causal hint": {"attn_mask": torch.ones(4, 5).triu(1).bool(), "is_causal": True, "need_weights": False},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_gives_what_torch_gives(case):
    given = arguments(**CASES[case])
    torch.testing.assert_close(
        ours.multi_head_attention_forward(**given),
        F.multi_head_attention_forward(**given),
        atol=1e-5,
        rtol=1e-5,
    )


def test_a_causal_hint_and_the_causal_mask_are_one_thing_whoever_looks():
    mask = torch.ones(4, 5).triu(1).bool()
    for rows in (
        {},
        {"bias_k": torch.randn(1, 1, 6), "bias_v": torch.randn(1, 1, 6)},
        {"add_zero_attn": True},
    ):
        said, shown = (
            ours.multi_head_attention_forward(
                **arguments(**rows), attn_mask=mask, is_causal=hint, need_weights=False
            )[0]
            for hint in (True, False)
        )
        torch.testing.assert_close(said, shown)


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "query of 4 axes": ({"query": torch.randn(1, 4, 3, 6)}, AssertionError),
    "key without a batch": ({"key": torch.randn(5, 6)}, AssertionError),
    "value without a batch": ({"value": torch.randn(5, 6)}, AssertionError),
    "another width than checked": ({"embed_dim_to_check": 8}, AssertionError),
    "heads that do not divide the width": ({"num_heads": 4}, AssertionError),
    "more keys than values": ({"value": torch.randn(4, 3, 6)}, AssertionError),
    "packed weights and two widths": ({"value": torch.randn(5, 3, 7)}, AssertionError),
    "no packed weights": ({"in_proj_weight": None}, AssertionError),
    "no separate weights": ({"use_separate_proj_weight": True}, AssertionError),
    "a separate weight of the wrong shape": (
        separate() | {"k_proj_weight": torch.randn(6, 6)},
        AssertionError,
    ),
    "bias_k alone": ({"bias_k": torch.randn(1, 1, 6)}, AssertionError),
    "bias_v alone": ({"bias_v": torch.randn(1, 1, 6)}, AssertionError),
    "a row more for static keys": (
        {"bias_k": torch.randn(1, 1, 6), "bias_v": torch.randn(1, 1, 6), "static_k": torch.randn(6, 5, 3)},
        AssertionError,
    ),
    "static keys of the wrong batch": ({"static_k": torch.randn(4, 5, 3)}, AssertionError),
    "static values of the wrong width": ({"static_v": torch.randn(6, 5, 6)}, AssertionError),
    "static keys without their values": ({"static_k": torch.randn(6, 9, 3)}, RuntimeError),
    "another batch of keys": ({"key": torch.randn(5, 2, 6), "value": torch.randn(5, 2, 6)}, RuntimeError),
    "padding of one axis": ({"key_padding_mask": torch.zeros(5).bool()}, AssertionError),
    "padding of the wrong length": ({"key_padding_mask": torch.zeros(3, 4).bool()}, AssertionError),
    "padding of the wrong batch": ({"key_padding_mask": torch.zeros(2, 5).bool()}, AssertionError),
    "padding of whole numbers": ({"key_padding_mask": torch.zeros(3, 5).long()}, AssertionError),
    "a mask of whole numbers": ({"attn_mask": torch.zeros(4, 5).int()}, AssertionError),
    "a mask of one axis": ({"attn_mask": torch.zeros(5).bool()}, AssertionError),
    "a mask of the wrong size": ({"attn_mask": torch.zeros(5, 5).bool()}, RuntimeError),
    "a mask of the wrong batch": ({"attn_mask": torch.zeros(3, 4, 5).bool()}, RuntimeError),
    "a hint about no mask": ({"is_causal": True}, RuntimeError),
    "dropout above 1": ({"dropout_p": 1.5}, ValueError),
}


@BOTH
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises_what_torch_raises(function, mistake, as_a_user):
    change, error = MISTAKES[mistake]
    with pytest.raises(error):
        function(**arguments(**change))


@BOTH
def test_a_mask_for_each_head_of_one_sequence_must_have_its_shape(function, as_a_user):
    given = arguments()
    given |= {name: given[name][:, 0] for name in ("query", "key", "value")}
    with pytest.raises(AssertionError, match=r"\(2, 4, 5\)"):
        function(**given, attn_mask=torch.zeros(3, 4, 5).bool())


@pytest.mark.parametrize("kind", [ours.MultiheadAttention, torch.nn.MultiheadAttention])
def test_a_module_that_cannot_be_made_raises_what_torch_raises(kind):
    with pytest.raises(ValueError, match="embed_dim"):
        kind(0, 1)
    with pytest.raises(ValueError, match="num_heads"):
        kind(4, 0)
    with pytest.raises(AssertionError, match="divisible"):
        kind(5, 2)
