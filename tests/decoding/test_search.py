"""A search over static caches, step by step on the CPU, against growing ones: the same texts from the same buffers."""

import math
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from decoding.toys import Toy
from torch import Tensor

from regard import intervene, watch, weigh
from regard.data.batches import END, PAD, START, Sequences
from regard.decoding.beam import BeamSearch, beam
from regard.decoding.decode import SteppedDecode, evaluating, greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import drawing, row_keys, sample
from regard.decoding.search import SingleSearch, best, fault, leading, normalised, permitted
from regard.decoding.static_decode import _StaticDecode
from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig

WORDS, CAPACITY, COUNT = 29, 9, 23
LIMITS = torch.tensor([CAPACITY - index % 4 for index in range(COUNT)])


def lively(**changes: Any) -> Transformer:
    """A model whose texts differ, and some end."""
    config = TransformerConfig(
        width=32,
        heads=4,
        depth=1,
        decoder_depth=2,
        hidden_width=48,
        tied="none",
        source_vocabulary=WORDS,
        target_vocabulary=WORDS,
        longest=16,
        **changes,
    )
    model = Transformer(config).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                drawn = torch.randn(weight.shape, generator=generator, device="cpu")
                weight.copy_(drawn * 1.5 / weight.shape[-1] ** 0.5)
        model.get_parameter("output.weight")[END] *= 3
    return model


def scored(score: str) -> Transformer:
    """One with another score, and fewer texts that end."""
    model = lively(score=score, kv_heads=2)
    with torch.no_grad():
        model.get_parameter("output.weight")[END] /= 3
    return model


def sources() -> Sequences:
    sizes = torch.randint(1, 9, (COUNT,)).tolist()
    given = Sequences.of([[*torch.randint(3, WORDS, (size,)).tolist(), END] for size in sizes])
    return given.to(torch.get_default_device())


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(one.tokens, one.finished) for one in some] for some in found]


def numbers(found: list[list[Hypothesis]]) -> list[float]:
    return [number for some in found for one in some for number in (one.log_probability, one.ranking)]


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "sinusoidal"},
        {"positions": "learned", "norm": "after"},
        {"positions": "rotary", "norm": "inside"},
        {"positions": "none", "kv_heads": 2},
    ],
    ids=lambda changes: changes["positions"],
)
@pytest.mark.parametrize("size", [None, 1, 2, 5])
def test_static_caches_give_the_texts_of_growing_ones(changes: dict[str, Any], size: int | None) -> None:
    model, source = lively(**changes), sources()
    count = min(2, size or 1)
    make: Any = SingleSearch if size is None else partial(BeamSearch, size=size, count=count, penalty=0.6)
    if size is None:
        wanted = [[one] for one in greedy(model, source, limits=LIMITS)]
    else:
        wanted = beam(model, source, size=size, limits=LIMITS, count=count)
    with evaluating(model):
        static = _StaticDecode.of(model, model.start(source), make, LIMITS.tolist(), CAPACITY, size or 1)
        assert static is not None
        found = static.run(model, LIMITS.tolist())
        static.begin(model, source)
        again = static.run(model, LIMITS.tolist())
    assert texts(found) == texts(wanted) == texts(again)
    assert numbers(found) == pytest.approx(numbers(wanted), abs=1e-4)
    assert any(finished for some in texts(found) for _, finished in some)
    assert not all(finished for some in texts(found) for _, finished in some)


@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "low-rank", "additive"])
@pytest.mark.parametrize("size", [None, 3])
def test_static_caches_take_every_score(score: str, size: int | None) -> None:
    model, source = scored(score), sources()
    make: Any = SingleSearch if size is None else partial(BeamSearch, size=size, count=1, penalty=0.6)
    if size is None:
        wanted = [[one] for one in greedy(model, source, limits=LIMITS)]
    else:
        wanted = beam(model, source, size=size, limits=LIMITS)
    with evaluating(model):
        static = _StaticDecode.of(model, model.start(source), make, LIMITS.tolist(), CAPACITY, size or 1)
        assert static is not None
        found = static.run(model, LIMITS.tolist())
    assert texts(found) == texts(wanted)
    assert numbers(found) == pytest.approx(numbers(wanted), abs=1e-4)
    assert len({tuple(one.tokens) for some in found for one in some}) > 5


