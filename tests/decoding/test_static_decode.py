"""When a decode is captured; on a GPU, that the texts are the same to the bit however its steps are run."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from decoding.test_search import LIMITS, lively, numbers, scored, sources, texts
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard import intervene, watch
from regard.data.batches import Sequences
from regard.decoding import decode, static_decode
from regard.decoding.beam import beam
from regard.decoding.decode import greedy, static_on
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import sample
from regard.decoding.static_decode import survey
from regard.models.cuda_graph import Captured, Capturing, Readback
from regard.models.transformer import Transformer

gpu = pytest.mark.gpu


def decoded(how: str, model: Transformer, source: Sequences) -> list[list[Hypothesis]]:
    if how == "greedy":
        return [[one] for one in greedy(model, source, limits=LIMITS)]
    if how == "sample":
        return [[one] for one in sample(model, source, limits=LIMITS, seed=5, temperature=1.2)]
    return beam(model, source, size=4, limits=LIMITS, count=2)


def test_a_model_on_the_cpu_steps_over_growing_caches() -> None:
    assert not static_on(lively().cpu(), sources())


def test_one_walk_finds_hooks_modes_and_where_the_weights_are() -> None:
    model = lively().eval()
    first = survey(model)
    assert (first.hooked, first.training) == (False, False)
    deep = model.decoder[1].get_submodule("cross.input.all")
    hook = deep.register_forward_pre_hook(lambda *_: None)
    deep.training = True
    second = survey(model)
    assert (second.hooked, second.training, second.weights) == (True, True, first.weights)
    model.training, deep.training = True, False
    assert survey(model).training
    model.training = False
    assert not survey(model).training
    hook.remove()
    moved = deep.get_parameter("weight")
    moved.data = moved.data.clone()
    assert not survey(model).hooked
    assert survey(model).weights != first.weights


class Replayed(Capturing):
    """What stands in for a CUDA graph on a CPU: a replay runs the function again."""

    def __init__(self) -> None:
        """No stream."""

    @contextmanager
    def eagerly(self) -> Iterator[None]:
        yield

    def capture(self, function: Callable[[], Any]) -> Any:
        function()  # a capture leaves its buffers in any state
        return Captured(function, None)


class Sent(Readback):
    """What stands in for a copy to the host."""

    def __init__(self, like: Tensor) -> None:
        self.value = like

    def send(self, value: Tensor) -> None:
        self.value = value.clone()

    def wait(self) -> Tensor:
        return self.value


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_replayed_steps_give_the_texts_of_growing_caches(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, source = lively(), sources()
    short = Sequences(source.tokens[:, :5], source.lengths.clamp_max(5))
    wanted = [decoded(how, model, each) for each in (source, short)]
    monkeypatch.setattr(static_decode, "Capturing", Replayed)
    monkeypatch.setattr(static_decode, "Readback", Sent)
    monkeypatch.setattr(decode, "static_on", lambda *_: True)
    for _ in range(3):
        for each, texts_of in zip((source, short), wanted, strict=True):
            assert texts(decoded(how, model, each)) == texts(texts_of)
    assert len(static_decode._graphs[model].by_shape) == 1  # both lengths share one decode


def in_threads(how: str, model: Transformer, given: list[Sequences]) -> list[list[list[Hypothesis]]]:
    """Every source decoded several times, all sources at the same time."""
    ready = threading.Barrier(len(given))

    def several(source: Sequences) -> list[list[list[Hypothesis]]]:
        ready.wait()
        return [decoded(how, model, source) for _ in range(4)]

    with ThreadPoolExecutor(len(given)) as pool:
        found = list(pool.map(several, given))
    assert all(texts(each) == texts(first) for first, *others in found for each in others)
    return [first for first, *_ in found]


def two_sources() -> list[Sequences]:
    """Of one shape, so that their decodes share buffers."""
    source = sources()
    return [source, Sequences(source.tokens.flip(0), source.lengths.flip(0))]


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_threads_that_decode_with_one_model_do_not_share_buffers(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, given = lively().eval(), two_sources()
    wanted = [decoded(how, model, each) for each in given]
    monkeypatch.setattr(static_decode, "Capturing", Replayed)
    monkeypatch.setattr(static_decode, "Readback", Sent)
    monkeypatch.setattr(decode, "static_on", lambda *_: True)
    for found, texts_of in zip(in_threads(how, model, given), wanted, strict=True):
        assert texts(found) == texts(texts_of)


class Waits(TorchDispatchMode):
    """Notes operations that read something back to the host, which a capture does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        name = str(function)
        if any(part in name for part in ("local_scalar", "nonzero", "is_nonzero", "unique", "masked_select")):
            self.found.append(name)
        return function(*given, **(named or {}))


