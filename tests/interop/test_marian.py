"""Weights to and from Marian, held against Hugging Face's own model with the same weights."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batches import END, PAD, START, Pairs, Sequences
from regard.decoding.decode import greedy
from regard.errors import RegardError
from regard.interop.marian import _SIZES, from_marian, load_marian, marian_config, save_marian, to_marian
from regard.models.transformer import Transformer, TransformerConfig

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("as_a_user")


def small(**changes: Any) -> Transformer:
    settings: dict[str, Any] = {
        "width": 22,
        "heads": 2,
        "depth": 2,
        "decoder_depth": 3,
        "hidden_width": 31,
        "norm": "after",
        "source_vocabulary": 19,
        "target_vocabulary": 23,
        "longest": 40,
    }
    model = Transformer(TransformerConfig(**settings | changes)).eval()
    for weight in model.parameters():  # biases and norms too, so that none can be left out unnoticed
        weight.data += torch.randn_like(weight) * 0.2
    return model


def pairs() -> Pairs:
    source = Sequences.of([[5, 7, 11, END], [4, END], [9, 6, 18, 3, 8, END]])
    target = Sequences.of([[6, 6, END], [13, 5, 22, 4, END], [10, END]])
    return Pairs(source, target)


def theirs(folder: Path) -> Any:
    return transformers.MarianMTModel.from_pretrained(folder).eval()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied": "none"},
        {"tied": "all", "source_vocabulary": 23},
        {"feedforward": "gelu"},
    ],
    ids=str,
)
def test_marian_with_our_weights_gives_our_logits(tmp_path: Path, changes: dict[str, Any]) -> None:
    model, batch = small(**changes), pairs()
    save_marian(model, tmp_path)
    start = torch.full((3, 1), START)
    real = batch.target.real()
    found = theirs(tmp_path)(
        input_ids=batch.source.tokens,
        attention_mask=batch.source.real().long(),
        decoder_input_ids=torch.cat([start, batch.target.tokens[:, :-1]], dim=1),
    ).logits
    torch.testing.assert_close(found[real], model.logits(batch)[real], rtol=1e-4, atol=1e-4)


def test_marian_with_our_weights_writes_our_texts(tmp_path: Path) -> None:
    model, batch = small(tied="none"), pairs()
    save_marian(model, tmp_path)
    written = theirs(tmp_path).generate(
        input_ids=batch.source.tokens,
        attention_mask=batch.source.real().long(),
        max_new_tokens=9,
        num_beams=1,
        do_sample=False,
    )
    ours = [[*each.tokens, *[END] * each.finished] for each in greedy(model, batch.source, limits=9)]
    assert [[token for token in row if token != PAD] for row in written[:, 1:].tolist()] == ours


@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_there_and_back_is_the_same_model(tmp_path: Path, tied: str) -> None:
    model = small(tied=tied, source_vocabulary=23)
    save_marian(model, tmp_path)
    theirs(tmp_path).save_pretrained(tmp_path / "again")
    back = load_marian(tmp_path / "again")
    assert back.config == model.config
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"norm": "before"}, "norm='before'"),
        ({"positions": "rotary", "width": 24}, "positions='rotary'"),
        ({"feedforward": "swiglu"}, "feedforward='swiglu'"),
        ({"kv_heads": 1}, "kv_heads=1"),
        ({"score": "cosine"}, "score='cosine'"),
        ({"position_width": 4}, "position_width=4"),
    ],
    ids=str,
)
def test_settings_that_marian_lacks_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(RegardError, match=named):
        to_marian(small(**changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "bart"}, "bart"),
        ({"activation_function": "swish"}, "activation_function='swish'"),
        ({"scale_embedding": False}, "scale_embedding=False"),
        ({"decoder_ffn_dim": 5}, "decoder_ffn_dim=5"),
        ({"decoder_start_token_id": 9}, "decoder_start_token_id=9"),
    ],
    ids=str,
)
def test_what_a_transformer_here_lacks_is_named(changes: dict[str, Any], named: str) -> None:
    model = small()
    with pytest.raises(RegardError, match=named):
        from_marian(to_marian(model), marian_config(model.config) | changes)


def test_a_bias_of_the_logits_and_a_missing_weight_are_refused() -> None:
    model = small()
    tensors, config = to_marian(model), marian_config(model.config)
    with pytest.raises(RegardError, match="final_logits_bias"):
        from_marian(tensors | {"final_logits_bias": torch.ones(1, 23)}, config)
    tensors.pop("model.decoder.layers.1.fc2.bias")
    with pytest.raises(RegardError, match=r"layers\.1\.fc2\.bias"):
        from_marian(tensors, config)


@pytest.mark.parametrize("name", sorted(marian_config(small().config)))
def test_a_config_that_lacks_a_setting_makes_a_model_or_is_refused(name: str) -> None:
    model = small()
    tensors, config = to_marian(model), marian_config(model.config)
    config.pop(name)
    with suppress(RegardError):
        from_marian(tensors, config)
    if name in _SIZES:
        with pytest.raises(RegardError, match=f"has no {name}: give a whole number"):
            from_marian(tensors, config)


@pytest.mark.parametrize("value", [None, "22", 22.0, True, [22]])
def test_a_size_that_is_no_whole_number_is_named(value: Any) -> None:
    model = small()
    with pytest.raises(RegardError, match=r"has d_model=.*: give a whole number"):
        from_marian(to_marian(model), marian_config(model.config) | {"d_model": value})
    with pytest.raises(RegardError, match="has no d_model: give a whole number"):
        from_marian({}, {"model_type": "marian"})
    with pytest.raises(RegardError, match="a mapping of settings, this is list"):
        from_marian({}, [])  # type: ignore[arg-type]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no Marian model"):
        load_marian(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    save_marian(small(), tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(RegardError, match="not a regular file"):
        load_marian(tmp_path)
