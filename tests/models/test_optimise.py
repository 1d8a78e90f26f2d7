"""Models optimised for inference: the same answers, the report, and what is refused."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest
import torch
from hardware import needs_bf16
from models import test_convolutional, test_hearing, test_vision
from models.samples import images, sounds
from torch import nn

from regard.data.batches import END, START, Pairs, Sequences
from regard.decoding.decode import greedy
from regard.errors import RegardError
from regard.interop.torch import TransformerEncoderLayer as EncoderLayer
from regard.layers.inference_only import FusedResidual, PackedLinear
from regard.models.convolutional import Convolution
from regard.models.hearing import Hearing
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.optimise import device_of, optimise, restore
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision
from regard.runs.answering import Loaded
from regard.sight.watch import watch

TOLERANCES = {"float32": 1e-4, "bf16": 0.2, "int8": 0.3}
PRECISIONS = ["float32", pytest.param("bf16", marks=needs_bf16), "int8"]


def transformer(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    settings: dict[str, Any] = {
        "width": 32,
        "heads": 4,
        "depth": 2,
        "decoder_depth": 2,
        "hidden_width": 48,
        "source_vocabulary": 23,
        "target_vocabulary": 23,
    }
    model = Transformer(TransformerConfig(**settings | changes)).eval()
    for weight in model.parameters():
        weight.data += torch.randn_like(weight) * 0.1
    return model


def pairs() -> Pairs:
    source = Sequences.of([[5, 7, 11, END], [4, END], [9, 6, 18, 3, 8, END]])
    return Pairs(source, Sequences.of([[6, 6, END], [13, 5, 22, 4, END], [10, END]]))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["patches", "convolutional", "convolution", "hearing"])
def test_models_that_see_and_hear_read_what_their_packed_maps_take(kind: str, precision: str) -> None:
    made = {
        "patches": lambda: Vision(test_vision.SMALL),
        "convolutional": lambda: Vision(replace(test_vision.SMALL, tokens="convolutional")),
        "convolution": lambda: Convolution(test_convolutional.SMALL),
        "hearing": lambda: Hearing(test_hearing.SMALL),
    }
    torch.manual_seed(3)
    model = made[kind]().eval()
    given = sounds(131, 61, 23, 3) if kind == "hearing" else images(5)
    wanted = model.predict(given)
    found = optimise(model, precision=precision).model.predict(given)
    assert found.dtype == torch.float32
    assert ((found - wanted).norm() / wanted.norm()) < TOLERANCES[precision]


def test_a_step_maps_no_more_than_it_needs() -> None:
    """Keys and values of a memory are mapped once, its queries at every step; in self-attention all three at once."""
    rows: dict[str, list[int]] = {}
    model = optimise(transformer(), precision="float32").model
    for name, part in model.named_modules():
        if isinstance(part, PackedLinear) and name.startswith("decoder.0."):
            part.register_forward_hook(
                lambda part, _, y, name=name: rows.setdefault(name, []).append(y.shape[-1])
            )
    greedy(model, pairs().source, limits=2)
    cross = {name: found for name, found in rows.items() if ".cross.input" in name}
    itself = {name: found for name, found in rows.items() if ".attention.input" in name}
    assert sorted(map(tuple, cross.values())) == [(32, 32), (64,)]
    assert [*itself.values()] == [[96, 96]]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied": "none"},
        {"norm": "after"},
        {"kv_heads": 2},
        {"feedforward": "swiglu"},
        {"positions": "rotary"},
    ],
    ids=str,
)
def test_a_packed_model_gives_the_logits_of_the_plain_one(precision: str, changes: dict[str, Any]) -> None:
    plain, packed = transformer(**changes), optimise(transformer(**changes), precision=precision).model
    batch = pairs()
    real = batch.target.real()
    expected, found = plain.logits(batch)[real], packed.logits(batch)[real]
    assert ((found - expected).norm() / expected.norm()) < TOLERANCES[precision]
    assert not torch.equal(found, expected) or precision == "float32"
    packed_maps = [part for part in packed.modules() if isinstance(part, PackedLinear)]
    assert packed_maps
    assert not any(type(part) is nn.Linear for part in packed.modules())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_cached_steps_of_a_packed_model_give_its_full_logits(precision: str) -> None:
    packed, batch = optimise(transformer(), precision=precision).model, pairs()
    full = packed.logits(batch)
    state = packed.start(batch.source)
    tokens = state.first
    for step in range(full.shape[1]):
        logits, state = packed.step(tokens, state)
        alive = step < batch.target.lengths
        torch.testing.assert_close(logits[alive], full[alive, step], rtol=0, atol=TOLERANCES[precision] * 3)
        tokens = batch.target.tokens[:, step]


def test_a_packed_language_model_goes_on_as_the_plain_one() -> None:
    config = LanguageConfig(width=32, heads=4, depth=2, hidden_width=48, vocabulary=29)
    torch.manual_seed(1)
    plain = LanguageModel(config).eval()
    packed = LanguageModel(config).eval()
    packed.load_state_dict(plain.state_dict())
    prompts = Sequences.of([[START, 5, 9], [START, 3]])
    expected = [each.tokens for each in greedy(plain, prompts, limits=12)]
    assert [
        each.tokens for each in greedy(optimise(packed, precision="float32").model, prompts, limits=12)
    ] == expected


def test_watching_a_packed_model_changes_no_bit() -> None:
    packed, batch = optimise(transformer(), precision="int8").model, pairs()
    alone = packed.logits(batch)
    with watch(packed) as seen:
        watched = packed.logits(batch)
    assert torch.equal(alone, watched)
    assert len(seen.names) == 6


def test_a_packed_model_asks_for_no_gradients() -> None:
    packed = optimise(transformer(), precision="int8").model
    assert not any(weight.requires_grad for weight in packed.parameters())


def test_what_cannot_be_packed_is_refused() -> None:
    with pytest.raises(RegardError, match="precision='int4'"):
        optimise(transformer(), precision="int4")
    with pytest.raises(RegardError, match=r"float32 models, and this one is torch.float64"):
        optimise(transformer().double(), precision="int8")


def test_bf16_is_refused_in_one_line_where_the_cpu_does_not_multiply_16_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    model = transformer().train()
    with pytest.raises(
        RegardError, match=r"^precision='bf16' needs a CPU that multiplies 16-bit numbers.*'int8'$"
    ) as refused:
        optimise(model, precision="bf16")
    assert "\n" not in str(refused.value)
    assert all(part.training and not isinstance(part, PackedLinear) for part in model.modules())
    assert optimise(model, precision="float32").report.summary.startswith("optimised for inference: float32")


def test_the_report_counts_what_was_replaced_and_what_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model, report = optimise(transformer(norm="after"), precision="int8")
    said = str(report)
    assert said.startswith("optimised for inference: int8, ")
    assert "replaced    6 InProjection → PackedProjection of Int8Linear" in said
    assert "replaced    4 ReLU of a FeedForward → part of the Int8Linear after it" in said
    assert "Embedding: a table that is read, not multiplied" in said
    fused = sum(isinstance(part, FusedResidual) for part in model.modules())
    assert f"replaced  {fused:>3} Residual → FusedResidual" in said or not fused
    assert model.optimised == report
    numbers = [(line.split()[0], int(line.split()[1])) for line in said.splitlines()[1:]]
    replaced, kept = (sum(count for what, count in numbers if what == word) for word in ("replaced", "kept"))
    assert report.line() == f"{report.summary}; modules replaced: {replaced}, kept: {kept}"
    monkeypatch.setattr("regard.models.optimise.kernels", lambda: None)
    model, report = optimise(transformer(norm="after"))
    assert "the C kernels are not built: install a C compiler" in str(report)
    assert "kept       10 Residual: the C kernels are not built" in str(report)
    assert not any(isinstance(part, FusedResidual) for part in model.modules())
    assert "kept       10 Residual: its norm does not follow the sum" in str(optimise(transformer()).report)


def test_a_model_with_hooks_keeps_them() -> None:
    model, heard = transformer(), []
    model.decoder[0].feedforward.inner.register_forward_hook(lambda *_: heard.append(1))
    model, report = optimise(model)
    model.logits(pairs())
    assert heard
    assert "kept        1 Linear: it has hooks" in str(report)


def test_gradients_and_training_are_refused() -> None:
    model, _ = optimise(transformer(norm="after"))
    model.logits(pairs())
    with pytest.raises(RegardError, match=r"cannot be trained.*optimise=False"):
        model.train().logits(pairs())
    linear, _ = optimise(nn.Linear(4, 3))
    with pytest.raises(RegardError, match=r"gives no gradients.*optimise=False"):
        linear(torch.randn(2, 4, requires_grad=True))


def test_another_model_is_left_as_it_was() -> None:
    model, batch = transformer(norm="after"), pairs()
    before = model.logits(batch)
    optimise(transformer(norm="after"), precision="int8")
    assert torch.equal(model.logits(batch), before)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("norm", ["before", "after"])
def test_a_copy_of_an_optimised_model_computes_the_same_by_itself(precision: str, norm: str) -> None:
    model, batch = optimise(transformer(norm=norm), precision=precision).model, pairs()
    expected = model.logits(batch)
    copied = copy.deepcopy(model)
    for part in model.modules():  # whose weights are the copy's no longer
        if isinstance(part, PackedLinear):
            part.pack(torch.zeros(part.out_features, 32))
    assert torch.equal(copied.logits(batch), expected)
    assert torch.equal(pickle.loads(pickle.dumps(copied)).logits(batch), expected)
    assert repr(copied) == repr(model)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_torchs_encoder_layers_keep_the_weights_that_their_fast_path_reads(precision: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    plain = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(16, 5)).eval()
    x = torch.randn(2, 7, 16)
    with torch.no_grad():
        expected = plain(x)
        model, report = optimise(plain, precision=precision)
        torch.testing.assert_close(model(x), expected, atol=TOLERANCES[precision], rtol=0)
    assert "kept        4 Linear: torch's encoder reads its weights" in str(report)
    assert isinstance(model[1], PackedLinear)


def test_our_encoder_layer_inside_torchs_encoder_keeps_its_weights_too() -> None:
    layer = EncoderLayer(16, 4, 24, batch_first=True)
    model = optimise(nn.TransformerEncoder(layer, 1).eval(), precision="int8").model
    padding = torch.tensor([[False, False, True], [False, False, False]])
    with torch.no_grad():
        assert model(torch.randn(2, 3, 16), src_key_padding_mask=padding).isfinite().all()
    alone, report = optimise(EncoderLayer(16, 4, 24, batch_first=True), precision="int8")
    assert "replaced    2 Linear → Int8Linear" in str(report)
    assert alone(torch.randn(2, 3, 16)).isfinite().all()


def test_a_forward_that_a_module_was_given_is_kept() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    model[1].forward = lambda x: x.new_full((len(x), 3), 7.0)
    model, report = optimise(model)
    assert torch.equal(model(torch.randn(2, 4)), torch.full((2, 3), 7.0))
    assert "kept        1 Linear: it has a forward of its own" in str(report)


def test_hooks_between_fused_modules_see_what_they_saw() -> None:
    model, seen = transformer(norm="after"), []
    model.encoder[0].around_feedforward.dropout.register_forward_hook(lambda *_: seen.append("sum"))
    model.encoder[0].feedforward.dropout.register_forward_hook(lambda *a: seen.append(float(a[2].min())))
    optimise(model, precision="int8").model.logits(pairs())
    assert "sum" in seen
    assert seen[0] >= 0  # after the ReLU


def test_a_model_is_optimised_for_inference_once() -> None:
    model = optimise(transformer(), precision="int8").model
    for again in ({"precision": "float32"}, {"for_": "training", "precision": "bf16"}):
        with pytest.raises(RegardError, match=r"optimised for inference already.*Int8Linear.*optimise=False"):
            optimise(model, **again)
    assert model.optimised.summary.startswith("optimised for inference: int8")
    assert restore(model).optimised.summary.startswith("optimised for inference: int8")


def test_a_refused_model_is_left_as_it_was() -> None:
    model = transformer().train()
    with pytest.raises(RegardError, match="precision='int4'"):
        optimise(model, precision="int4")
    assert all(part.training for part in model.modules())
    with torch.no_grad():
        model.decoder[1].feedforward.outer.weight[0, 0] = torch.nan
    with pytest.raises(RegardError, match=r"decoder\.1\.feedforward\.outer\.weight holds inf or NaN"):
        optimise(model, precision="int8")
    assert all(part.training and not isinstance(part, PackedLinear) for part in model.modules())
    assert all(weight.requires_grad for weight in model.parameters())


def test_packed_weights_are_neither_saved_nor_loaded_nor_moved_nor_cast() -> None:
    plain = transformer()
    weights = plain.state_dict()
    model = optimise(transformer()).model
    with pytest.raises(RegardError, match=r"cannot be saved.*optimise=False"):
        model.state_dict()
    with pytest.raises(RegardError, match=r"cannot be loaded.*optimise=False"):
        model.load_state_dict(weights, strict=False)
    for place in (torch.float64, torch.float16, "meta"):
        with pytest.raises(RegardError, match="packed for float32 inputs on the CPU"):
            copy.deepcopy(model).to(place)
    batch = pairs()
    assert torch.equal(model.to("cpu").float().logits(batch), optimise(transformer()).model.logits(batch))


def test_a_model_whose_weights_are_all_packed_is_still_somewhere() -> None:
    model = optimise(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))).model
    assert not list(model.parameters())
    assert str(model[2]) == "Float32Linear(in_features=4, out_features=3, bias=True)"
    assert device_of(model) == Loaded(model).device == torch.device("cpu")
    assert device_of(nn.Linear(2, 2, device="meta")) == torch.device("meta")
