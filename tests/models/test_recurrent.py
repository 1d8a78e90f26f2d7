"""The recurrent translator against its equations, against itself step by step, and with other padding."""

import json
import math
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import pytest
import torch
from hardware import needs_bf16
from layers.test_recurrence import written
from models.samples import follow, pairs, parameters_without_gradient, refilled, sequences, shaken, stepped
from torch import Tensor

from regard import RegardError, watch, weigh
from regard.data.batches import END, PAD, START, Pairs, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.models.optimise import optimise
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.runs.recipe import build, plain

SMALL = RecurrentConfig(
    source_vocabulary=17,
    target_vocabulary=19,
    width=6,
    embedding_width=5,
    rank=2,
    dropout=0.0,
    bidirectional=False,
)
CELLS = ["rnn", "gru", "lstm"]
SCORES = ["dot", "scaled-dot", "cosine", "bilinear", "low-rank", "additive"]
FORMS = ["plain", "projected"]
WIRINGS = ["recurrent-context", "output-context"]


def small(**changes: Any) -> RecurrentTranslator:
    return shaken(RecurrentTranslator(replace(SMALL, **changes)).double())


def batch() -> Pairs:
    return pairs(source=17, target=19)


def score(model: RecurrentTranslator, s: Tensor, h: Tensor) -> Tensor:
    """How well each encoder state h [m, d] answers a decoder state s [d], by the equations."""
    assert model.attention is not None
    own: Any = model.attention.score
    match model.config.attention:
        case "dot":
            return h @ s
        case "scaled-dot":
            return h @ s / math.sqrt(6)
        case "cosine":
            return h @ s / (h.norm(dim=1) * s.norm() * own.log_temperature.exp())
        case "bilinear":
            return h @ (own.weight.T @ s)
        case "low-rank":
            return (h @ own.key_weight.T) @ (own.query_weight @ s)
        case _:
            return torch.tanh(h @ own.key_weight.T + own.query_weight @ s) @ own.vector


def context(model: RecurrentTranslator, s: Tensor, h: Tensor) -> Tensor:
    assert model.attention is not None
    key, value = h, h
    if model.config.form == "projected":
        assert model.attention.projection is not None
        (query_map, _), (key_map, _), (value_map, _) = model.attention.projection._parts()
        s, key, value = query_map @ s, h @ key_map.T, h @ value_map.T
    return torch.softmax(score(model, s, key), 0) @ value


def translated(model: RecurrentTranslator, source: list[int], target: list[int]) -> Tensor:
    """The logits of one pair, one token after another, by the equations of the papers."""
    state, states = torch.zeros(1, model.encoder.parts, model.encoder.width).double(), []
    for token in source:
        x = model.source_embedding.table[token] * math.sqrt(5)
        state = written(model.encoder, x[None], state)
        states.append(state[0, 0])
    h, logits = torch.stack(states), []
    if model.bridges is not None:
        state = (model.bridges[0].weight @ state.flatten() + model.bridges[0].bias).view(1, -1, 6)
        state = torch.cat([state[:, :1].tanh(), state[:, 1:]], 1)
    for token in [START, *target[:-1]]:
        x = model.target_embedding.table[token] * math.sqrt(5)
        if model.config.attention == "none":
            state = written(model.decoder, x[None], state)
            joined = state[0, 0]
        elif model.config.wiring == "recurrent-context":
            c = context(model, state[0, 0], h)
            state = written(model.decoder, torch.cat([x, c])[None], state)
            joined = torch.cat([state[0, 0], c])
        else:
            state = written(model.decoder, x[None], state)
            joined = torch.cat([state[0, 0], context(model, state[0, 0], h)])
        logits.append(model.output.weight @ torch.tanh(model.joint.weight @ joined) + model.output.bias)
    return torch.stack(logits)


UNEQUAL = [
    *((attention, "projected") for attention in SCORES),
    *((attention, "plain") for attention in ("bilinear", "low-rank", "additive")),
]


