"""Positions concatenated to embeddings: against a forward pass written out in NumPy, step by step, packed and optimised."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from decoding.test_search import CAPACITY, LIMITS, lively, numbers, sources, texts
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
from models.test_stack_scores import WrittenOut
from torch import Tensor, nn

from regard import RegardError, watch
from regard.data.batches import END, Both, Labelled, Packed, Pairs, Sequences
from regard.decoding.beam import BeamSearch, beam
from regard.decoding.decode import evaluating, greedy
from regard.decoding.search import SingleSearch
from regard.decoding.static_decode import _StaticDecode
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.optimise import optimise
from regard.models.stack import StackConfig
from regard.models.transcriber import Transcriber, TranscriberConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.recipe import build, plain

SIZES: dict[str, Any] = {"width": 12, "heads": 2, "hidden_width": 23, "dropout": 0.0, "longest": 16}
SMALL = TransformerConfig(
    **SIZES, source_vocabulary=19, target_vocabulary=19, depth=2, decoder_depth=2, position_width=4
)
SCHEMES = ["sinusoidal", "learned", "gaussian"]


def small(**changes: Any) -> Transformer:
    return shaken(Transformer(replace(SMALL, **changes)).double()).eval()


def batch() -> Pairs:
    return pairs(source=19, target=19)


@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_a_transformer_is_the_one_written_out(tied: str) -> None:
    model, data = small(tied=tied), batch()
    found, written = model.logits(data), WrittenOut(model)
    for row in range(3):
        source, target = (
            side.tokens[row, : side.lengths[row]].tolist() for side in (data.source, data.target)
        )
        expected = torch.from_numpy(written.logits(source, target))
        torch.testing.assert_close(found[row, : len(target)], expected, rtol=0, atol=1e-11)
    assert model.target_embedding.table.shape == (19, 8)


@pytest.mark.parametrize("positions", SCHEMES)
def test_step_by_step_and_in_a_beam_it_says_the_same(positions: str) -> None:
    model, data = small(positions=positions), batch()
    found = stepped(model, model.start(data.source), data.target.decoder_input())
    real = data.target.real()
    torch.testing.assert_close(found[real], model.logits(data)[real], rtol=0, atol=1e-10)

    def told(row: int, text: list[int]) -> Tensor:
        alone = data.source.tokens[row, : data.source.lengths[row]].tolist()
        return model.logits(Pairs(Sequences.of([alone]), Sequences.of([[*text[1:], END]])))[0, -1]

    picks = [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [3, 2]]
    assert follow(model, model.start(data.source), picks, told, vocabulary=19) < 1e-10


@pytest.mark.parametrize("positions", SCHEMES)
def test_a_language_model_steps_as_it_reads(positions: Any) -> None:
    config = LanguageConfig(**SIZES, depth=2, vocabulary=17, positions=positions, position_width=4)
    model = shaken(LanguageModel(config).double()).eval()
    prompts = sequences(5, 3, 2, vocabulary=17)
    logits, _ = model.step((state := model.start(prompts)).first, state)
    expected = model.logits(prompts)[torch.arange(3), prompts.lengths - 1]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("size", [None, 3])
def test_static_caches_give_the_texts_of_growing_ones(positions: str, size: int | None) -> None:
    model, source = lively(positions=positions, position_width=8), sources()
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


@pytest.mark.parametrize("positions", SCHEMES)
def test_packed_texts_are_learnt_as_padded_ones(positions: str) -> None:
    model = small(positions=positions, tied="all")
    rows = [[[5, 6, 2], [7, 2], [8, 9, 10, 11, 2]], [[4, 2], [5, 6, 7, 2], [2]]]
    losses = []
    for kind in (Sequences, Packed):
        model.zero_grad()
        loss = model.loss(Pairs(*(kind.of(side) for side in rows))).total
        loss.backward()
        losses.append([loss, *(each.grad.clone() for each in model.parameters() if each.grad is not None)])
    for padded, packed in zip(*losses, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("tied", ["none", "output"])
def test_optimised_and_watched_it_says_the_same(tied: str, precision: str) -> None:
    model, data = small(tied=tied).float(), batch()
    real = data.target.real()
    wanted, said = model.logits(data)[real], greedy(model, data.source, limits=6)
    with watch(model) as seen:
        assert torch.equal(model.logits(data)[real], wanted)
        assert greedy(model, data.source, limits=6) == said
    assert len(seen) > 6
    fast = optimise(model, precision=precision).model
    tolerance = 1e-4 if precision == "float32" else 0.5
    torch.testing.assert_close(fast.logits(data)[real], wanted, rtol=0, atol=tolerance)  # type: ignore[operator]


def models() -> dict[str, Callable[[str], tuple[nn.Module, Any]]]:
    """A model of each kind, with a batch to learn from."""
    seen = {"channels": 2, "image_size": (6, 10), "patch": (3, 2)}
    heard = {"rate": 800, "window": 40, "hop": 20, "bands": 9, "frame_channels": 4}
    labels, own = torch.tensor([0, 1, 1]), SIZES | {"longest": 64}

    def make(model: Any, config: Any, batch: Any, **more: Any) -> Callable[[str], tuple[nn.Module, Any]]:
        return lambda positions: (
            model(config(**own, depth=1, positions=positions, position_width=4, **more)),
            batch,
        )

    read, hear, see = sequences(7, 4, 2, vocabulary=17), sounds(400, 333, 251), images()
    writes: dict[str, Any] = {"target_vocabulary": 17, "decoder_depth": 1}
    return {
        "classifier": make(Classifier, ClassifierConfig, Labelled(read, labels), vocabulary=17),
        "vision": make(Vision, VisionConfig, Labelled(see, labels), **seen),
        "captioner": make(Captioner, CaptionerConfig, Pairs(see, read), **seen, **writes),
        "hearing": make(Hearing, HearingConfig, Labelled(hear, labels), **heard),
        "transcriber": make(Transcriber, TranscriberConfig, Pairs(hear, read), **heard, **writes),
        "fusion": make(
            Fusion, FusionConfig, Labelled(Both(see, hear), labels), fusion_depth=1, **seen, **heard
        ),
    }


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("name", models())
def test_every_transformer_learns_with_positions_beside_its_tokens(name: str, positions: str) -> None:
    model, data = models()[name](positions)
    first: list[Tensor] = []
    block = next(part for part in model.modules() if type(part).__name__ == "EncoderBlock")
    block.register_forward_pre_hook(lambda _, given: first.append(given[0]))
    lost = parameters_without_gradient(model, model.loss(data).total)  # type: ignore[operator]
    assert [each for each in lost if "table" in each or "cut" in each or "frames" in each] == []
    assert first[0].shape[-1] == 12
    # The last features are positions: the same in every row of the batch, where tokens differ.
    beside = first[0][..., 8:]
    assert torch.equal(beside[0, 1], beside[1, 1])
    assert not torch.equal(first[0][0, 1, :8], first[0][1, 1, :8])


def test_a_config_saved_before_there_was_a_choice_gives_the_same_bits() -> None:
    added = replace(SMALL, position_width=None)
    saved = json.loads(json.dumps(plain(added)))
    del saved["position_width"]
    old = build(TransformerConfig, saved)
    assert old == added
    made = []
    for config in (old, added):
        torch.manual_seed(5)
        made.append(Transformer(config).state_dict())
    assert all(torch.equal(part, made[1][name]) for name, part in made[0].items())


@pytest.mark.parametrize(
    ("config", "changes", "said"),
    [
        (StackConfig, {"position_width": 0}, "position_width=0, width=12: at least 1, and less than"),
        (StackConfig, {"position_width": 12}, "position_width=12, width=12: at least 1, and less than"),
        (
            StackConfig,
            {"position_width": 4, "positions": "rotary"},
            "position_width=4, positions='rotary': only vectors can be concatenated",
        ),
        (StackConfig, {"position_width": 4, "positions": "none"}, "positions='none': only vectors"),
    ],
)
def test_what_cannot_be_concatenated_is_refused_by_name(config: Any, changes: Any, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        config(**SIZES, **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"positions": "gaussian", "position_width": 6}, "position_width=6, positions='gaussian'"),
        ({"positions": "sinusoidal", "position_width": 1}, "position_width=1, positions='sinusoidal'"),
    ],
)
def test_rows_and_columns_of_a_picture_need_features_each(changes: Any, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        Vision(VisionConfig(**SIZES, **changes))
