"""The Transformer against torch's, against itself step by step, and with other padding."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from models.samples import follow, pairs, parameters_without_gradient, refilled, sequences, shaken, stepped
from torch import Tensor, nn

from regard import RegardError, watch
from regard.data.batches import END, PAD, Pairs, Sequences
from regard.layers.embedding import Sinusoidal
from regard.models.transformer import Transformer, TransformerConfig, base, big, tiny

SMALL = TransformerConfig(
    source_vocabulary=17,
    target_vocabulary=19,
    width=12,
    heads=2,
    depth=2,
    decoder_depth=3,
    hidden_width=23,
    dropout=0.0,
    longest=11,
)
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"]


def small(**changes: Any) -> Transformer:
    return shaken(Transformer(replace(SMALL, **changes)).double())


def batch() -> Pairs:
    return pairs(source=17, target=19)


def copy_attention(ours: Any, theirs: nn.MultiheadAttention) -> None:
    ours.input.all.load_state_dict({"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias})
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_block(ours: Any, theirs: Any) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.around_attention.norm, ours.around_feedforward.norm]
    if hasattr(ours, "cross"):
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.around_cross.norm)
    for number, norm in enumerate(norms, 1):
        norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())
    ours.feedforward.inner.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.outer.load_state_dict(theirs.linear2.state_dict())


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("tied", ["none", "output"])
def test_it_is_torchs_transformer(before: bool, tied: str) -> None:
    ours = small(norm="before" if before else "after", tied=tied)
    settings: Any = {"dropout": 0.0, "batch_first": True, "norm_first": before, "dtype": torch.float64}
    ends = [nn.LayerNorm(12, dtype=torch.float64) if before else None for _ in range(2)]
    theirs = nn.Transformer(
        12,
        2,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(12, 2, 23, **settings), 2, ends[0], enable_nested_tensor=False
        ),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 2, 23, **settings), 3, ends[1]),
        batch_first=True,
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    for mine, other in zip(ours.encoder, theirs.encoder.layers, strict=True):
        copy_block(mine, other)
    for mine, other in zip(ours.decoder, theirs.decoder.layers, strict=True):
        copy_block(mine, other)
    if before:
        ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())
    data = batch()
    source, target = data.source, data.target.decoder_input()
    x = ours.source_embedding.table[source.tokens] * math.sqrt(12) + Sinusoidal(12)(torch.arange(7))
    y = ours.target_embedding.table[target] * math.sqrt(12) + Sinusoidal(12)(torch.arange(5))
    decoded = theirs(
        x,
        y,
        tgt_mask=torch.ones(5, 5).bool().triu(1),
        src_key_padding_mask=~source.real(),
        memory_key_padding_mask=~source.real(),
        tgt_key_padding_mask=~data.target.real(),
    )
    matrix = ours.output.weight if tied == "none" else ours.target_embedding.table
    real = data.target.real()
    torch.testing.assert_close(ours.logits(data)[real], (decoded @ matrix.T)[real], rtol=0, atol=1e-10)


def test_one_table_serves_all_when_tied() -> None:
    model = small(tied="all", source_vocabulary=19)
    assert [name for name, _ in model.named_parameters() if "table" in name] == ["target_embedding.table"]
    assert len(set(model.state_dict())) == len({id(p) for p in model.parameters()})
    data = batch()
    one, other = small(tied="output", source_vocabulary=19), model
    one.load_state_dict({**other.state_dict(), "source_embedding.table": other.target_embedding.table})
    assert torch.equal(one.logits(data), other.logits(data))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "before", "tied": "output"},
        {"norm": "after", "tied": "none", "feedforward": "swiglu"},
        {"norm": "inside", "tied": "all", "source_vocabulary": 19, "kv_heads": 1, "feedforward": "gelu"},
    ],
    ids=["before", "after", "inside"],
)
def test_stepping_is_teacher_forcing(positions: str, changes: dict[str, Any]) -> None:
    model, data = small(positions=positions, **changes), batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)


def test_every_setting_changes_the_answer() -> None:
    data, answers = batch(), []
    for changes in [
        *({"positions": positions} for positions in POSITIONS),
        *({"norm": norm} for norm in ("after", "inside")),
        *({"feedforward": name} for name in ("gelu", "swiglu")),
        {"kv_heads": 1},
    ]:
        torch.manual_seed(3)
        answers.append(small(**changes).logits(data)[0, 0])
    for i, one in enumerate(answers):
        assert all((one - other).abs().max() > 1e-4 for other in answers[:i])


@pytest.mark.parametrize(
    "picks",
    [
        [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 1, 4, 5], [3, 2]],
        [[0, 1, 2], [2, 0], [1, 1, 1, 0], [0, 3, 1]],
        [[1], [0, 0, 0], [2, 1]],
    ],
)
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_picked_rows_go_on_as_if_alone(picks: list[list[int]], positions: str) -> None:
    model, source = small(positions=positions), batch().source

    def told(row: int, text: list[int]) -> Tensor:
        alone = source.tokens[row, : source.lengths[row]].tolist()
        return model.logits(Pairs(Sequences.of([alone]), Sequences.of([[*text[1:], END]])))[0, -1]

    assert follow(model, model.start(source), picks, told, vocabulary=19) < 1e-10


def test_beams_share_their_memory() -> None:
    model = small()
    state = model.start(batch().source)
    pointers = [layer.key.data_ptr() for layer in state.memory.layers]
    for rows in ([0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4], [0, 3, 5]):
        state = state.pick(torch.tensor(rows))
        _, state = model.step(torch.full((len(rows),), 5), state)
        assert [layer.key.data_ptr() for layer in state.memory.layers] == pointers
    with watch(model) as seen:
        model.step(torch.full((6,), 5), state.pick(torch.tensor([0, 0, 1, 1, 2, 2])))
    assert seen["decoder.1.cross"].shape == (3, 2, 2, 7)  # sources, heads, the beams of each, their tokens


def test_a_state_is_stepped_from_once() -> None:
    model = small()
    state = model.start(batch().source)
    assert state.first.tolist() == [1, 1, 1]
    picked = state.pick(torch.tensor([1]))
    model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        model.step(state.first, state)
    with pytest.raises(RegardError, match="stepped from before"):
        state.pick(torch.tensor([0]))
    model.step(picked.first, picked)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_padding_cannot_matter_to_the_bit(positions: str, norm: str) -> None:
    model = shaken(Transformer(replace(SMALL, tied="none", norm=norm, positions=positions)))
    data = batch()
    found = []
    for filling in (PAD, 5):
        for side in (data.source, data.target):
            side.tokens[~side.real()] = filling
        with torch.no_grad():
            model.source_embedding.table[PAD] = model.target_embedding.table[PAD] = float("nan")
        loss = model.loss(data).total
        model.zero_grad()
        loss.backward()
        grads = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        found.append([loss, model.logits(data)[data.target.real()], *grads])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_more_padding_changes_nothing() -> None:
    model, data = small(), batch()
    wider = Pairs(refilled(data.source, 17), refilled(data.target, 19))
    assert wider.source.tokens.shape == (3, 9)
    one, other = model.logits(data)[data.target.real()], model.logits(wider)[wider.target.real()]
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.loss(data).total, model.loss(wider).total, rtol=0, atol=1e-12)


def test_the_loss_is_the_cross_entropy_of_the_logits() -> None:
    model, data = small(smoothing=0.1), batch()
    real, loss = data.target.real(), model.loss(data)
    expected = nn.functional.cross_entropy(
        model.logits(data)[real], data.target.tokens[real], label_smoothing=0.1, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-10)
    assert loss.count.item() == 10
    assert loss.metrics["nll"] != loss.total


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@pytest.mark.parametrize("norm", ["before", "after", "inside"])
def test_it_begins_by_knowing_nothing(tied: str, norm: str) -> None:
    model = Transformer(
        replace(tiny(), source_vocabulary=1009, target_vocabulary=1009, tied=tied, norm=norm, smoothing=0.0)
    ).eval()
    data = Pairs(sequences(*[23] * 8, vocabulary=1009), sequences(*[29] * 8, vocabulary=1009))
    loss = model.loss(data)
    assert abs(loss.total.item() / loss.count.item() - math.log(1009)) < 1.0


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_the_gradient_reaches_every_parameter(positions: str, tied: str) -> None:
    model = small(positions=positions, tied=tied, source_vocabulary=19, norm="inside")
    assert parameters_without_gradient(model, model.loss(batch()).total) == []


def test_every_attention_is_seen_by_name() -> None:
    model = small()
    with watch(model) as seen:
        model.logits(batch())
    blocks = [f"decoder.{n}.{kind}" for n in range(3) for kind in ("attention", "cross")]
    assert seen.names == ["encoder.0.attention", "encoder.1.attention", *blocks]
    assert seen["decoder.2.cross"].shape == (3, 2, 5, 7)


def test_a_later_token_changes_nothing_earlier() -> None:
    model, data = small(positions="relative"), batch()
    before = model.logits(data)
    data.target.tokens[1, 3] = 9
    after = model.logits(data)
    assert torch.equal(after[1, :4], before[1, :4])
    assert not torch.equal(after[1, 4], before[1, 4])


@pytest.mark.parametrize("positions", POSITIONS)
def test_mixed_precision_changes_little(positions: str) -> None:
    model, data = small(positions=positions).float(), batch()
    exact = model.logits(data)
    with torch.autocast(exact.device.type, torch.bfloat16):
        loss = model.loss(data)
        loss.total.backward()
        steps = stepped(model, model.start(data.source), data.target.decoder_input())
    assert loss.total.dtype == torch.float32
    assert (steps.float() - exact)[data.target.real()].abs().max() < 0.2


def test_learned_positions_end() -> None:
    model = small(positions="learned", longest=5)
    with pytest.raises(RegardError, match="7 positions, but only 5"):
        model.encode(batch().source)


@pytest.mark.parametrize(
    ("preset", "sizes"),
    [(tiny, (4, 4, 128)), (base, (6, 6, 512)), (big, (6, 6, 1024))],
    ids=["tiny", "base", "big"],
)
def test_presets_have_their_sizes_and_survive_json(preset: Any, sizes: tuple[int, int, int]) -> None:
    config = preset()
    assert (config.depth, config.decoder_depth, config.width) == sizes
    assert TransformerConfig(**json.loads(json.dumps(asdict(config)))) == config


def test_the_base_model_has_the_size_of_the_paper() -> None:
    with torch.device("meta"):
        model = Transformer(replace(base(), source_vocabulary=37000, target_vocabulary=37000, tied="all"))
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(65e6, rel=0.04)  # table 3: 65 × 10⁶
