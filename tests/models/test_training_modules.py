"""Models optimised for training: what is replaced, that names and weights stay, and that it can be undone."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data.batches import END, Packed, Pairs, Sequences
from regard.errors import RegardError
from regard.layers.mixed_precision import MixedPrecision
from regard.models import training_modules
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.optimise import optimise, restore
from regard.models.training_modules import TrainingModules
from regard.models.transformer import Transformer, TransformerConfig


def transformer(**changes: Any) -> Transformer:
    sizes: dict[str, Any] = {"width": 16, "heads": 4, "depth": 2, "decoder_depth": 2, "hidden_width": 24}
    words = {"source_vocabulary": 23, "target_vocabulary": 23}
    torch.manual_seed(3)
    return Transformer(TransformerConfig(**sizes | words | changes))


def pairs() -> Pairs:
    source = Sequences.of([[5, 7, 11, END], [4, END], [9, 6, 18, 3, 8, END]])
    return Pairs(source, Sequences.of([[6, 6, END], [13, 5, 22, 4, END], [10, END]]))


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every kernel were there; nothing is computed with them."""
    monkeypatch.setattr(training_modules, "weight_obstacle", lambda weight: None)
    monkeypatch.setattr("regard.layers.mixed_precision.weight_obstacle", lambda weight: None)


def classes(model: nn.Module) -> dict[str, type]:
    return {name: type(part) for name, part in model.named_modules()}


@pytest.mark.usefixtures("kernels")
def test_the_report_counts_what_was_replaced_and_what_was_not() -> None:
    model = transformer()
    names, identities = list(model.state_dict()), [id(weight) for weight in model.parameters()]
    plain = classes(model)
    optimised, report = optimise(model, for_="training", precision="bf16")
    said = str(report)
    assert optimised is model
    for line in (
        "replaced   10 Residual → MixedResidual",
        "replaced   10 Dropout → AddedDropout",
        "replaced    6 InProjection → MixedProjection",
        "replaced   16 Linear → MixedLinear",  # two an attention, one a feed-forward map
        "replaced    4 Linear → RectifiedLinear",
        "replaced    4 FeedForward → MixedFeedForward",
        "replaced    2 LayerNorm → MixedNorm",
        "replaced    1 WordLoss → MixedWordLoss",
    ):
        assert line in said
    assert report.kept == ()
    assert model.optimised == report
    assert list(model.state_dict()) == names
    assert [id(weight) for weight in model.parameters()] == identities
    assert classes(restore(model)) == plain
    assert not hasattr(model, "optimised")


@pytest.mark.usefixtures("kernels")
def test_what_has_no_form_for_mixed_precision_stays_and_is_named() -> None:
    said = str(optimise(transformer(norm="after"), for_="training", precision="bf16").report)
    assert "kept       10 Residual: its norm is not before the layer" in said
    model = transformer(feedforward="swiglu")
    model.encoder[0].around_attention.norm.register_forward_hook(lambda *_: None)
    said = str(optimise(model, for_="training", precision="bf16").report)
    assert "kept        1 Residual: a module in it has hooks" in said
    assert "RectifiedLinear" not in said
    classifier = Classifier(ClassifierConfig(width=16, heads=4, depth=1, hidden_width=24, vocabulary=29))
    optimise(classifier, for_="training", precision="bf16")
    assert type(classifier.norm) is nn.LayerNorm  # its output is pooled, which takes more than 16 bits


@pytest.mark.usefixtures("kernels")
def test_compiled_blocks_stay_as_they_are() -> None:
    modules = TrainingModules(transformer(), "bf16", compiled_blocks=True)
    assert modules.report.replaced == ((2, "LayerNorm", "MixedNorm"), (1, "WordLoss", "MixedWordLoss"))
    assert "kept        2 DecoderBlock: torch.compile fuses its modules" in str(modules.report)


@pytest.mark.usefixtures("kernels")
def test_modules_are_in_place_for_a_while_only_and_put_back_after_an_error() -> None:
    model = transformer()
    plain, modules = classes(model), TrainingModules(model, "bf16")
    assert classes(model) == plain
    found = []

    def broken() -> None:
        with modules.in_place():
            found.append(classes(model))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert sum(issubclass(kind, MixedPrecision) for kind in found[0].values()) == 63
    assert classes(model) == plain


@pytest.mark.usefixtures("kernels")
def test_modules_in_place_twice_are_given_back_once_each() -> None:
    model = transformer()
    plain, modules = classes(model), TrainingModules(model, "bf16")
    with modules.in_place():
        inside = classes(model)
        with modules.in_place():
            pass
        assert classes(model) == inside
        assert model.objective.precision == torch.bfloat16
    assert classes(model) == plain
    with modules.in_place():
        restore(model)
    assert classes(model) == plain
    assert not any("precision" in vars(part) for part in model.modules())


