"""Contract 9: nothing decides behind your back.

The bits of outputs and gradients are the same with and without grad mode, hooks, a watcher, another model that was
optimised, and another thread at work: of plain models, of plain models under autocast, and of models optimised for
training. Operators of torch that differ by themselves are listed at the end. Tensors are made on the default device.
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from hardware import BF16, NO_BF16
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from regard import (
    Additive,
    Classifier,
    ClassifierConfig,
    LanguageConfig,
    LanguageModel,
    MultiHeadAttention,
    RecurrentConfig,
    RecurrentTranslator,
    Transformer,
    TransformerConfig,
    beam,
    causal,
    greedy,
    optimise,
    sample,
    watch,
)
from regard.data.batches import END, START, Images, Pairs, Sequences
from regard.layers import EncoderBlock, FeedForward, Residual, SwiGLU, after, before, inside
from regard.models.vision import Vision, VisionConfig

Run = Callable[[], Tensor]
SMALL: dict[str, Any] = {"width": 16, "heads": 4, "depth": 2, "hidden_width": 24, "dropout": 0.0}


def x(length: int = 7) -> Tensor:
    return drawn(torch.randn, 3, length, 16)


def drawn(how: Callable[..., Tensor], *shape: int) -> Tensor:
    """The same numbers on every device."""
    numbers = how(*shape, generator=torch.Generator("cpu").manual_seed(2), device="cpu")
    return numbers.to(torch.get_default_device())


def sequences(*rows: list[int]) -> Sequences:
    return Sequences.of(list(rows)).to(torch.get_default_device())


def pairs() -> Pairs:
    source = sequences([5, 7, 11, END], [4, END], [9, 6, 18, 3, 8, END])
    return Pairs(source, sequences([6, 6, END], [13, 5, 22, 4, END], [10, END]))


def attention(**given: Any) -> tuple[nn.Module, Run]:
    model = MultiHeadAttention(16, 4, **given)
    return model, lambda: model(x(), mask=causal())


def few_queries() -> tuple[nn.Module, Run]:
    model = MultiHeadAttention(16, 4)
    return model, lambda: model(x(2), x(7))


def block(placement: Any, feed: type[nn.Module] = FeedForward) -> tuple[nn.Module, Run]:
    model = EncoderBlock(MultiHeadAttention(16, 4), feed(16, 24), partial(Residual, 16, placement=placement))
    return model, lambda: model(x())


def translator(**changes: Any) -> tuple[nn.Module, Run]:
    config = TransformerConfig(**SMALL | changes, decoder_depth=2, source_vocabulary=23, target_vocabulary=23)
    model = Transformer(config)
    return model, lambda: model.loss(pairs()).total


def recurrent() -> tuple[nn.Module, Run]:
    model = RecurrentTranslator(
        RecurrentConfig(width=16, depth=2, dropout=0.0, source_vocabulary=23, target_vocabulary=23)
    )
    return model, lambda: model.loss(pairs()).total


def language() -> tuple[nn.Module, Run]:
    model = LanguageModel(LanguageConfig(**SMALL, vocabulary=29))
    return model, lambda: model.logits(sequences([START, 5, 9, 3], [START, 3]))


def classifier() -> tuple[nn.Module, Run]:
    model = Classifier(ClassifierConfig(**SMALL, vocabulary=29))
    return model, lambda: model.predict(sequences([5, 9, 3], [3]))


def vision() -> tuple[nn.Module, Run]:
    model = Vision(VisionConfig(**SMALL, channels=1, image_size=(6, 6), patch=(3, 3), classes=3))
    return model, lambda: model.predict(Images(drawn(torch.rand, 2, 1, 6, 6)))


MODELS: dict[str, Callable[[], tuple[nn.Module, Run]]] = {
    "attention": attention,
    "additive attention": lambda: attention(score=Additive(4, 4, hidden=3, heads=4)),
    "a few queries": few_queries,
    "norm before": partial(block, before),
    "norm after": partial(block, after),
    "norm before, SwiGLU": partial(block, before, SwiGLU),
    "norm inside": partial(block, inside),
    "translator": translator,
    "translator, norm after": partial(translator, norm="after", positions="rotary"),
    "translator, dropout": partial(translator, dropout=0.1, tied="none"),
    "recurrent translator": recurrent,
    "language model": language,
    "classifier": classifier,
    "vision": vision,
}


@contextmanager
def hooks(model: nn.Module) -> Iterator[None]:
    """Hooks of every sort that do nothing, on every module."""
    held = []
    for part in model.modules():
        held.append(part.register_forward_pre_hook(lambda *_: None))
        held.append(part.register_forward_hook(lambda *_: None))
        held.append(part.register_full_backward_hook(lambda *_: None))
    try:
        with warnings.catch_warnings():  # torch warns of outputs that are no tensors
            warnings.simplefilter("ignore")
            yield
    finally:
        for each in held:
            each.remove()


def device() -> str:
    return torch.get_default_device().type


@contextmanager
def another_optimised(model: nn.Module) -> Iterator[None]:
    """Other models, one for inference and one for training."""
    other, run = translator(norm="after")
    optimise(other, precision="int8" if device() == "cpu" else "fp16")
    with torch.no_grad(), torch.autocast(device(), enabled=False):
        run()
    other, run = translator()
    optimise(other, for_="training", precision="bf16")
    with torch.autocast(device(), torch.bfloat16):
        run()
    yield


@contextmanager
def another_thread(model: nn.Module) -> Iterator[None]:
    """One that decodes with a model of its own, watched, and without gradients."""
    over, (other, _), source = threading.Event(), translator(), pairs().source
    decoded = 0

    def work() -> None:
        nonlocal decoded
        with torch.no_grad(), watch(other):
            while not decoded or not over.is_set():
                decoded += len(greedy(other.eval(), source, limits=3))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert decoded


CONDITIONS: dict[str, Callable[[nn.Module], AbstractContextManager[Any]]] = {
    "hooks": hooks,
    "a watcher": lambda model: watch(model),
    "another model optimised": another_optimised,
    "another thread": another_thread,
}


@contextmanager
def in_16_bits() -> Iterator[None]:
    with torch.autocast(device(), torch.bfloat16):
        yield


# How a model is made ready, and what it runs under.
WAYS: dict[str, tuple[Callable[[nn.Module], object], Callable[[], AbstractContextManager[Any]]]] = {
    "plain": (lambda model: None, nullcontext),
    "under autocast": (lambda model: None, in_16_bits),
    "for training": (lambda model: optimise(model, for_="training", precision="bf16"), in_16_bits),
}


def made(name: str, way: str) -> tuple[nn.Module, Run]:
    if name == "recurrent translator" and way != "plain" and device() == "cpu" and not BF16:
        pytest.skip(NO_BF16)  # and oneDNN's LSTM then refuses them
    torch.manual_seed(1)
    model, run = MODELS[name]()
    ready, around = WAYS[way]
    ready(model)

    def within() -> Tensor:
        with around():
            return run()

    return model, within


def results(model: nn.Module, run: Run) -> list[Tensor]:
    """The output, and the gradients of the weights."""
    torch.manual_seed(7)
    output = run()
    grads = torch.autograd.grad(output.square().sum(), list(model.parameters()), allow_unused=True)
    return [output.detach(), *(grad for grad in grads if grad is not None)]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    ("way", "training"),
    [("plain", False), *((way, True) for way in WAYS)],
    ids=["plain, evaluating", *WAYS],
)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_keep_their_bits(name: str, way: str, training: bool, condition: str) -> None:
    if device() == "cuda" and name == "recurrent translator" and not training:
        pytest.skip("cuDNN gives gradients in training only")
    model, run = made(name, way)
    model.train(training)
    plain = results(model, run)
    with CONDITIONS[condition](model):
        found = results(model, run)
    assert len(plain) == len(found) > 1
    assert all(torch.equal(one, other) for one, other in zip(plain, found, strict=True))


@pytest.mark.parametrize("frozen", [False, True], ids=["weights that learn", "weights that are frozen"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_do_not_depend_on_grad_mode(name: str, way: str, frozen: bool) -> None:
    model, run = made(name, way)
    model.eval()
    plain = run()
    model.requires_grad_(not frozen)
    for mode in (nullcontext, torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(run(), plain)


@pytest.mark.skipif("config.getoption('--device') != 'cpu'", reason="the model is on the CPU")
@pytest.mark.parametrize("precision", [None, "float32", "int8"])
def test_a_default_device_does_not_matter_to_a_model_that_is_elsewhere(precision: str | None) -> None:
    """On "meta" tensors have no memory: whatever the library made there would be refused, or crash a C kernel."""
    model = translator(positions="relative")[0].eval()
    model = model if precision is None else optimise(model, precision=precision).model
    source = pairs().source

    def texts() -> list[Any]:
        return [
            greedy(model, source, limits=5),
            beam(model, source, size=3, limits=5),
            sample(model, source, limits=5, seed=3),
        ]

    plain = texts()
    with torch.device("meta"):
        assert Sequences.of([[5, END]]).lengths.device.type == "cpu"
        assert texts() == plain


def padded(rnn: nn.Module, rows: Tensor) -> Tensor:
    return rnn(rows)[0]


def packed(rnn: nn.Module, rows: Tensor) -> Tensor:
    return rnn(pack_padded_sequence(rows, [7, 5, 2], batch_first=True))[0].data


# Operators of torch on a CPU whose bits do depend on grad mode, or on whether their weights learn.
DIFFERING = {
    "nn.LSTM of padded rows": (nn.LSTM, "grad mode"),
    "nn.GRU of padded rows": (nn.GRU, "frozen weights"),
    "nn.RNN of padded rows": (nn.RNN, "frozen weights"),
}


@pytest.mark.parametrize("name", DIFFERING)
def test_the_operators_of_torch_that_differ_are_these(name: str) -> None:
    make, on = DIFFERING[name]
    torch.manual_seed(0)
    rnn, rows = make(64, 64, batch_first=True, device="cpu"), torch.randn(3, 7, 64, device="cpu")
    plain = padded(rnn, rows), packed(rnn, rows)
    with torch.no_grad() if on == "grad mode" else nullcontext():
        rnn.requires_grad_(on == "grad mode")
        found = padded(rnn, rows), packed(rnn, rows)
    assert (plain[0] - found[0]).abs().max() < 1e-6
    assert torch.equal(plain[1], found[1])  # packed sequences, which our recurrent models read, do not
    if torch.equal(plain[0], found[0]):
        pytest.skip("this build of torch has no kernel of oneDNN that differs on this CPU")


def test_a_backward_hook_of_torch_sums_the_gradients_of_its_module_first() -> None:
    """Of an input used inside and outside of a module: (inside + inside) + outside, else in the order of use."""

    class Twice(nn.Module):
        def forward(self, given: Tensor) -> Tensor:
            return given * 0.7 + given * 1.3

    model, given = Twice(), x().requires_grad_()
    slopes = torch.randn(given.shape)

    def gradient() -> Tensor:
        return torch.autograd.grad(((given + model(given)) * slopes).sum(), given)[0]

    plain = gradient()
    model.register_full_backward_hook(lambda *_: None)
    hooked = gradient()
    assert not torch.equal(plain, hooked)
    torch.testing.assert_close(plain, hooked)
