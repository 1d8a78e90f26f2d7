"""Training on packed texts; and, on a GPU, updates that are captured as CUDA graphs.

What needs a GPU is skipped without one: `pytest tests/training/test_captured_update.py` on a machine that has it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training.toys import copied, same

from regard import watch
from regard.data.batches import Images, Packed, Pairs, Sequences
from regard.data.feeds import Corpus, PairFeed
from regard.errors import RegardError
from regard.models.layout import Layout
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.recipe import find
from regard.runs.settings import Training
from regard.runs.tasks.prepared import packs
from regard.training.captured_update import CapturedUpdates, _unshaped
from regard.training.distribution import BatchPlace, World, batch_order
from regard.training.loop import train
from regard.training.shapes import evened, filled_up, reaching, rounded
from regard.training.state import TrainingState
from regard.training.update import Updater


def corpus(seed: int, count: int = 200) -> Corpus:
    numbers = np.random.default_rng(seed)
    rows = [numbers.integers(4, 50, numbers.integers(1, 20)).tolist() for _ in range(count)]
    return Corpus.of(rows, vocabulary=50)


def feed(*, packed: bool = True) -> PairFeed:
    return PairFeed(corpus(1), corpus(2), budget=256, seed=4, packed=packed)


def model(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        width=32,
        heads=4,
        depth=1,
        decoder_depth=1,
        hidden_width=48,
        source_vocabulary=50,
        target_vocabulary=50,
    )
    return Transformer(replace(config, tied="all", **changes))


def plan(**changes: Any) -> Training:
    return Training(
        **{"steps": 12, "warmup": 4, "save": 4, "evaluate": 100, "precision": "float32", **changes}
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_packed_texts_are_learned_and_a_resumed_training_ends_with_the_same_bits(
    precision: str, tmp_path: Path
) -> None:
    settings = plan(precision=precision)
    whole = model(dropout=0.2)
    train(whole, feed(), settings, folder=tmp_path / "whole", seed=1)
    first = model(dropout=0.2)
    train(first, feed(), replace(settings, steps=8), folder=tmp_path / "parted", seed=1)
    second = model(dropout=0.2)
    train(second, feed(), settings, folder=tmp_path / "parted", seed=1, resume=True)
    assert same(copied(whole), copied(second))
    assert not same(copied(first), copied(second))


def test_parts_of_a_packed_update_sum_to_the_whole(tmp_path: Path) -> None:
    found = []
    for parts in (1, 3):
        one = model(dropout=0.0).double()
        train(one, feed(), plan(steps=3, accumulate=parts), folder=tmp_path / str(parts), seed=1)
        found.append(copied(one))
    for name, weight in found[0].items():
        torch.testing.assert_close(found[1][name], weight, rtol=1e-9, atol=1e-9)


def test_a_cpu_captures_nothing() -> None:
    world = World(torch.device("cpu"))
    assert not CapturedUpdates.suits(plan(cuda_graphs="auto"), world)
    assert not CapturedUpdates.suits(plan(cuda_graphs="never"), World(torch.device("cuda")))
    assert not CapturedUpdates.suits(plan(cuda_graphs="auto"), World(torch.device("cuda"), rank=0, size=2))
    assert not CapturedUpdates.suits(plan(cuda_graphs="auto", accumulate=2), World(torch.device("cuda")))


def test_cuda_graphs_that_are_always_wanted_and_cannot_be_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        RegardError, match=r"cuda_graphs = always, with 1 processes on cpu and accumulate = 1"
    ):
        train(model(), feed(), plan(cuda_graphs="always"), folder=tmp_path, seed=1, device="cpu")
    with pytest.raises(RegardError, match=r"in one part, on a GPU; set cuda_graphs = auto"):
        CapturedUpdates.suits(plan(cuda_graphs="always", accumulate=2), World(torch.device("cuda")))


def test_filled_up_batches_have_round_shapes_and_the_same_loss() -> None:
    pairs, one, shapes = feed(), model(dropout=0.0).double(), set()
    for samples in list(pairs.order(0)) + list(pairs.order(1)):
        batch = pairs.batch(samples)
        source, target = filled_up(batch.source, batch.target, budget=250)
        shapes.add((source.tokens.shape[0], target.tokens.shape[0], len(source)))
        assert len(source) == len(target)  # the n-th asks the n-th
        real, padded = one.loss(batch), one.loss(Pairs(source, target))
        assert float(padded.count) == float(real.count)
        torch.testing.assert_close(padded.total, real.total, rtol=1e-12, atol=0)
    assert len(shapes) < 8
    for *sizes, rows in shapes:
        assert max(sizes) == rows
        assert rows % 32 == 0
        assert all(size % (rows // 8) == 0 for size in sizes)


def test_on_a_cpu_packed_texts_have_an_even_number_of_tokens_and_the_same_loss() -> None:
    pairs, one = feed(), model(dropout=0.0).double()
    for count in range(9, 18):
        batch = pairs.batch(range(count))
        found = evened(batch)
        for mine, given in ((found.source, batch.source), (found.target, batch.target)):
            assert mine.tokens.shape[0] % 16 == 0 <= mine.tokens.shape[0] - given.tokens.shape[0] < 16
            assert mine.lengths.equal(given.lengths)
        torch.testing.assert_close(one.loss(found).total, one.loss(batch).total, rtol=1e-12, atol=0)
    padded = feed(packed=False).batch(range(17))
    assert evened(padded).source is padded.source
    for precision, even in (("bfloat16", True), ("float32", False)):
        settings = plan(precision=precision)
        updater = Updater(
            TrainingState(model(), settings), settings, world=World(torch.device("cpu")), seed=3
        )
        made = updater.prepare(pairs, BatchPlace(0, 0, range(17))).batches[0]
        assert (made.source.tokens.shape[0] % 16 == 0) == even
        assert batch.source.tokens.shape[0] % 16 != 0


def test_a_record_is_made_for_longer_texts_too_but_not_for_positions_that_are_not_there() -> None:
    one, batch = model(dropout=0.0).double(), feed().batch(range(20))
    longer = Pairs(reaching(batch.source, None), reaching(batch.target, None))
    assert (longer.source.longest, longer.target.longest) == (64, 64)
    assert one.loss(longer).total.equal(one.loss(batch).total)
    few = batch.source.longest + 1
    assert reaching(batch.source, few).longest == few
    assert (
        reaching(batch.source, few - 2).longest == batch.source.longest
    )  # which the model will refuse itself


def test_what_fills_up_packed_texts_cannot_matter() -> None:
    batch = feed().batch(range(20))
    filled, found = Pairs(*filled_up(batch.source, batch.target, budget=256)), []
    for rubbish in (0.0, torch.nan):
        one = model(dropout=0.0, norm="before").double()
        with torch.no_grad():
            one.target_embedding.table[0] = rubbish  # filling is token 0, which is in no text
        vectors = one.encode(filled.source)[filled.source.lengths.sum() :]
        assert vectors.isfinite().all()
        with torch.no_grad():
            words = torch.where(one.target_embedding.table.isnan(), 0.0, one.target_embedding.table)
        logits = one._decode(filled, Layout.of(filled.target)) @ words.mT
        logits.square().sum().backward()
        found.append([logits, *(weight.grad for weight in one.parameters())])
    for clean, soiled in zip(*found, strict=True):
        assert clean is not None
        assert torch.equal(clean, soiled)


def test_padded_texts_of_many_lengths_come_in_few_shapes() -> None:
    shapes, pairs = set(), feed(packed=False)
    for samples in list(pairs.order(0)) + list(pairs.order(1)):
        batch = pairs.batch(samples)
        source, target = rounded(batch.source, batch.target)
        assert len(source) == len(target) < 1.25 * len(batch) + 1
        assert source.tokens[: len(batch), : batch.source.tokens.shape[1]].equal(batch.source.tokens)
        assert source.lengths.sum() == batch.source.lengths.sum()
        shapes.add((len(source), source.tokens.shape[1], target.tokens.shape[1]))
    assert all(length % 8 == 0 for _, *lengths in shapes for length in lengths)
    assert len(shapes) < 10


@pytest.mark.parametrize(
    ("recipe", "change", "said"),
    [
        ("numbers-recurrent", "training.packing=true", "training.packing with model.kind recurrent"),
        ("numbers", "model.stochastic_depth=0.1", "training.packing with stochastic_depth=0.1"),
        ("digits", "training.packing=true", "training.packing with model.kind vision"),
    ],
)
def test_what_cannot_be_packed_is_refused_by_name(recipe: str, change: str, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        packs(find(recipe, ["training.packing=true", change]))
    assert packs(find("numbers", ["training.packing=true"]))
    assert not packs(find("numbers-recurrent", []))


gpu = pytest.mark.gpu


def recurrent(**changes: Any) -> RecurrentTranslator:
    torch.manual_seed(0)
    config = RecurrentConfig(width=32, embedding_width=24, source_vocabulary=50, target_vocabulary=50)
    return RecurrentTranslator(replace(config, **{"dropout": 0.1, **changes}))


def updates(
    settings: Training,
    *,
    refused: bool = False,
    watched: int | None = None,
    of: Any = model,
    **changes: Any,
) -> tuple[list[Tensor], Updater]:
    """The weights after some updates on a GPU."""
    one, pairs = of(**changes).cuda().train(), feed(packed=of is model)
    state = TrainingState(one, settings)
    updater = Updater(state, settings, world=World(torch.device("cuda")), seed=3)
    if refused and updater._captured is not None:
        updater._captured.refusal = "asked for"
    order = batch_order(pairs, epoch=0, position=0)
    for step in range(1, settings.steps + 1):
        work = updater.prepare(pairs, next(order))
        if step == watched:
            with watch(one):
                pending = updater.compute(work, stop=False)
        else:
            pending = updater.compute(work, stop=False)
        update, _ = updater.apply(work, pending)
        state.progress = replace(state.progress, step=update.step)
    return [weight.detach().clone() for weight in one.parameters()], updater


@gpu
@pytest.mark.parametrize(
    "changes", [{"dropout": 0.1}, {"dropout": 0.1, "attention_dropout": 0.1, "positions": "rotary"}], ids=str
)
def test_a_captured_update_comes_out_as_one_that_is_not(changes: dict[str, Any]) -> None:
    settings = plan(cuda_graphs="auto", precision="bfloat16")
    captured, updater = updates(settings, **changes)
    computed, _ = updates(settings, refused=True, **changes)
    assert updater._captured is not None
    assert updater._captured._updates
    assert all(torch.equal(a, b) for a, b in zip(captured, computed, strict=True))


@gpu
@pytest.mark.parametrize(
    "changes",
    [
        {"attention": "additive"},
        {"attention": "bilinear", "wiring": "recurrent-context", "cell": "gru"},
        {"attention": "additive", "depth": 2, "dropout": 0.0},  # cuDNN's own random numbers know no seed
    ],
    ids=str,
)
def test_a_captured_update_of_a_recurrent_translator_comes_out_as_one_that_is_not(
    changes: dict[str, Any],
) -> None:
    settings = plan(cuda_graphs="auto", precision="bfloat16", steps=30)
    captured, updater = updates(settings, of=recurrent, **changes)
    computed, _ = updates(settings, refused=True, of=recurrent, **changes)
    assert updater._captured is not None
    assert updater._captured._updates
    assert all(torch.equal(a, b) for a, b in zip(captured, computed, strict=True))


@gpu
def test_a_recurrent_translator_learns_from_filled_up_texts_what_it_learns_from_others() -> None:
    one = recurrent(attention="additive").cuda().eval()
    batch = feed(packed=False).batch(range(40))
    assert isinstance(batch.target, Sequences)
    found = []
    for given in (batch, Pairs(*rounded(batch.source, batch.target))):
        one.zero_grad()
        with torch.backends.cudnn.flags(enabled=False):  # which refuses to go back through a model at rest
            loss = one.loss(given.to("cuda"))
            loss.total.backward()
        found.append([loss.total.detach(), *(weight.grad for weight in one.parameters())])
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)


@gpu
def test_what_is_not_finite_leaves_a_captured_training_as_it_was() -> None:
    weights, updater = updates(plan(cuda_graphs="auto"))
    state = updater.state
    with torch.no_grad():
        state.model.decoder_norm.weight[0] = torch.inf
    before = {name: tensor.clone() for name, tensor in state.tensors().items() if "random" not in name}
    work = updater.prepare(feed(), next(batch_order(feed(), epoch=0, position=0)))
    pending = updater.compute(work, stop=False)
    assert pending.captured is not None
    with pytest.raises(RegardError, match="stops before its update: the loss is nan"):
        updater.apply(work, pending)
    assert all(state.tensors()[name].equal(tensor) for name, tensor in before.items())
    assert len(weights) == len(list(state.model.parameters()))


@gpu
def test_looking_at_an_update_changes_nothing() -> None:
    settings = plan(cuda_graphs="auto", precision="bfloat16")
    plain, _ = updates(settings, dropout=0.1)
    watched, _ = updates(settings, watched=9, dropout=0.1)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def sloped(name: str, weight: Tensor) -> list[Tensor]:
    """A weight without the bias of keys, whose slope is rounding alone: Adam makes that as long as any other."""
    if not name.endswith("input.all.bias"):
        return [weight]
    of_queries, _, of_values = weight.chunk(3)
    return [of_queries, of_values]


def test_a_bias_of_keys_has_no_slope() -> None:
    one = model(dropout=0.0).double()
    one.loss(feed().batch(range(20))).total.backward()
    biases = [weight for name, weight in one.named_parameters() if name.endswith("input.all.bias")]
    assert len(biases) == 3
    for bias in biases:
        of_queries, of_keys, of_values = bias.grad.chunk(3)
        assert of_keys.abs().max() < 1e-12
        assert min(of_queries.abs().max(), of_values.abs().max()) > 1e-3


@gpu
@pytest.mark.usefixtures("as_a_user")  # the check of shapes is not for compilers
def test_compiled_blocks_learn_the_same_within_rounding_and_refuse_to_be_watched() -> None:
    plain, _ = updates(plan(cuda_graphs="auto"), dropout=0.0)
    compiled, _ = updates(plan(cuda_graphs="compiled"), dropout=0.0)
    for name, a, b in zip(dict(model().named_parameters()), plain, compiled, strict=True):
        for mine, other in zip(sloped(name, a), sloped(name, b), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-2, atol=1e-3)
    with pytest.raises(RegardError, match="compiled blocks cannot be watched"):
        updates(plan(cuda_graphs="compiled"), watched=2)


@gpu
def test_padded_batches_cannot_be_captured() -> None:
    settings, padded = plan(cuda_graphs="always"), feed(packed=False)
    state = TrainingState(model().cuda(), settings)
    updater = Updater(state, settings, world=World(torch.device("cuda")), seed=3)
    work = updater.prepare(padded, next(batch_order(padded, epoch=0, position=0)))
    with pytest.raises(RegardError, match=r"cannot be captured: .* set training\.packing"):
        updater.compute(work, stop=False)


@gpu
def test_what_depends_on_more_than_shapes_is_computed_as_it_comes() -> None:
    _, updater = updates(plan(cuda_graphs="auto"), positions="relative")
    assert updater._captured is not None
    assert updater._captured.refusal is not None
    assert not updater._captured._updates


@gpu
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "relative"])
def test_a_gpu_gives_packed_texts_the_loss_of_float64(positions: Any) -> None:
    exact = model(positions=positions, dropout=0.0).double()
    batch = feed().batch(range(60))
    filled = Pairs(
        *(side.filled_up(1024, 128) for side in (batch.source, batch.target) if isinstance(side, Packed))
    )
    right = exact.loss(feed(packed=False).batch(range(60)))
    right.total.backward()
    one = model(positions=positions, dropout=0.0).cuda()
    for packed in (batch, filled):
        one.zero_grad()
        loss = one.loss(packed.to("cuda"))
        loss.total.backward()
        torch.testing.assert_close(loss.total.double().cpu(), right.total, rtol=1e-5, atol=0)
        for mine, other in zip(one.parameters(), exact.parameters(), strict=True):
            if other.grad is not None and mine.grad is not None:
                torch.testing.assert_close(mine.grad.double().cpu(), other.grad, rtol=1e-2, atol=1e-3)


@gpu
def test_mixed_precision_on_a_gpu_has_the_gradients_of_float64_within_its_rounding() -> None:
    exact, batch = model(dropout=0.0).double(), feed().batch(range(60))
    exact.loss(batch).total.backward()
    one = model(dropout=0.0).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        loss = one.loss(batch.to("cuda"))
    loss.total.backward()
    for mine, other in zip(one.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert (mine.grad.double().cpu() - other.grad).norm() < 0.03 * other.grad.norm()


def test_why_updates_are_not_captured_is_said_in_words():
    parted = plan(cuda_graphs="auto", accumulate=2)
    gpu = World(torch.device("cuda"))
    updater = Updater(TrainingState(model(), parted), parted, world=gpu, seed=1)
    assert (
        updater.uncaptured
        == "captured are updates of one process in one part, not of 1 processes, 2 parts an update"
    )
    never = plan(cuda_graphs="never", accumulate=2)
    assert Updater(TrainingState(model(), never), never, world=gpu, seed=1).uncaptured is None
    on_cpu = plan(cuda_graphs="auto")
    assert (
        Updater(TrainingState(model(), on_cpu), on_cpu, world=World(torch.device("cpu")), seed=1).uncaptured
        is None
    )
    padded = feed(packed=False)
    assert "lengths of padded texts differ" in _unshaped(padded.batch(padded.order(0)[0]))
    assert (
        _unshaped(Images(torch.zeros(1, 1, 4, 4)))
        == "that is done with packed texts and with recurrent translators"
    )