def test_sampling_over_static_caches_draws_the_same_texts() -> None:
    model, source = lively(), sources()
    wanted = sample(model, source, limits=LIMITS, seed=3, temperature=1.3)
    make = partial(SingleSearch, choose=drawing(temperature=1.3))
    with evaluating(model):
        static = _StaticDecode.of(model, model.start(source), make, LIMITS.tolist(), CAPACITY, 1)
        assert static is not None
        found = static.prepared(LIMITS.tolist(), row_keys(3)).run(model, LIMITS.tolist())
    assert texts(found) == texts([[one] for one in wanted])


def test_static_caches_take_shorter_sources() -> None:
    model, source = lively(), sources()
    short = Sequences(source.tokens[:, :4], source.lengths.clamp_max(4))
    with evaluating(model):
        made = _StaticDecode.of(model, model.start(source), SingleSearch, LIMITS.tolist(), CAPACITY, 1)
        assert made is not None
        made.run(model, LIMITS.tolist())
        made.begin(model, short)
        found = made.run(model, LIMITS.tolist())
    assert texts(found) == texts([[one] for one in greedy(model, short, limits=LIMITS)])


def test_a_source_without_a_token_among_others_gets_what_it_gets_alone() -> None:
    model, source = lively(), sources()
    lengths = source.lengths.clone()
    lengths[3] = 0
    source = Sequences(source.tokens, lengths)
    wanted = [[one] for one in greedy(model, source, limits=LIMITS)]
    with evaluating(model):
        made = _StaticDecode.of(model, model.start(source), SingleSearch, LIMITS.tolist(), CAPACITY, 1)
        assert made is not None
        assert texts(made.run(model, LIMITS.tolist())) == texts(wanted)


def test_a_bias_of_positions_has_no_static_caches_nor_have_positions_beyond_the_last() -> None:
    for model, capacity in ((lively(positions="alibi"), CAPACITY), (lively(positions="learned"), 17)):
        with evaluating(model):
            state = model.start(sources())
            assert model.static_state(state, capacity=capacity, group=2) is None


@pytest.mark.parametrize("size", [None, 3])
def test_observers_see_the_keys_of_every_row_and_change_no_bit(size: int | None) -> None:
    """Over static caches as over growing ones: the same calls, row by row."""
    model, source = lively(positions="rotary"), sources()
    make: Any = SingleSearch if size is None else partial(BeamSearch, size=size, count=1, penalty=0.6)
    limits = [CAPACITY] * COUNT
    found, seen = [], []
    for watched in (False, True):
        with evaluating(model):
            made = _StaticDecode.of(model, model.start(source), make, limits, CAPACITY, size or 1)
            assert made is not None
            if not watched:
                found.append(made.run(model, limits))
                continue
            with watch(model) as static:
                found.append(made.run(model, limits))
            seen.append(static)
    assert texts(found[0]) == texts(found[1])
    assert numbers(found[0]) == numbers(found[1])
    with watch(model) as growing, evaluating(model):
        stepped = SteppedDecode(model, source, make, limits=CAPACITY)
        stepped.step()
        stepped.step()
    for name in ("decoder.1.attention", "decoder.1.cross"):
        ours, theirs = (each.calls(name)[1].call for each in (seen[0], growing))
        assert ours.query.shape == theirs.query.shape
        torch.testing.assert_close(weigh(ours), weigh(theirs), rtol=0, atol=2e-6)


def test_an_intervention_that_changes_nothing_changes_no_bit() -> None:
    model, source, limits = lively(), sources(), [CAPACITY] * COUNT
    make = partial(BeamSearch, size=3, count=1, penalty=0.6)
    found = []
    for scaled in (False, True):
        with evaluating(model):
            made = _StaticDecode.of(model, model.start(source), make, limits, CAPACITY, 3)
            assert made is not None
            with (
                intervene(model, {"decoder.1.attention": [], "decoder.0.cross": []})
                if scaled
                else nullcontext()
            ):
                found.append(made.run(model, limits))
    assert texts(found[0]) == texts(found[1])
    assert numbers(found[0]) == numbers(found[1])