@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_a_step_waits_for_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, source, waits = lively(positions="learned"), sources(), Waits()

    class Watched(Replayed):
        def capture(self, function: Callable[[], Any]) -> Any:
            with waits:
                function()
            return super().capture(function)

    monkeypatch.setattr(static_decode, "Capturing", Watched)
    monkeypatch.setattr(static_decode, "Readback", Sent)
    monkeypatch.setattr(decode, "static_on", lambda *_: True)
    decoded(how, model, source)
    assert waits.found == []


def test_a_model_is_freed_with_what_was_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Replayed):
        def capture(self, function: Callable[[], Any]) -> Any:
            function()
            return Captured(lambda: None, None)  # as a graph: it keeps no Python

    monkeypatch.setattr(static_decode, "Capturing", Forgetful)
    monkeypatch.setattr(static_decode, "Readback", Sent)
    monkeypatch.setattr(decode, "static_on", lambda *_: True)
    model, source = lively(), sources()
    for _ in range(3):
        decoded("greedy", model, source)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_captured_hooked_watched_and_changed_by_nothing_give_the_same_bits(
    how: str, dtype: torch.dtype
) -> None:
    model, source = lively().to("cuda", dtype), sources().to("cuda")
    wanted = decoded(how, model, source)
    found = [decoded(how, model, source) for _ in range(3)]  # captured in steps: sources when they come again
    hook = model.decoder[0].register_forward_hook(lambda *_: None)
    found.append(decoded(how, model, source))
    hook.remove()
    with watch(model) as seen:
        found.append(decoded(how, model, source))
    with intervene(model, {"decoder.1.attention": []}):
        found.append(decoded(how, model, source))
    assert len(seen.calls("decoder.1.cross")) >= 1
    for each in found:
        assert texts(each) == texts(wanted)
        assert numbers(each) == numbers(wanted)


@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "low-rank", "additive"])
def test_every_score_is_captured_and_watched_with_the_same_bits(score: str, dtype: torch.dtype) -> None:
    model, source = scored(score).to("cuda", dtype), sources().to("cuda")
    for how in ("greedy", "beam"):
        wanted = decoded(how, model, source)
        found = [decoded(how, model, source) for _ in range(3)]
        with watch(model):
            found.append(decoded(how, model, source))
        for each in found:
            assert texts(each) == texts(wanted)
            assert numbers(each) == numbers(wanted)
        if dtype == torch.float32:
            slow = scored(score)
            on_cpu = decoded(how, slow, source.to("cpu"))
            assert numbers(wanted) == pytest.approx(numbers(on_cpu), abs=0.02)
            assert texts(wanted) == texts(on_cpu)


@gpu
def test_weights_that_change_in_place_are_the_ones_used() -> None:
    model, source = lively(positions="learned").cuda(), sources().to("cuda")
    for _ in range(3):
        decoded("greedy", model, source)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(-0.7)
    found = decoded("greedy", model, source)
    other = lively(positions="learned")
    other.load_state_dict(model.state_dict())
    assert texts(found) == texts(decoded("greedy", other.cuda(), source))


@gpu
def test_a_model_is_freed_with_its_graphs() -> None:
    model, source = lively().cuda(), sources().to("cuda")
    for _ in range(3):
        decoded("beam", model, source)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@gpu
def test_sources_of_many_lengths_share_their_steps() -> None:
    model, source = lively().cuda(), sources().to("cuda")
    for longest in (9, 4, 7, 9, 4, 7, 4, 2):
        cut = Sequences(source.tokens[:, :longest], source.lengths.clamp_max(longest))
        found = decoded("beam", model, cut)
        hook = model.register_forward_pre_hook(lambda *_: None)
        assert texts(found) == texts(decoded("beam", model, cut))
        hook.remove()


@gpu
@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_threads_decode_with_one_model_and_with_two(how: str) -> None:
    model, other = lively().cuda().eval(), lively().cuda().eval()
    given = [each.to("cuda") for each in two_sources()]
    wanted = [decoded(how, model, each) for each in given]
    for found, texts_of in zip(in_threads(how, model, given), wanted, strict=True):
        assert texts(found) == texts(texts_of)
    with ThreadPoolExecutor(2) as pool:  # a capture of one model while the other is at work
        both = list(pool.map(lambda one: decoded(how, one, given[0]), (other, model)))
    assert [texts(each) for each in both] == [texts(wanted[0])] * 2