@pytest.mark.parametrize(("attention", "form"), [*UNEQUAL, ("none", "plain")])
@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_an_encoder_of_another_width_is_asked_by_the_same_equations(
    cell: str, wiring: str, attention: str, form: str
) -> None:
    model = small(cell=cell, attention=attention, form=form, wiring=wiring, encoder_width=8)
    data = batch()
    logits = model.logits(data)
    for row in (0, 1):
        source, target = (
            side.tokens[row, : side.lengths[row]].tolist() for side in (data.source, data.target)
        )
        torch.testing.assert_close(
            logits[row, : len(target)], translated(model, source, target), rtol=0, atol=1e-10
        )
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], logits[real], rtol=0, atol=1e-10)
    assert not parameters_without_gradient(model, model.loss(data).total)


@pytest.mark.parametrize(("attention", "form"), UNEQUAL)
def test_an_encoder_of_another_width_is_searched_and_watched(attention: str, form: str) -> None:
    changes: dict[str, Any] = {"encoder_width": 8, "bidirectional": True, "depth": 2}
    model = small(attention=attention, form=form, **changes).float().eval()
    source = batch().source
    wanted = [greedy(model, source, limits=6), beam(model, source, size=3, limits=6)]
    with watch(model) as seen:
        watched = [greedy(model, source, limits=6), beam(model, source, size=3, limits=6)]
    assert watched == wanted
    assert len(seen.calls("attention")) > 0
    fast = optimise(model).model
    assert [one.tokens for one in greedy(fast, source, limits=6)] == [one.tokens for one in wanted[0]]  # type: ignore[arg-type]


@pytest.mark.parametrize("attention", ["dot", "scaled-dot", "cosine"])
def test_scores_of_one_width_refuse_another_by_name(attention: str) -> None:
    said = rf"attention='{attention}' compares vectors of one width, and width=6, encoder_width=8: say form='projected'"
    with pytest.raises(RegardError, match=said):
        replace(SMALL, attention=attention, encoder_width=8)
    assert replace(SMALL, attention=attention, encoder_width=6).reading_width == 6


def test_a_config_saved_before_there_were_two_widths_gives_the_same_bits() -> None:
    saved = json.loads(json.dumps(plain(SMALL)))
    for name in ("encoder_width", "additive_hidden"):
        del saved[name]
    old = build(RecurrentConfig, saved)
    assert old == SMALL
    made = []
    for config in (old, replace(SMALL, encoder_width=6)):
        torch.manual_seed(5)
        made.append(RecurrentTranslator(config).state_dict())
    assert made[0].keys() == made[1].keys()
    assert all(torch.equal(part, made[1][name]) for name, part in made[0].items())


def test_units_of_the_additive_score_are_a_setting() -> None:
    model = small(attention="additive", additive_hidden=9, encoder_width=8)
    assert {name: tuple(part.shape) for name, part in model.attention.score.named_parameters()} == {  # type: ignore[union-attr]
        "query_weight": (9, 6),
        "key_weight": (9, 8),
        "vector": (9,),
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder_width": 0}, "encoder_width=0: at least 1, or null"),
        ({"encoder_width": 7, "bidirectional": True}, "encoder_width=7, bidirectional: half of the width"),
        ({"additive_hidden": 0}, "additive_hidden=0: at least 1, or null"),
    ],
)
def test_sizes_that_cannot_be_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        replace(SMALL, **changes)


