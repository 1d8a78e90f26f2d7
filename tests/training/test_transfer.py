"""Parts of earlier weights in a new model."""

import pytest
import torch
from torch import nn
from training.toys import copied, plan, same

from regard.errors import RegardError
from regard.training.optimiser import adamw
from regard.training.transfer import transfer


def model(width: int = 4, depth: int = 2) -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            "embedding": nn.Embedding(9, width),
            "encoder": nn.ModuleList([nn.Linear(width, width) for _ in range(depth)]),
            "encoder_norm": nn.LayerNorm(width),
            "decoder": nn.Linear(width, 9),
        }
    )


def test_a_part_is_copied_and_the_rest_is_left() -> None:
    new, earlier = model(), model()
    before = copied(new)
    names = transfer(new, earlier.state_dict(), parts=["encoder"])
    assert names == ["encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias"]
    for name, weight in new.state_dict().items():
        assert torch.equal(weight, earlier.state_dict()[name] if name in names else before[name])


def test_without_parts_all_that_is_in_both_is_copied() -> None:
    new, earlier = model(), model(depth=1)
    names = transfer(new, earlier.state_dict())
    assert set(names) == set(earlier.state_dict())
    assert all(torch.equal(new.state_dict()[name], weight) for name, weight in earlier.state_dict().items())


def test_what_is_frozen_has_no_gradient_and_is_not_trained() -> None:
    new = model()
    transfer(new, model().state_dict(), parts=["embedding", "encoder"], freeze=True)
    assert {name for name, weight in new.named_parameters() if weight.requires_grad} == {
        "encoder_norm.weight",
        "encoder_norm.bias",
        "decoder.weight",
        "decoder.bias",
    }
    trained = sum(len(group["params"]) for group in adamw(new, plan(decay=0.1)).param_groups)
    assert trained == 4


@pytest.mark.parametrize(
    ("earlier", "parts", "message"),
    [
        (model(width=5), ["decoder"], r"decoder\.weight is \[9, 4\] here and \[9, 5\] in"),
        (model(), ["encodr"], r"no 'encodr': they have embedding, encoder, encoder_norm, decoder"),
        (model(depth=3), ["encoder"], r"encoder\.2\.bias is only in the earlier weights"),
        (model(depth=1), ["encoder"], r"encoder\.1\.bias is only in this model"),
        (nn.Sequential(nn.Linear(2, 2)), [], r"nothing in common: here embedding, .* there 0"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(
    earlier: nn.Module, parts: list[str], message: str
) -> None:
    new = model()
    before = copied(new)
    with pytest.raises(RegardError, match=message):
        transfer(new, earlier.state_dict(), parts=["embedding", *parts] if parts == ["encodr"] else parts)
    assert same(copied(new), before)


def test_a_part_that_only_the_earlier_model_had_is_named() -> None:
    new = model()
    del new["decoder"]
    with pytest.raises(
        RegardError, match="this model has no 'decoder': it has embedding, encoder, encoder_norm"
    ):
        transfer(new, model().state_dict(), parts=["decoder"])