@pytest.mark.usefixtures("kernels")
def test_a_forward_that_a_module_was_given_is_not_taken_for_a_kernel() -> None:
    model = transformer()
    block = model.encoder[0]
    block.feedforward.inner.forward = lambda x: x.new_zeros(*x.shape[:-1], 24)
    block.around_attention.norm.forward = lambda x: x
    with TrainingModules(model, "bf16").in_place():
        assert type(block.feedforward).__name__ == "FeedForward"  # which rectifies itself
        assert type(block.around_attention).__name__ == "Residual"  # which expects one tensor of its norm


def test_on_a_cpu_the_loss_alone_is_replaced_and_autocast_does_the_rest() -> None:
    model, report = optimise(transformer(dropout=0.0).cpu(), for_="training", precision="bf16")
    assert report.replaced == ((1, "WordLoss", "MixedWordLoss"),)
    assert "Linear: torch's autocast computes it on a CPU" in str(report)
    assert report.summary == "optimised for training: bf16 on the CPU, modules replaced: 1"
    with torch.device("cpu"), torch.autocast("cpu", torch.bfloat16):
        fast, plain = (each.loss(pairs()).total for each in (model, transformer(dropout=0.0).cpu()))
    assert fast.dtype == torch.float32
    assert abs(fast - plain) < 0.02 * plain
    assert not torch.equal(fast, plain)  # of products in 16 bits, and of float32


def test_in_float32_nothing_is_replaced() -> None:
    model = transformer()
    plain = classes(model)
    _, report = optimise(model, for_="training")
    assert (report.replaced, report.kept) == ((), ())
    assert classes(model) == plain


def test_what_was_optimised_for_training_can_be_optimised_for_inference_and_copied() -> None:
    model = transformer(dropout=0.0).cpu()
    with torch.device("cpu"):
        plain = model.eval().logits(pairs())
        optimise(model, for_="training", precision="bf16")
        assert classes(copy.deepcopy(model)) == classes(model)
        found = optimise(model, precision="float32").model.logits(pairs())
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-4)
    assert not any(isinstance(part, MixedPrecision) for part in model.modules())


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_purpose_or_precision_is_refused() -> None:
    with pytest.raises(RegardError, match="for_='speed': give 'inference' or 'training'"):
        optimise(transformer(), for_="speed")  # type: ignore[arg-type]
    with pytest.raises(RegardError, match="precision='int8' for training"):
        optimise(transformer(), for_="training", precision="int8")


def packed(filling: int) -> Pairs[Any, Any]:
    sides = (Packed.of([[5, 6, 7, 2], [4, 2], [9, 8, 2]]), Packed.of([[7, 2], [4, 5, 6, 2], [3, 2]]))
    return Pairs(*(side.filled_up(12 + filling, 12) if filling else side for side in sides))


@pytest.mark.triton
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("filling", [0, 4])
def test_loss_and_gradients_are_as_near_to_float64_as_autocasts(
    filling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole Transformer through the kernels. For Triton's interpreter, products with another dtype of output are made by hand."""
    mm, calls, device = torch.mm, [], torch.get_default_device().type

    def widened(a: Tensor, b: Tensor, **given: Any) -> Tensor:
        calls.extend(given.values())
        return mm(a, b, **given) if a.is_cuda else mm(a.to(given["out_dtype"]), b.to(given["out_dtype"]))

    def made() -> Transformer:
        with torch.device("cpu"):  # the same weights everywhere
            return transformer(width=32, hidden_width=48, dropout=0.0, tied="all").to(device)

    monkeypatch.setattr(torch, "mm", widened)
    exact, plain, fast = made().double(), made(), optimise(made(), for_="training", precision="bf16").model
    right = exact.loss(packed(0).to(device))
    right.total.backward()
    errors = []
    for model in (plain, fast):
        with torch.autocast(device, torch.bfloat16):
            loss = model.loss(packed(filling).to(device)).total
        loss.backward()
        torch.testing.assert_close(loss.double(), right.total, rtol=1e-2, atol=0)
        gradients = [
            torch.cat(
                [weight.grad.double().flatten() for weight in each.parameters() if weight.grad is not None]
            )
            for each in (model, exact)
        ]
        errors.append(float((gradients[0] - gradients[1]).norm() / gradients[1].norm()))
    assert len(calls) == 2 * 4 + 2 * 7  # one a linear map: keys and values of a memory are one
    assert errors[1] < 0.1
    assert errors[1] < 2 * errors[0]
    assert fast.encode(packed(filling).to(device).source).dtype == torch.bfloat16
