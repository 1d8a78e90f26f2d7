"""Any score in any Transformer: against a forward pass written out in NumPy, step by step, packed, watched and optimised."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from models.samples import (
    follow,
    images,
    pairs,
    parameters_without_gradient,
    sequences,
    shaken,
    sounds,
    stepped,
)
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import (
    Additive,
    Bilinear,
    Cosine,
    Dot,
    LowRank,
    MultiHeadAttention,
    RegardError,
    ScaledDot,
    intervene,
    uniform,
    watch,
)
from regard.attention.scores import ScoreName
from regard.data.batches import END, Both, Labelled, Packed, Pairs, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.optimise import optimise
from regard.models.stack import ROTATED, StackConfig
from regard.models.transcriber import Transcriber, TranscriberConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.recipe import build, plain

Array = NDArray[np.float64]
SCORES = get_args(ScoreName)
CLASSES: dict[str, type[nn.Module]] = {
    "dot": Dot,
    "scaled-dot": ScaledDot,
    "cosine": Cosine,
    "bilinear": Bilinear,
    "low-rank": LowRank,
    "additive": Additive,
}
SIZES: dict[str, Any] = {"width": 12, "heads": 2, "hidden_width": 23, "dropout": 0.0}
SMALL = TransformerConfig(**SIZES, source_vocabulary=17, target_vocabulary=19, depth=2, decoder_depth=2)
every_score = pytest.mark.parametrize("score", SCORES)


def small(score: Any, **changes: Any) -> Transformer:
    return shaken(Transformer(replace(SMALL, score=score, **changes)).double()).eval()


def batch() -> Pairs:
    return pairs(source=17, target=19)


class WrittenOut:
    """The logits of a Transformer for one source and target, from its weights alone: loops over pairs and heads."""

    def __init__(self, model: Transformer) -> None:
        self.config = model.config
        self.weights = {name: part.detach().numpy() for name, part in model.named_parameters()}

    def logits(self, source: list[int], target: list[int]) -> Array:
        table = "target_embedding" if self.config.tied == "all" else "source_embedding"
        memory = self.embedded(table, source)
        for number in range(self.config.depth):
            name = f"encoder.{number}"
            x = self.norm(f"{name}.around_attention.norm", memory)
            memory = memory + self.attention(f"{name}.attention", x, x, causal=False)
            memory = memory + self.feedforward(name, memory)
        memory = self.norm("encoder_norm", memory)
        y = self.embedded("target_embedding", [1, *target[:-1]])
        for number in range(self.config.decoder_depth):
            name = f"decoder.{number}"
            x = self.norm(f"{name}.around_attention.norm", y)
            y = y + self.attention(f"{name}.attention", x, x, causal=True)
            x = self.norm(f"{name}.around_cross.norm", y)
            y = y + self.attention(f"{name}.cross", x, memory, causal=False)
            y = y + self.feedforward(name, y)
        said: Array = self.norm("decoder_norm", y)
        if self.config.tied == "none":
            return said @ self.weights["output.weight"].T
        words = self.weights["target_embedding.table"]
        return said[:, : words.shape[1]] @ words.T

    def embedded(self, name: str, tokens: list[int]) -> Array:
        table, d = self.weights[f"{name}.table"], self.config.position_width or self.config.width
        places = np.zeros((len(tokens), d))
        for t in range(len(tokens)):
            for j in range(d):
                angle = t / 10000 ** (2 * (j // 2) / d)
                places[t, j] = np.float32(math.cos(angle) if j % 2 else math.sin(angle))
        rows: Array = math.sqrt(table.shape[1]) * table[tokens]
        return rows + places if self.config.position_width is None else np.concatenate([rows, places], -1)

    def norm(self, name: str, x: Array) -> Array:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias

    def feedforward(self, name: str, x: Array) -> Array:
        w = {part: self.weights[f"{name}.feedforward.{part}"] for part in
             ("inner.weight", "inner.bias", "outer.weight", "outer.bias")}  # fmt: skip
        x = self.norm(f"{name}.around_feedforward.norm", x)
        return (
            np.maximum(x @ w["inner.weight"].T + w["inner.bias"], 0) @ w["outer.weight"].T + w["outer.bias"]
        )

    def attention(self, name: str, x: Array, y: Array, *, causal: bool) -> Array:
        heads, groups = self.config.heads, self.config.kv_heads or self.config.heads
        d = self.config.width // heads
        weight, bias = self.weights[f"{name}.input.all.weight"], self.weights[f"{name}.input.all.bias"]
        cuts = [heads * d, (heads + groups) * d]
        (wq, wk, wv), (bq, bk, bv) = np.split(weight, cuts), np.split(bias, cuts)
        queries, keys, values = x @ wq.T + bq, y @ wk.T + bk, y @ wv.T + bv
        outputs = []
        for head in range(heads):
            group = head * groups // heads
            q, (k, v) = (
                queries[:, head * d :][:, :d],
                (part[:, group * d :][:, :d] for part in (keys, values)),
            )
            scores = np.array([[self.score(name, head, group, a, b) for b in k] for a in q])
            if causal:
                scores[np.triu_indices(len(q), 1)] = -np.inf
            exponents = np.exp(scores - scores.max(-1, keepdims=True))
            outputs.append(exponents / exponents.sum(-1, keepdims=True) @ v)
        made: Array = np.concatenate(outputs, -1) @ self.weights[f"{name}.output.weight"].T
        return made + self.weights[f"{name}.output.bias"]

    def score(self, name: str, head: int, group: int, q: Array, k: Array) -> float:
        w = {
            key.rpartition(".")[2]: part
            for key, part in self.weights.items()
            if key.startswith(f"{name}.score.")
        }
        match self.config.score:
            case "dot":
                return float(q @ k)
            case "scaled-dot":
                return float(q @ k) / math.sqrt(len(q))
            case "cosine":
                return float(q @ k / np.linalg.norm(q) / np.linalg.norm(k) / np.exp(w["log_temperature"]))
            case "bilinear":
                return float(q @ w["weight"][head] @ k)
            case "low-rank":
                return float((w["query_weight"][head] @ q) @ (w["key_weight"][group] @ k))
            case "additive":
                hidden = np.tanh(w["key_weight"][group] @ k + w["query_weight"][head] @ q)
                return float(w["vector"][head] @ hidden)


@every_score
@pytest.mark.parametrize("kv_heads", [None, 1])
def test_a_transformer_is_the_one_written_out(score: str, kv_heads: int | None) -> None:
    model, data = small(score, kv_heads=kv_heads, rank=2, additive_hidden=5), batch()
    found, written = model.logits(data), WrittenOut(model)
    for row in range(3):
        source, target = (
            side.tokens[row, : side.lengths[row]].tolist() for side in (data.source, data.target)
        )
        expected = torch.from_numpy(written.logits(source, target))
        torch.testing.assert_close(found[row, : len(target)], expected, rtol=0, atol=1e-11)


@every_score
@pytest.mark.parametrize("changes", [{}, {"kv_heads": 1, "positions": "learned"}, {"positions": "relative"}])
def test_step_by_step_it_says_the_same(score: str, changes: dict[str, Any]) -> None:
    model, data = small(score, **changes), batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)


@every_score
def test_rows_of_a_beam_go_on_as_if_alone(score: str) -> None:
    model, source = small(score, kv_heads=1), batch().source

    def told(row: int, text: list[int]) -> Tensor:
        alone = source.tokens[row, : source.lengths[row]].tolist()
        return model.logits(Pairs(Sequences.of([alone]), Sequences.of([[*text[1:], END]])))[0, -1]

    picks = [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 1, 4, 5], [3, 2]]
    assert follow(model, model.start(source), picks, told, vocabulary=19) < 1e-10


@every_score
def test_a_language_model_steps_as_it_reads(score: Any) -> None:
    config = LanguageConfig(**SIZES, depth=2, vocabulary=17, score=score)
    model = shaken(LanguageModel(config).double()).eval()
    texts = sequences(5, 3, 2, vocabulary=17)
    logits, _ = model.step((state := model.start(texts)).first, state)
    expected = model.logits(texts)[torch.arange(3), texts.lengths - 1]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)


def models() -> dict[str, Callable[[Any], tuple[nn.Module, Any]]]:
    """A model of each kind of Transformer, with a batch to learn from."""
    seen = {"channels": 2, "image_size": (6, 10), "patch": (3, 2)}
    heard = {"rate": 800, "window": 40, "hop": 20, "bands": 9, "frame_channels": 4}
    labels = torch.tensor([0, 1, 1])

    def make(model: Any, config: Any, batch: Any, **own: Any) -> Callable[[Any], tuple[nn.Module, Any]]:
        return lambda score: (model(config(**SIZES, depth=1, score=score, **own)), batch)

    texts, hear, see = sequences(7, 4, 2, vocabulary=17), sounds(400, 333, 251), images()
    writes: dict[str, Any] = {"target_vocabulary": 17, "decoder_depth": 1}
    return {
        "transformer": make(
            Transformer, TransformerConfig, Pairs(texts, texts), source_vocabulary=17, **writes
        ),
        "language": make(LanguageModel, LanguageConfig, texts, vocabulary=17),
        "classifier": make(Classifier, ClassifierConfig, Labelled(texts, labels), vocabulary=17),
        "vision": make(Vision, VisionConfig, Labelled(see, labels), pooling="attention", **seen),
        "captioner": make(Captioner, CaptionerConfig, Pairs(see, texts), **seen, **writes),
        "hearing": make(Hearing, HearingConfig, Labelled(hear, labels), **heard),
        "transcriber": make(Transcriber, TranscriberConfig, Pairs(hear, texts), **heard, **writes),
        "fusion": make(
            Fusion, FusionConfig, Labelled(Both(see, hear), labels), fusion_depth=1, **seen, **heard
        ),
    }


@every_score
@pytest.mark.parametrize("name", models())
def test_every_attention_of_every_transformer_has_it_and_learns_it(name: str, score: str) -> None:
    model, data = models()[name](score)
    found = [part.score for part in model.modules() if isinstance(part, MultiHeadAttention)]
    assert found
    assert {type(part) for part in found} == {CLASSES[score]}
    lost = parameters_without_gradient(shaken(model), model.loss(data).total)  # type: ignore[operator]
    assert [each for each in lost if ".score." in each] == []


@every_score
@pytest.mark.parametrize("name", models())
def test_watching_changes_no_bit(name: str, score: str) -> None:
    model, data = models()[name](score)
    total = model.loss(data).total  # type: ignore[operator]
    slopes = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    with watch(model) as seen:
        watched = model.loss(data).total  # type: ignore[operator]
    again = torch.autograd.grad(watched, list(model.parameters()), allow_unused=True)
    assert torch.equal(total, watched)
    assert all(one is other or torch.equal(one, other) for one, other in zip(slopes, again, strict=True))
    for layer in seen:
        rows = layer.weights().sum(-1)
        assert ((rows - 1).abs().minimum(rows.abs()) < 1e-5).all()


@every_score
def test_watched_texts_are_those_of_an_unwatched_search(score: str) -> None:
    model, source = small(score).float(), batch().source
    plainly = [greedy(model, source, limits=6), beam(model, source, size=3, limits=6)]
    with watch(model) as seen:
        watched = [greedy(model, source, limits=6), beam(model, source, size=3, limits=6)]
    assert watched == plainly
    assert {len(layer.weights().shape) for layer in seen} == {4}


@pytest.mark.parametrize(
    ("score", "positions"),
    [*((score, "sinusoidal") for score in SCORES), *((score, "rotary") for score in ROTATED)],
)
def test_packed_texts_are_learnt_as_padded_ones(score: str, positions: str) -> None:
    model = small(score, kv_heads=1, positions=positions)
    rows = [[[5, 6, 2], [7, 2], [8, 9, 10, 11, 2]], [[4, 2], [5, 6, 7, 2], [2]]]
    losses = []
    for kind in (Sequences, Packed):
        model.zero_grad()
        loss = model.loss(Pairs(*(kind.of(side) for side in rows))).total
        loss.backward()
        losses.append([loss, *(each.grad.clone() for each in model.parameters() if each.grad is not None)])
    for padded, packed in zip(*losses, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-10, atol=1e-12)


@every_score
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_optimised_it_says_the_same_and_the_report_names_what_was_kept(score: Any, precision: str) -> None:
    model, data = small(score, norm="after", tied="none").float(), batch()
    wanted, texts = model.logits(data), beam(model, data.source, size=3, limits=6)
    fast, report = optimise(model, precision=precision)
    kept = {what: why for _, what, why in report.kept}
    weighted = score not in ("dot", "scaled-dot")
    assert kept.get(CLASSES[score].__name__) == ("no faster form of it" if weighted else None)
    real = data.target.real()
    tolerance = 1e-4 if precision == "float32" else 0.5
    torch.testing.assert_close(fast.logits(data)[real], wanted[real], rtol=0, atol=tolerance)  # type: ignore[operator]
    if precision == "float32":
        found = beam(fast, data.source, size=3, limits=6)  # type: ignore[arg-type]
        assert [one.tokens for some in found for one in some] == [
            one.tokens for some in texts for one in some
        ]


def test_settings_of_scores_are_sizes_of_their_weights() -> None:
    sizes = {
        score: {name: tuple(part.shape) for name, part in small(score, **own).encoder[0].attention.score.named_parameters()}
        for score, own in {
            "low-rank": {"rank": 2, "kv_heads": 1},
            "additive": {"additive_hidden": 5, "kv_heads": 1},
            "bilinear": {},
        }.items()
    }  # fmt: skip
    assert sizes == {
        "low-rank": {"query_weight": (2, 2, 6), "key_weight": (1, 2, 6)},
        "additive": {"query_weight": (2, 5, 6), "key_weight": (1, 5, 6), "vector": (2, 5)},
        "bilinear": {"weight": (2, 6, 6)},
    }
    default = [small(score).decoder[0].cross.score for score in ("low-rank", "additive")]
    assert [part.query_weight.shape for part in default] == [(2, 3, 6), (2, 6, 6)]


def test_a_config_saved_before_there_were_scores_gives_the_same_bits() -> None:
    saved = json.loads(json.dumps(plain(SMALL)))
    for name in ("score", "rank", "additive_hidden"):
        del saved[name]
    old = build(TransformerConfig, saved)
    assert old == SMALL
    made = []
    for config in (old, replace(SMALL, score="scaled-dot")):
        torch.manual_seed(5)
        made.append(Transformer(config).state_dict())
    assert made[0].keys() == made[1].keys()
    assert not any("score" in name for name in made[0])
    assert all(torch.equal(part, made[1][name]) for name, part in made[0].items())


def test_making_every_head_uniform_under_the_additive_score_is_a_mean() -> None:
    model, data = small("additive"), batch()
    with intervene(model, {"decoder.1.cross": uniform()}), watch(model) as seen:
        model.logits(data)
    weights = seen["decoder.1.cross"].weights()
    torch.testing.assert_close(weights[1, :, :, :4], torch.full_like(weights[1, :, :, :4], 0.25))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"score": "product"}, "score='product': one of 'scaled-dot', 'dot', 'cosine'"),
        ({"rank": 0}, "rank=0: at least 1, or null for the default"),
        ({"additive_hidden": -3}, "additive_hidden=-3: at least 1, or null for the default"),
        (
            {"score": "bilinear", "positions": "rotary"},
            "positions='rotary', score='bilinear': .*say score='scaled-dot' or 'dot' or 'cosine', or other positions",
        ),
        ({"rank": 2.5}, "rank=2.5: give a whole number or None"),
    ],
)
def test_a_mistake_in_a_setting_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RegardError, match=said.replace("(", r"\(")):
        StackConfig(**changes)


@every_score
def test_heads_that_do_not_divide_the_width_are_refused_as_before(score: Any) -> None:
    with pytest.raises(RegardError, match="width=12 does not divide into heads=24"):
        Transformer(replace(SMALL, score=score, heads=24))