@pytest.mark.parametrize(
    ("cell", "attention", "form", "wiring"),
    [*product(CELLS, SCORES, FORMS, WIRINGS), *((cell, "none", "plain", "output-context") for cell in CELLS)],
)
def test_it_is_its_equations(cell: str, attention: str, form: str, wiring: str) -> None:
    model, data = small(cell=cell, attention=attention, form=form, wiring=wiring), batch()
    logits = model.logits(data)
    for row in (0, 1):
        source, target = (
            side.tokens[row, : side.lengths[row]].tolist() for side in (data.source, data.target)
        )
        torch.testing.assert_close(
            logits[row, : len(target)], translated(model, source, target), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("attention", [*SCORES, "none"])
@pytest.mark.parametrize("cell", CELLS)
def test_stepping_is_teacher_forcing(cell: str, attention: str, wiring: str) -> None:
    model = small(cell=cell, attention=attention, wiring=wiring, bidirectional=True, depth=2)
    data = batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_the_decoder_begins_with_a_map_of_both_last_states(cell: str) -> None:
    model, data = small(cell=cell, bidirectional=True, depth=2), batch()
    _, last = model.encoder.read(model.source_embedding(data.source.tokens), data.source.lengths)
    hidden = model.start(data.source).hidden
    for layer, bridge in enumerate(model.bridges):
        mapped = last[:, layer].flatten(1) @ bridge.weight.T + bridge.bias
        torch.testing.assert_close(hidden[:, layer, 0], mapped[:, :6].tanh(), rtol=0, atol=1e-12)
        if cell == "lstm":
            torch.testing.assert_close(hidden[:, layer, 1], mapped[:, 6:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "picks",
    [
        [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 1, 4, 5], [3, 2]],
        [[0, 1, 2], [2, 0], [1, 1, 1, 0], [0, 3, 1]],
    ],
)
@pytest.mark.parametrize(
    ("attention", "wiring"), [*product(["bilinear", "additive"], WIRINGS), ("none", WIRINGS[0])]
)
def test_picked_rows_go_on_as_if_alone(picks: list[list[int]], attention: str, wiring: str) -> None:
    model, source = small(attention=attention, wiring=wiring), batch().source

    def told(row: int, text: list[int]) -> Tensor:
        alone = source.tokens[row, : source.lengths[row]].tolist()
        return model.logits(Pairs(Sequences.of([alone]), Sequences.of([[*text[1:], END]])))[0, -1]

    assert follow(model, model.start(source), picks, told, vocabulary=19) < 1e-10


def test_beams_share_their_memory() -> None:
    model = small()
    state = model.start(batch().source)
    assert state.memory is not None
    pointer = state.memory.layers[0].key.data_ptr()
    for rows in ([0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4], [0, 3, 5]):
        state = state.pick(torch.tensor(rows))
        _, state = model.step(torch.full((len(rows),), 5), state)
        assert state.memory is not None
        assert state.memory.layers[0].key.data_ptr() == pointer


def test_a_state_is_stepped_from_once() -> None:
    model = small()
    state = model.start(batch().source)
    assert state.first.tolist() == [1, 1, 1]
    model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        state.pick(torch.tensor([0]))


@pytest.mark.parametrize(
    ("attention", "wiring"), [*product(["bilinear", "additive"], WIRINGS), ("none", WIRINGS[0])]
)
def test_padding_cannot_matter_to_the_bit(attention: str, wiring: str) -> None:
    config = replace(SMALL, attention=attention, wiring=wiring, bidirectional=True, depth=2)
    model, data, found = shaken(RecurrentTranslator(config)), batch(), []
    with torch.no_grad():
        model.source_embedding.table[PAD] = model.target_embedding.table[PAD] = float("nan")
    for filling in (PAD, 5):
        for side in (data.source, data.target):
            side.tokens[~side.real()] = filling
        loss = model.loss(data).total
        model.zero_grad()
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, model.logits(data)[data.target.real()], *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_more_padding_changes_nothing() -> None:
    model, data = small(bidirectional=True), batch()
    wider = Pairs(refilled(data.source, 17), refilled(data.target, 19))
    one, other = model.logits(data)[data.target.real()], model.logits(wider)[wider.target.real()]
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("wiring", ["recurrent-context", "output-context"])
@pytest.mark.parametrize("attention", ["none", "bilinear", "additive"])
def test_a_batch_filled_up_to_a_round_shape_has_the_same_loss_and_gradients(
    attention: str, wiring: str
) -> None:
    model, plain = small(attention=attention, wiring=wiring).eval(), batch()
    filled = Pairs(plain.source.filled_up(7, 16), plain.target.filled_up(7, 16))
    assert filled.to("cpu").source.filled
    found, right = model.loss(filled), model.loss(plain)
    assert int(found.count) == int(right.count)
    for name, value in right.metrics.items():
        torch.testing.assert_close(found.metrics[name], value, rtol=1e-12, atol=0)
    weights = list(model.parameters())
    gradients = (torch.autograd.grad(loss.total, weights, allow_unused=True) for loss in (found, right))
    for mine, other in zip(*gradients, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None and other is not None:
            torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)
    with pytest.raises(RegardError, match="in 2 rows of 16: too many"):
        plain.source.filled_up(2, 16)


def test_the_loss_is_the_cross_entropy_of_the_logits() -> None:
    model, data = small(smoothing=0.1), batch()
    real, loss = data.target.real(), model.loss(data)
    expected = torch.nn.functional.cross_entropy(
        model.logits(data)[real], data.target.tokens[real], label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.count.item() == 10


@pytest.mark.parametrize(("attention", "form", "wiring"), [*product([*SCORES, "none"], FORMS, WIRINGS)])
def test_the_gradient_reaches_every_parameter(attention: str, form: str, wiring: str) -> None:
    model = small(attention=attention, form=form, wiring=wiring, bidirectional=True, depth=2)
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_output_context_asks_for_all_positions_at_once() -> None:
    data = batch()
    for wiring, shapes in {"output-context": [(3, 1, 5, 7)], "recurrent-context": [(3, 1, 1, 7)] * 5}.items():
        model = small(attention="additive", wiring=wiring)
        with watch(model) as seen:
            model.logits(data)
        assert [layer.shape for layer in seen.calls("attention")] == shapes
        assert seen.names == ["attention"]


def test_what_is_watched_are_the_weights_of_the_equations() -> None:
    model, data = small(attention="additive"), batch()
    with watch(model) as seen:
        model.logits(data)
    state = model.start(data.source)
    h, _ = model.encoder.read(model.source_embedding(data.source.tokens), data.source.lengths)
    s = model.decoder.step(model.target_embedding(state.first[:, None])[:, 0], state.hidden)[1, -1, 0]
    found = weigh(seen["attention"].intact())[1, 0, 0]
    torch.testing.assert_close(found[:4], torch.softmax(score(model, s, h[1, :4]), 0), rtol=0, atol=1e-12)
    assert (found[4:] == 0).all()


def test_without_attention_only_the_last_state_passes() -> None:
    model = small(attention="none")
    state = model.start(batch().source)
    assert state.memory is None
    assert state.hidden.shape == (3, 1, 2, 6)
    with watch(model) as seen:
        model.logits(batch())
    assert len(seen) == 0


def test_it_begins_by_knowing_nothing() -> None:
    model = RecurrentTranslator(
        RecurrentConfig(source_vocabulary=1009, target_vocabulary=1009, smoothing=0.0)
    ).eval()
    data = Pairs(sequences(*[23] * 8, vocabulary=1009), sequences(*[29] * 8, vocabulary=1009))
    loss = model.loss(data)
    assert abs(loss.total.item() / loss.count.item() - math.log(1009)) < 0.3


def at_once(attention: str, wiring: str) -> bool:
    """Whether an LSTM of oneDNN reads the whole target: it is not fed what was attended to."""
    return attention == "none" or wiring == "output-context"


@pytest.mark.parametrize(
    ("attention", "form", "wiring"),
    [
        pytest.param(*case, marks=needs_bf16 if at_once(case[0], case[2]) else ())
        for case in product([*SCORES, "none"], FORMS, WIRINGS)
    ],
)
def test_mixed_precision_changes_little(attention: str, form: str, wiring: str) -> None:
    model, data = small(attention=attention, form=form, wiring=wiring, bidirectional=True).float(), batch()
    exact = model.logits(data)
    with torch.autocast(exact.device.type, torch.bfloat16):
        model.loss(data).total.backward()
        steps = stepped(model, model.start(data.source), data.target.decoder_input())
    assert (steps.float() - exact)[data.target.real()].abs().max() < 0.1


def test_a_config_survives_json() -> None:
    assert RecurrentConfig(**json.loads(json.dumps(asdict(SMALL)))) == SMALL
