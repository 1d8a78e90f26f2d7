"""A decoding step in few kernels, against its modules: on a GPU, or by Triton's interpreter."""

from typing import Any

import pytest
import torch
from decoding.test_search import CAPACITY, lively, sources
from torch import nn

from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.fused_step import DecoderParts, FusedStep, obstacle, unknown
from regard.models.transformer import Transformer


def parts(model: Transformer) -> DecoderParts:
    return DecoderParts(
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
        started = model.start(source)
        ways = [model.static_state(started, capacity=CAPACITY, group=group) for _ in range(2)]
        fused = FusedStep(parts(model))
        for step in range(3):
            torch.manual_seed(step)
            tokens = torch.randint(3, 29, (len(source) * group,))
            found, wanted = fused(tokens, ways[0]), model.step_static(tokens, ways[1])
            assert (found - wanted).abs().max() < 2e-5
            parents = torch.randint(0, group, (len(source), group)) if group > 1 else None
            for way in ways:
                way.advance(parents)


def test_a_decoder_with_an_unknown_part_is_refused_with_its_name() -> None:
    assert unknown(parts(lively())) is None
    assert "placed" in str(unknown(parts(lively(norm="inside"))))
    assert "SwiGLU" in str(unknown(parts(lively(feedforward="swiglu"))))
    assert "Additive" in str(unknown(parts(lively(score="additive"))))
    assert "concatenated" in str(unknown(parts(lively(position_width=8))))
    mixed = lively()
    mixed.decoder[0].get_submodule("cross.output").double()
    assert "several types" in str(unknown(parts(mixed)))
    activated = lively()
    activated.decoder[0].feedforward.activation = torch.tanh  # type: ignore[assignment]
    assert "activation" in str(unknown(parts(activated)))
    with pytest.raises(RegardError, match=r"no fused step: unknown modules: SwiGLU"):
        FusedStep(parts(lively(feedforward="swiglu")))


def test_it_is_for_16_bits_on_a_gpu() -> None:
    assert "GPU" in str(obstacle(parts(lively().cpu())))


def test_a_hook_that_would_not_be_called_is_refused() -> None:
    model = lively(norm="after")
    model.fused_step = FusedStep(parts(model))
    hook = model.decoder[1].get_submodule("feedforward.inner").register_forward_hook(lambda *_: None)
    with evaluating(model):
        state = model.start(sources())
        with pytest.raises(RegardError, match=r"decoder\.1\.feedforward\.inner has hooks, .* optimise=False"):
            model.static_state(state, capacity=CAPACITY, group=1)
        hook.remove()
        assert model.static_state(state, capacity=CAPACITY, group=1) is not None


def test_a_step_that_would_pass_by_hooks_or_a_patched_forward_is_not_built() -> None:
    hooked = lively(norm="after")
    hook = hooked.decoder[1].get_submodule("cross.output").register_forward_pre_hook(lambda *_: None)
    assert "cross.output of block 1 has hooks" in str(unknown(parts(hooked)))
    hook.remove()
    assert unknown(parts(hooked)) is None
    patched = lively(norm="after")
    patched.decoder_norm.forward = lambda x: x  # type: ignore[method-assign]
    assert "the last norm has a forward of its own" in str(unknown(parts(patched)))
    with pytest.raises(RegardError, match="no fused step: the last norm has a forward of its own"):
        FusedStep(parts(patched))


def test_a_forward_that_is_patched_later_is_refused() -> None:
    model = lively(norm="after")
    model.fused_step = FusedStep(parts(model))
    model.decoder_norm.forward = lambda x: x  # type: ignore[method-assign]
    with evaluating(model):
        state = model.start(sources())
        with pytest.raises(RegardError, match=r"decoder_norm has a forward of its own, .* optimise=False"):
            model.static_state(state, capacity=CAPACITY, group=1)


def test_it_gives_no_gradients_and_does_not_train() -> None:
    model, source = lively(norm="after").eval(), sources()
    fused, tokens = FusedStep(parts(model)), torch.full((len(source),), 3)
    with torch.no_grad():
        state = model.static_state(model.start(source), capacity=CAPACITY, group=1)
    assert state is not None
    with pytest.raises(RegardError, match="FusedStep is optimised for inference and gives no gradients"):
        fused(tokens, state)
    model.train()
    with torch.no_grad(), pytest.raises(RegardError, match="optimised for inference and cannot be trained"):
        fused(tokens, state)