def test_nan_is_reported_with_its_step_and_source() -> None:
    model, source = lively(), sources()
    make = partial(BeamSearch, size=3, count=1, penalty=0.6)

    class Faulty:
        def step_static(self, tokens: Tensor, state: Any) -> Tensor:
            logits = model.step_static(tokens, state)
            wrong = torch.tensor([3 * 7])
            return logits.index_fill(0, wrong, torch.nan) if int(state.at) == 2 else logits

    with evaluating(model):
        made = _StaticDecode.of(model, model.start(source), make, [CAPACITY] * COUNT, CAPACITY, 3)
        assert made is not None
        with pytest.raises(RegardError, match=r"step 2, row 7: the model gave NaN"):
            made.run(Faulty(), [CAPACITY] * COUNT)


def test_more_steps_than_the_first_buffers_hold() -> None:
    """A text of 200 tokens: the buffers of an eager search grow."""

    def logits(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        return [-9.0, -9.0, 9.0 if len(text) == 200 else -99.0, len(text) % 2, 0.5]

    model = Toy(logits)
    (one,) = greedy(model, Sequences.of([[4, END]]), limits=300)
    assert one.tokens == [3 if step % 2 else 4 for step in range(1, 200)]
    ((best,),) = beam(model, Sequences.of([[4, END]]), size=3, limits=230, penalty=0.0)
    assert (best.finished, best.tokens) == (True, one.tokens)


def test_probabilities_are_those_of_the_whole_vocabulary_without_pad_and_start() -> None:
    logits = torch.tensor([[0.0, math.log(2), math.log(3), math.log(4)]])
    found = permitted(logits)
    assert found[0, [PAD, START]].tolist() == [-math.inf, -math.inf]
    assert found[0, 2:].exp().tolist() == pytest.approx([0.3, 0.4])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_widened_before_the_sum(dtype: torch.dtype) -> None:
    logits = torch.randn(4, 3000).to(dtype)
    found = normalised(logits)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), logits.double().log_softmax(-1), rtol=0, atol=5e-6)


def test_the_logits_are_left_as_they_were() -> None:
    logits = torch.randn(3, 7)
    before = logits.clone()
    permitted(logits)
    leading(logits, 2)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize(("value", "told"), [(math.nan, "gave NaN"), (math.inf, "gave inf")])
def test_of_what_is_no_number_the_likeliest_is_not_finite(
    place: int, value: float, told: str, dtype: torch.dtype, count: int
) -> None:
    logits = torch.randn(3, 7, dtype=dtype)
    logits[1, place] = value
    found, tokens = leading(logits, count)
    assert found[:, 0].isfinite().tolist() == [True, False, True]
    assert ((tokens >= 0) & (tokens < 7)).all()
    assert told in fault(logits[1])


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_forbidden_token_may_be_among_others_but_not_all(dtype: torch.dtype, count: int) -> None:
    logits = torch.randn(3, 7, dtype=dtype)
    logits[1, 3:] = -torch.inf
    assert permitted(logits)[1, 3:].tolist() == [-math.inf] * 4
    assert leading(logits, count)[0][:, 0].isfinite().all()
    logits[1, 2] = -torch.inf
    assert leading(logits, count)[0][:, 0].isfinite().tolist() == [True, False, True]
    assert "leaves nothing to choose from" in fault(logits[1])


@pytest.mark.parametrize("count", [1, 2, 5, 13, 17])
@pytest.mark.parametrize("levels", [2, 4, 1000])
def test_the_best_are_those_of_a_stable_sort(count: int, levels: int) -> None:
    values = torch.randint(levels, (11, 13)).float()
    values[3] = -torch.inf
    found, index = best(values, count)
    for row, numbers in enumerate(values.tolist()):
        order = sorted(range(13), key=lambda i: -numbers[i])[:count]
        empty = count - len(order)
        assert index[row].tolist() == order + [0] * empty
        assert found[row].tolist() == [numbers[i] for i in order] + [-torch.inf] * empty


@pytest.mark.parametrize("n", [2048, 2049, 3001])
@pytest.mark.parametrize("levels", [2, 50, 10**6])
def test_the_best_of_very_many_are_those_of_a_stable_sort_too(n: int, levels: int) -> None:
    values = torch.randint(levels, (5, n)).float()
    values[1] = -torch.inf
    values[2, -1] = levels  # behind the last whole block
    for count in (1, 4):
        found, index = best(values, count)
        for row, numbers in enumerate(values.tolist()):
            order = sorted(range(n), key=lambda i: -numbers[i])[:count]
            assert index[row].tolist() == order
            assert found[row].tolist() == [numbers[i] for i in order]
