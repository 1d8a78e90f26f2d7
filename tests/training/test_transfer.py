"""Parts of earlier weights in a new model."""

import pytest
import torch
from torch import nn
from training.toys import copied, plan, same

from regard.errors import RegardError
from regard.training.state import adamw
from regard.training.transfer import differing, transfer


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
    taken = transfer(new, earlier.state_dict(), parts=["encoder"])
    names = [*taken.copied]
    assert taken.fresh == taken.unused == ["embedding", "encoder_norm", "decoder"]
    assert names == ["encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias"]
    for name, weight in new.state_dict().items():
        assert torch.equal(weight, earlier.state_dict()[name] if name in names else before[name])


def test_without_parts_all_that_is_in_both_is_copied() -> None:
    new, earlier = model(), model(depth=1)
    taken = transfer(new, earlier.state_dict())
    assert taken.fresh == ["encoder"]
    assert set(taken.copied) == set(earlier.state_dict())
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
    trained = sum(len(group["params"]) for group in adamw(new, plan(weight_decay=0.1)).param_groups)
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


def renamed(**names: str) -> nn.ModuleDict:
    return nn.ModuleDict({names.get(name, name): part for name, part in model().items()})


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("part", ["source_embedding", "embedding"])
def test_the_table_of_a_translator_is_that_of_a_classifier(tied: bool, part: str) -> None:
    new, earlier = model(), renamed(embedding="target_embedding" if tied else "source_embedding")
    if not tied:
        earlier["target_embedding"] = nn.Embedding(9, 4)
    theirs = "target_embedding" if tied else "source_embedding"
    taken = transfer(new, earlier.state_dict(), parts=[part, "encoder"])
    assert torch.equal(new["embedding"].weight, earlier[theirs].weight)
    assert taken.lines("runs/a") == [
        f"init: 5 tensors copied from runs/a: {theirs} as embedding, encoder",
        "init: begins with new weights: encoder_norm, decoder",
        f"init: not taken from runs/a: encoder_norm, decoder{'' if tied else ', target_embedding'}",
    ]


def test_the_last_norm_of_an_encoder_is_found_under_either_name() -> None:
    new, earlier = renamed(encoder_norm="norm"), model()
    nn.init.normal_(earlier["encoder_norm"].weight)
    taken = transfer(new, earlier.state_dict(), parts=["encoder_norm"], freeze=True)
    assert torch.equal(new["norm"].weight, earlier["encoder_norm"].weight)
    assert taken.lines("a")[0] == "init: 2 tensors copied from a: encoder_norm as norm, and kept as they are"


def test_a_part_of_ones_own_name_is_preferred_to_one_that_does_the_same() -> None:
    new, earlier = model(), model()
    earlier["source_embedding"] = nn.Embedding(9, 4)
    transfer(new, earlier.state_dict(), parts=["embedding"])
    assert torch.equal(new["embedding"].weight, earlier["embedding"].weight)


def test_settings_that_change_the_answer_and_no_shape_are_named() -> None:
    here, there = (
        {"heads": 2, "positions": "rotary", "width": 4},
        {"heads": 4, "positions": "rotary", "width": 8},
    )
    assert differing(here, there) == [
        "init: heads is 2 here and was 4 there: what was copied will not do as it did"
    ]
