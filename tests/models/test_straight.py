"""A step of a decoder in one row of kernels, against its modules: on a GPU, or by Triton's interpreter."""

from typing import Any

import pytest
import torch
from decoding.test_steady import ROOM, lively, sources
from torch import nn

from regard.decoding.evaluating import evaluating
from regard.models.standing import Standing
from regard.models.straight import Decoder, Straight, known, straight
from regard.models.transformer import Transformer


def decoder(model: Transformer) -> Decoder:
    return Decoder(
        embedding=model.target_embedding,
        blocks=tuple(model._decoder()),
        norm=model.decoder_norm,
        output=model.output,
    )


@pytest.mark.triton
@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "sinusoidal", "norm": "after"},
        {"positions": "learned", "norm": "before", "feedforward": "gelu"},
        {"positions": "rotary", "norm": "after", "kv_heads": 2},
    ],
    ids=lambda changes: changes["positions"],
)
@pytest.mark.parametrize("group", [1, 3])
def test_the_logits_are_those_of_the_modules(changes: dict[str, Any], group: int) -> None:
    model, source = lively(**changes), sources()
    for norm in model.modules():
        if isinstance(norm, nn.LayerNorm):
            nn.init.normal_(norm.weight, 1.0, 0.3)
            nn.init.normal_(norm.bias, 0.0, 0.3)
    with evaluating(model):
        memory = model.start(source).memory
        assert known(decoder(model))
        ways = [
            Standing(advance, model.target_embedding, memory, room=ROOM, group=group)
            for advance in (Straight(decoder(model)), model.advance)
        ]
        for step in range(3):
            tokens = torch.randint(
                3, 29, (len(source) * group,), generator=torch.Generator().manual_seed(step)
            )
            found, wanted = (way.step(tokens) for way in ways)
            assert (found - wanted).abs().max() < 2e-5
            parents = torch.randint(0, group, (len(source), group)) if group > 1 else None
            for way in ways:
                way.go_on(parents)


def test_a_decoder_with_an_unknown_or_watched_part_is_not_known() -> None:
    def refused(model: Transformer) -> bool:
        with evaluating(model):
            return not known(decoder(model))

    assert not refused(lively())
    assert refused(lively(norm="inside"))
    assert refused(lively(feedforward="swiglu"))
    hooked = lively(norm="after")
    hooked.decoder[1].get_submodule("feedforward.inner").register_forward_hook(lambda *_: None)
    assert refused(hooked)
    patched = lively()
    patched.decoder_norm.forward = lambda x: x  # type: ignore[method-assign]
    assert refused(patched)
    mixed = lively()
    mixed.decoder[0].get_submodule("cross.output").double()
    assert refused(mixed)
    activated = lively()
    activated.decoder[0].feedforward.activation = torch.tanh  # type: ignore[assignment]
    assert refused(activated)


def test_the_modules_step_on_a_cpu() -> None:
    model = lively()
    with evaluating(model):
        assert straight(decoder(model), rows=4) is None
