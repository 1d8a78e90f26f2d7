"""The language model against torch's encoder with a causal mask, and from prompts of any lengths."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from models.samples import follow, parameters_without_gradient, refilled, sequences, shaken
from torch import Tensor, nn

from regard import RegardError, watch
from regard.data.batches import PAD, Sequences
from regard.layers.embedding import Sinusoidal
from regard.models.language import LanguageConfig, LanguageModel

SMALL = LanguageConfig(vocabulary=17, width=12, heads=2, depth=2, hidden_width=23, dropout=0.0, longest=13)
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"]


def small(**changes: Any) -> LanguageModel:
    return shaken(LanguageModel(replace(SMALL, **changes)).double())


def batch() -> Sequences:
    return sequences(7, 4, 1, 5, vocabulary=17)


def test_it_is_torchs_encoder_looking_back() -> None:
    ours, data = small(tied="none"), batch()
    layer = nn.TransformerEncoderLayer(
        12, 2, 23, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    theirs = nn.TransformerEncoder(
        layer, 2, nn.LayerNorm(12, dtype=torch.float64), enable_nested_tensor=False
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    names = {
        "attention.input.all.weight": "self_attn.in_proj_weight",
        "attention.input.all.bias": "self_attn.in_proj_bias",
        "attention.output.weight": "self_attn.out_proj.weight",
        "attention.output.bias": "self_attn.out_proj.bias",
        **{f"around_attention.norm.{part}": f"norm1.{part}" for part in ("weight", "bias")},
        **{f"around_feedforward.norm.{part}": f"norm2.{part}" for part in ("weight", "bias")},
        **{f"feedforward.inner.{part}": f"linear1.{part}" for part in ("weight", "bias")},
        **{f"feedforward.outer.{part}": f"linear2.{part}" for part in ("weight", "bias")},
    }
    for mine, other in zip(ours.blocks, theirs.layers, strict=True):
        weights = other.state_dict()
        mine.load_state_dict({name: weights[their] for name, their in names.items()})
    ours.norm.load_state_dict(theirs.norm.state_dict())
    x = ours.embedding.table[data.tokens] * math.sqrt(12) + Sinusoidal(12)(torch.arange(7))
    expected = theirs(x, mask=torch.ones(7, 7).bool().triu(1)) @ ours.output.weight.T
    real = data.real()
    torch.testing.assert_close(ours.logits(data)[real], expected[real], rtol=0, atol=1e-10)


def test_the_loss_is_of_the_next_token() -> None:
    model, data = small(), batch()
    loss, logits = model.loss(data), model.logits(data)
    rows = [(row, t) for row, n in enumerate(data.lengths.tolist()) for t in range(n - 1)]
    expected = sum(-logits[row, t].log_softmax(-1)[data.tokens[row, t + 1]] for row, t in rows)
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.count.item() == len(rows) == 13


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "before"},
        {"norm": "after", "tied": "none", "feedforward": "swiglu"},
        {"norm": "inside", "kv_heads": 1},
    ],
    ids=["before", "after", "inside"],
)
def test_prompts_of_different_lengths_go_on_as_if_alone(positions: str, changes: dict[str, Any]) -> None:
    model, source = small(positions=positions, **changes), batch()

    def told(row: int, text: list[int]) -> Tensor:
        alone = source.tokens[row, : source.lengths[row] - 1].tolist()
        return model.logits(Sequences.of([[*alone, *text]]))[0, -1]

    picks = [[0, 1, 2, 3], [3, 3, 1, 0, 2], [2, 1], [1, 0, 0]]
    assert follow(model, model.start(source), picks, told, vocabulary=17) < 1e-10


def test_prompts_of_one_length_need_no_mask() -> None:
    model = small()
    for lengths in ([5, 5, 5], [1, 1]):
        source = sequences(*lengths, vocabulary=17)
        state = model.start(source)
        assert state.padding is None
        assert state.first.tolist() == source.tokens[:, -1].tolist()
        logits, _ = model.step(state.first, state)
        torch.testing.assert_close(logits, model.logits(source)[:, -1], rtol=0, atol=1e-10)


def test_the_filling_of_prompts_cannot_matter() -> None:
    model = shaken(LanguageModel(replace(SMALL, tied="none", positions="learned")))
    source, found = batch(), []
    with torch.no_grad():
        model.embedding.table[PAD] = float("nan")
    for filling in (PAD, 5):
        source.tokens[~source.real()] = filling
        state = model.start(source)
        logits, state = model.step(state.first, state)
        again, _ = model.step(torch.full((4,), 6), state)
        loss = model.loss(source).total
        model.zero_grad()
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([logits, again, loss, *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_more_padding_changes_nothing() -> None:
    model, data = small(), batch()
    wider = refilled(data, 17)
    one, other = model.logits(data)[data.real()], model.logits(wider)[wider.real()]
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_later_token_changes_nothing_earlier(positions: str) -> None:
    model, data = small(positions=positions), batch()
    before = model.logits(data)
    data.tokens[0, 3] = (data.tokens[0, 3] + 1) % 17
    after = model.logits(data)
    assert torch.equal(after[0, :3], before[0, :3])
    assert not torch.equal(after[0, 3:], before[0, 3:])


def test_a_state_is_stepped_from_once() -> None:
    model = small()
    state = model.start(batch())
    model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        state.pick(torch.tensor([0]))


def test_learned_positions_end() -> None:
    model = small(positions="learned", longest=8)
    state = model.start(batch())
    for _ in range(2):
        _, state = model.step(state.first, state)
    with pytest.raises(RegardError, match="9 positions, but only 8"):
        model.step(state.first, state)


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_gradient_reaches_every_parameter(positions: str) -> None:
    # As many tokens as positions are learned, so that each is used.
    model, data = small(positions=positions, tied="none"), sequences(14, 7, vocabulary=17)
    assert parameters_without_gradient(model, model.loss(data).total) == []


def test_every_attention_is_seen_by_name() -> None:
    model = small()
    with watch(model) as seen:
        model.logits(batch())
    assert seen.names == ["blocks.0.attention", "blocks.1.attention"]


@pytest.mark.usefixtures("as_a_user")
def test_a_prompt_has_a_token() -> None:
    with pytest.raises(RegardError, match="a prompt without a token"):
        small().start(Sequences(torch.tensor([[5, 0], [0, 0]]), torch.tensor([1, 0])))


def test_extra_padding_at_the_right_changes_nothing() -> None:
    model = small()
    bare = Sequences(torch.tensor([[5, 7, 9], [6, 8, 0]]), torch.tensor([3, 2]))
    padded = Sequences(torch.tensor([[5, 7, 9, 0, 3], [6, 8, 0, 4, 4]]), torch.tensor([3, 2]))
    logits = [model.step(state.first, state)[0] for state in (model.start(bare), model.start(padded))]
    assert torch.equal(*logits)


def test_a_config_survives_json() -> None:
    assert LanguageConfig(**json.loads(json.dumps(asdict(SMALL)))) == SMALL
