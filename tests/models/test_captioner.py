"""The captioners: against their equations, step by step, and under every decoder."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from layers.test_recurrence import written
from models.samples import (
    follow,
    images,
    parameters_without_gradient,
    sequences,
    shaken,
    stepped,
    through_json,
)
from torch import Tensor, nn

from regard import watch, weigh
from regard.data.batches import END, START, Images, Pairs, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.decoding.forced import log_probabilities
from regard.decoding.sampling import sample
from regard.models.captioner import (
    Captioner,
    CaptionerConfig,
    RecurrentCaptioner,
    RecurrentCaptionerConfig,
    pico,
    show_attend_tell,
)
from regard.models.transformer import Transformer, TransformerConfig

PICTURE: dict[str, Any] = {
    "channels": 2,
    "image_size": (6, 10),
    "patch": (3, 2),
    "widths": (5, 6),
    "strides": (2, 1),
    "units": 1,
    "target_vocabulary": 19,
    "dropout": 0.0,
}
SMALL = CaptionerConfig(
    **PICTURE, width=16, heads=2, depth=2, decoder_depth=2, hidden_width=23, positions="learned", longest=11
)
RECURRENT = RecurrentCaptionerConfig(
    **PICTURE, width=6, embedding_width=5, attention="additive", wiring="recurrent-context"
)
CONFIGS = [
    *(replace(SMALL, positions=name) for name in ("learned", "sinusoidal", "gaussian", "rotary", "none")),
    replace(SMALL, tokens="convolutional", tied="none", norm="after"),
    RECURRENT,
    replace(RECURRENT, tokens="convolutional", attention="bilinear", wiring="output-context", depth=2),
    replace(RECURRENT, tokens="convolutional", cell="gru", positions="learned"),
]


def made(config: CaptionerConfig | RecurrentCaptionerConfig) -> Captioner | RecurrentCaptioner:
    kind = Captioner if isinstance(config, CaptionerConfig) else RecurrentCaptioner
    return shaken(kind(config).double())


def batch() -> Pairs:
    return Pairs(images(), sequences(2, 5, 3, vocabulary=19))


def every(configs: list[Any]) -> Any:
    return pytest.mark.parametrize("config", configs, ids=[str(n) for n in range(len(configs))])


def test_its_decoder_is_the_transformers() -> None:
    # The same decoder over the same memory: a Transformer whose encoder was told the captioner's vectors.
    ours, data = made(replace(SMALL, positions="sinusoidal")), batch()
    assert isinstance(ours, Captioner)
    theirs = Transformer(
        TransformerConfig(
            source_vocabulary=30,
            target_vocabulary=19,
            width=16,
            heads=2,
            depth=0,
            decoder_depth=2,
            hidden_width=23,
            dropout=0.0,
            positions="sinusoidal",
            norm="after",
        )
    ).double()
    vectors = ours.read(data.source).vectors
    for mine, other in zip(ours.decoder, theirs.decoder, strict=True):
        other.load_state_dict(mine.state_dict())
        for around in ("around_attention", "around_cross", "around_feedforward"):
            getattr(other, around).placement = getattr(mine, around).placement
    theirs.decoder_norm = ours.decoder_norm
    theirs.target_embedding.load_state_dict(ours.target_embedding.state_dict())
    places = theirs.source_embedding.positions(torch.arange(10)).double()
    with torch.no_grad():
        theirs.source_embedding.table.copy_(((vectors - places) / 4).flatten(0, 1))  # √16, and its own places
    source = Sequences(torch.arange(30).reshape(3, 10), torch.full((3,), 10))
    expected = theirs.logits(Pairs(source, data.target))
    real = data.target.real()
    torch.testing.assert_close(ours.logits(data)[real], expected[real], rtol=0, atol=1e-6)


def test_show_attend_and_tell_is_its_equations() -> None:
    model, data = made(replace(RECURRENT, tokens="convolutional")), batch()
    assert isinstance(model, RecurrentCaptioner)
    logits = model.logits(data)
    for row in range(3):
        a = model.encoder(Images(data.source.pixels[row : row + 1]))[0]
        assert model.bridges is not None
        assert model.attention is not None
        first = model.bridges[0](a.mean(0))
        state = torch.stack([first[:6].tanh(), first[6:]])[None]
        own: Any = model.attention.score
        target = data.target.tokens[row, : data.target.lengths[row]].tolist()
        for t, token in enumerate([START, *target[:-1]]):
            weights = torch.softmax(
                torch.tanh(a @ own.key_weight.T + own.query_weight @ state[0, 0]) @ own.vector, 0
            )
            context = weights @ a
            x = torch.cat([model.target_embedding.table[token] * math.sqrt(5), context])
            state = written(model.decoder, x[None], state)
            joined = torch.cat([state[0, 0], context])
            expected = model.output(torch.tanh(model.joint.weight @ joined))
            torch.testing.assert_close(logits[row, t], expected, rtol=0, atol=1e-10)


@every(CONFIGS)
def test_stepping_is_teacher_forcing(config: Any) -> None:
    model, data = made(config), batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)


@every([SMALL, RECURRENT])
@pytest.mark.parametrize(
    "picks", [[[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [3, 2]], [[0, 1, 2], [2, 0], [1, 1, 0]]]
)
def test_picked_rows_go_on_as_if_alone(config: Any, picks: list[list[int]]) -> None:
    model, source = made(config), images()

    def told(row: int, text: list[int]) -> Tensor:
        alone = Images(source.pixels[row : row + 1])
        return model.logits(Pairs(alone, Sequences.of([[*text[1:], END]])))[0, -1]

    assert follow(model, model.start(source), picks, told, vocabulary=19) < 1e-10


@every([SMALL, replace(SMALL, tokens="convolutional", positions="rotary"), RECURRENT])
def test_every_decoder_writes_alike_alone_and_in_company(config: Any) -> None:
    model, pictures = made(config), images(3)
    texts = greedy(model, pictures, limits=5)
    assert [each.tokens for each in texts] == [
        each[0].tokens for each in beam(model, pictures, size=1, limits=5, penalty=0.0)
    ]
    assert texts == sample(model, pictures, limits=5, seed=3, temperature=0)
    drawn = sample(model, pictures, limits=5, seed=3)
    best = beam(model, pictures, size=3, count=2, limits=5)
    for row in range(3):
        alone = Images(pictures.pixels[row : row + 1])
        assert greedy(model, alone, limits=5)[0].tokens == texts[row].tokens
        assert beam(model, alone, size=3, count=2, limits=5)[0][0].tokens == best[row][0].tokens
        assert (
            sample(model, alone, limits=5, seed=3, numbers=torch.tensor([row]))[0].tokens == drawn[row].tokens
        )
    for row, (first, second) in enumerate(best):
        for text in (first, second):
            target = Sequences.of([[*text.tokens, *[END] * text.finished]])
            found = log_probabilities(model, Pairs(Images(pictures.pixels[row : row + 1]), target))[
                0
            ].log_probability
            assert found == pytest.approx(text.log_probability, abs=1e-5)
        assert first.ranking >= second.ranking


@every(CONFIGS)
def test_the_gradient_reaches_every_parameter(config: Any) -> None:
    model = made(config)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_the_loss_is_the_cross_entropy_of_the_logits() -> None:
    model, data = made(SMALL), batch()
    real, loss = data.target.real(), model.loss(data)
    expected = nn.functional.cross_entropy(
        model.logits(data)[real], data.target.tokens[real], label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.count.item() == 10


def test_every_attention_is_seen_by_name() -> None:
    model, data = made(SMALL), batch()
    with watch(model) as seen:
        model.logits(data)
    blocks = [f"decoder.{n}.{kind}" for n in range(2) for kind in ("attention", "cross")]
    assert seen.names == ["encoder.blocks.0.attention", "encoder.blocks.1.attention", *blocks]
    assert seen["decoder.1.cross"].shape == (3, 2, 5, 10)  # pictures, heads, words, patches
    recurrent = made(RECURRENT)
    with watch(recurrent) as seen:
        recurrent.logits(data)
    assert seen.names == ["attention"]
    assert weigh(seen.calls("attention")[2].intact()).shape == (3, 1, 1, 10)


def test_mixed_precision_changes_little() -> None:
    for config in (SMALL, replace(RECURRENT, tokens="convolutional")):
        model, data = made(config).float(), batch()
        exact = model.logits(data)
        with torch.autocast(exact.device.type, torch.bfloat16):
            model.loss(data).total.backward()
            steps = stepped(model, model.start(data.source), data.target.decoder_input())
        assert (steps.float() - exact)[data.target.real()].abs().max() < 0.2


@every([pico(), show_attend_tell(), SMALL, RECURRENT])
def test_configs_survive_json_and_build(config: Any) -> None:
    assert through_json(config) == config
    with torch.device("meta"):
        made(replace(config, target_vocabulary=19))


def test_the_preset_of_2015_asks_convolutional_features_before_each_word() -> None:
    config = show_attend_tell()
    found = (config.tokens, config.cell, config.attention, config.wiring)
    assert found == ("convolutional", "lstm", "additive", "recurrent-context")
