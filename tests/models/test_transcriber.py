"""The transcriber: step by step, in any company, with anything in the padding, and under every decoder."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from models.samples import (
    follow,
    noisy,
    parameters_without_gradient,
    sequences,
    shaken,
    sounds,
    stepped,
    through_json,
)
from torch import Tensor

from regard import watch
from regard.data.batches import END, Pairs, Sequences, Sounds
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.decoding.forced import log_probabilities
from regard.decoding.sampling import sample
from regard.models.transcriber import Transcriber, TranscriberConfig, pico

SMALL = TranscriberConfig(
    target_vocabulary=19,
    rate=800,
    window=23,
    hop=7,
    bands=5,
    width=12,
    heads=2,
    depth=2,
    decoder_depth=2,
    hidden_width=23,
    dropout=0.0,
    longest=20,
)
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"]


def made(**changes: Any) -> Transcriber:
    return shaken(Transcriber(replace(SMALL, **changes)).double())


def batch() -> Pairs:
    return Pairs(sounds(131, 61, 3), sequences(2, 5, 3, vocabulary=19))


def alone(source: Sounds, row: int) -> Sounds:
    return Sounds(source.samples[row : row + 1, : source.lengths[row]], source.lengths[row : row + 1])


@pytest.mark.parametrize("positions", POSITIONS)
def test_stepping_is_teacher_forcing(positions: str) -> None:
    model, data = made(positions=positions), batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)


def test_picked_rows_go_on_as_if_alone() -> None:
    model, source = made(), batch().source

    def told(row: int, text: list[int]) -> Tensor:
        return model.logits(Pairs(alone(source, row), Sequences.of([[*text[1:], END]])))[0, -1]

    picks = [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 1, 4, 5], [3, 2]]
    assert follow(model, model.start(source), picks, told, vocabulary=19) < 1e-4  # samples are float32


def test_every_decoder_writes_alike_alone_and_in_company() -> None:
    model, heard = made(), sounds(131, 3, 90)
    texts = greedy(model, heard, limits=5)
    drawn = sample(model, heard, limits=5, seed=3)
    best = beam(model, heard, size=3, limits=5)
    for row in range(3):
        one = alone(heard, row)
        assert greedy(model, one, limits=5)[0].tokens == texts[row].tokens
        assert beam(model, one, size=3, limits=5)[0][0].tokens == best[row][0].tokens
        assert (
            sample(model, one, limits=5, seed=3, numbers=torch.tensor([row]))[0].tokens == drawn[row].tokens
        )
        text = best[row][0]
        target = Sequences.of([[*text.tokens, *[END] * text.finished]])
        assert log_probabilities(model, Pairs(one, target))[0].log_probability == pytest.approx(
            text.log_probability, abs=1e-4
        )


@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_padding_cannot_matter_to_the_bit(norm: str) -> None:
    model, data, found = shaken(Transcriber(replace(SMALL, norm=norm))), batch(), []
    for filling in (0.0, float("nan"), 1e30):
        model.zero_grad()
        filled = Pairs(noisy(data.source, filling), data.target)
        loss = model.loss(filled).total
        loss.backward()
        steps = stepped(model, model.start(filled.source), data.target.decoder_input())
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, steps, *grads])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("tied", ["none", "output"])
def test_the_gradient_reaches_every_parameter(tied: str) -> None:
    model = made(tied=tied)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_every_attention_is_seen_by_name() -> None:
    model = made()
    with watch(model) as seen:
        model.logits(batch())
    blocks = [f"decoder.{n}.{kind}" for n in range(2) for kind in ("attention", "cross")]
    assert seen.names == ["encoder.blocks.0.attention", "encoder.blocks.1.attention", *blocks]
    assert seen["decoder.1.cross"].shape == (3, 2, 5, 10)  # recordings, heads, words, frames


def test_configs_survive_json_and_build() -> None:
    for config in (SMALL, pico()):
        assert through_json(config) == config
        Transcriber(replace(config, target_vocabulary=19))
