"""Steady decoding, step by step on the CPU, against the ordinary loops: the same texts from the same work each step."""

from typing import Any

import pytest
import torch

from regard.data.batches import END, Sequences
from regard.decoding.beam import beam
from regard.decoding.evaluating import evaluating
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.ranking import best
from regard.decoding.steady import Steady, SteadyGreedy
from regard.decoding.steady_beam import SteadyBeam, foremost
from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig

WORDS, ROOM, COUNT = 29, 9, 23
LIMITS = torch.tensor([ROOM - index % 4 for index in range(COUNT)])


def lively(**changes: Any) -> Transformer:
    """A model whose texts differ, and some end."""
    config = TransformerConfig(
        width=32,
        heads=4,
        depth=1,
        decoder_depth=2,
        inner=48,
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
                weight.copy_(torch.randn(weight.shape, generator=generator) * 1.5 / weight.shape[-1] ** 0.5)
        model.get_parameter("output.weight")[END] *= 3
    return model


def sources() -> Sequences:
    sizes = torch.randint(1, 9, (COUNT,)).tolist()
    return Sequences.of([[*torch.randint(3, WORDS, (size,)).tolist(), END] for size in sizes])


def steadily(steady: Steady) -> list[list[Hypothesis]]:
    steady.begin()
    for _ in range(ROOM):
        steady.step()
    return steady.found()


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(one.tokens, one.finished) for one in some] for some in found]


def numbers(found: list[list[Hypothesis]]) -> list[float]:
    return [number for some in found for one in some for number in (one.logprob, one.score)]


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
def test_the_texts_are_those_of_the_ordinary_loops(changes: dict[str, Any], size: int | None) -> None:
    model, source = lively(**changes), sources()
    count = min(2, size or 1)
    if size is None:
        wanted = [[one] for one in greedy(model, source, limits=LIMITS)]
    else:
        wanted = beam(model, source, size=size, limits=LIMITS, count=count)
    with evaluating(model):
        state = model.start(source)
        standing = model.stand(state, room=ROOM, group=size or 1)
        assert standing is not None
        steady: Steady
        if size is None:
            steady = SteadyGreedy(standing, LIMITS, room=ROOM)
        else:
            steady = SteadyBeam(standing, LIMITS, size=size, count=count, penalty=0.6, room=ROOM)
        found = steadily(steady)
        standing.take(state)
        again = steadily(steady)
    assert texts(found) == texts(wanted) == texts(again)
    assert numbers(found) == pytest.approx(numbers(wanted), abs=1e-4)
    assert any(finished for some in texts(found) for _, finished in some)
    assert not all(finished for some in texts(found) for _, finished in some)


def test_a_standing_decode_takes_shorter_sources() -> None:
    model, source = lively(), sources()
    short = Sequences(source.tokens[:, :4], source.lengths.clamp_max(4))
    with evaluating(model):
        standing = model.stand(model.start(source), room=ROOM, group=1)
        assert standing is not None
        steady = SteadyGreedy(standing, LIMITS, room=ROOM)
        steadily(steady)
        standing.take(model.start(short))
        found = steadily(steady)
    assert texts(found) == texts([[one] for one in greedy(model, short, limits=LIMITS)])


def test_a_bias_of_positions_cannot_stand() -> None:
    model = lively(positions="alibi")
    with evaluating(model):
        assert model.stand(model.start(sources()), room=ROOM, group=2) is None


def test_nan_is_reported_with_its_step_and_source() -> None:
    model, source = lively(), sources()
    with evaluating(model):
        standing = model.stand(model.start(source), room=ROOM, group=3)
        assert standing is not None

        class Faulty:
            at, take, go_on = standing.at, standing.take, standing.go_on

            def step(self, tokens: torch.Tensor) -> torch.Tensor:
                logits = standing.step(tokens)
                return logits.index_fill(0, torch.tensor([3 * 7]), torch.nan) if int(self.at) == 2 else logits

        steady = SteadyBeam(Faulty(), LIMITS, size=3, count=1, penalty=0.6, room=ROOM)
        with pytest.raises(RegardError, match=r"step 2, row 7: the model gave NaN"):
            steadily(steady)


def test_the_foremost_are_the_best_of_equals_the_first() -> None:
    values = torch.randint(0, 4, (50, 11)).float()
    wanted = best(values, 4)
    found = foremost(values.clone(), 4)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1], wanted[1])
