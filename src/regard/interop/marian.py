"""Transformers to and from Hugging Face's Marian: weights and config, as safetensors and JSON. Nothing is pickled.

Marian lays its sines before its cosines, where ours alternate (Vaswani 2017), so the features of the model are put in
another order on the way. A product then sums in another order, and results agree up to rounding.

What Marian can say: norm="after", positions="sinusoidal", feedforward="relu" or "gelu", every `tied`. It has no
other norm, no other positions, no gated feed-forward map, no fewer heads of key and value and no
score but the scaled dot product.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from regard.data.batches import END, PAD, START
from regard.data.file_access import opened, read_text, write_atomically
from regard.data.given import parse_settings
from regard.errors import RegardError
from regard.interop.settings import refuse_other_settings
from regard.models.transformer import Transformer, TransformerConfig

CAN_SAY = {
    "norm": ("after",),
    "positions": ("sinusoidal",),
    "feedforward": ("relu", "gelu"),
    "kv_heads": (None,),
    "score": ("scaled-dot",),
    "position_width": (None,),
}
Features = Literal["in", "out"]  # which axis of a weight is over the features of the model


def save_marian(model: Transformer, folder: str | Path) -> None:
    """Write config.json, generation_config.json and model.safetensors, as MarianMTModel.from_pretrained reads them."""
    config = marian_config(model.config)
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegardError(f"{target} cannot be written ({error.strerror}): choose another folder") from None
    write_atomically(target / "model.safetensors", save(to_marian(model), {"format": "pt"}))
    generation = {**_SPECIAL, "suppress_tokens": [PAD, START]}  # as our decoders, which never write them
    for name, values in (("config", config), ("generation_config", generation)):
        write_atomically(target / f"{name}.json", json.dumps(values, indent=2) + "\n")


def load_marian(folder: str | Path) -> Transformer:
    """The Transformer of a folder that Marian's `save_pretrained`, or `save_marian`, wrote."""
    source = Path(folder)
    try:
        given = parse_settings(read_text(source / "config.json"), source / "config.json")
        with opened(source / "model.safetensors"):  # refuses what is no regular file
            tensors = load_file(source / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise RegardError(
            f"{source}: no Marian model with config.json and model.safetensors can be read here ({error})"
        ) from None
    return from_marian(tensors, given)


def marian_config(config: TransformerConfig) -> dict[str, Any]:
    """The same settings in Marian's words; those that it cannot say are refused."""
    refuse_other_settings(config, CAN_SAY, to="Marian")
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "decoder_vocab_size": config.target_vocabulary,
        "d_model": config.width,
        "encoder_layers": config.depth,
        "decoder_layers": config.decoder_depth,
        **{f"{side}_attention_heads": config.heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": config.hidden_width for side in ("encoder", "decoder")},
        "activation_function": config.feedforward,
        "max_position_embeddings": config.longest,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": config.tied == "all",
        "tie_word_embeddings": config.tied != "none",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        **_SPECIAL,
        "forced_eos_token_id": None,
    }


def to_marian(model: Transformer) -> dict[str, Tensor]:
    """The weights under Marian's names."""
    refuse_other_settings(model.config, CAN_SAY, to="Marian")
    ours = {name: tensor.detach().cpu().float() for name, tensor in model.state_dict().items()}
    order = _order(model.config.width)
    theirs = {"final_logits_bias": torch.zeros(1, model.config.target_vocabulary)}
    for name, other in _tables(model.config).items():
        theirs[other] = ours[name][:, order].contiguous()
    for name, others, features in _layers(model.config):
        for kind in ("weight", "bias"):
            parts = _moved(ours[f"{name}.{kind}"], order, features).chunk(len(others))
            theirs |= {
                f"{other}.{kind}": part.contiguous() for other, part in zip(others, parts, strict=True)
            }
    return theirs


def from_marian(tensors: dict[str, Tensor], given: dict[str, Any]) -> Transformer:
    """A Transformer with the weights and the config of a Marian model."""
    if not isinstance(given, dict):
        raise RegardError(f"a Marian config is a mapping of settings, this is {type(given).__name__}")
    config = _config_of(given)
    bias = tensors.get("final_logits_bias")
    if bias is not None and bool(bias.any()):
        raise RegardError(
            "this Marian model adds a bias to its logits (final_logits_bias is not 0), and a Transformer here has none"
        )
    back = _order(config.width).argsort()
    ours = {}
    try:
        for name, other in _tables(config).items():
            ours[name] = tensors[other][:, back]
        for name, others, features in _layers(config):
            for kind in ("weight", "bias"):
                ours[f"{name}.{kind}"] = _moved(
                    torch.cat([tensors[f"{other}.{kind}"] for other in others]), back, features
                )
    except KeyError as error:
        raise RegardError(f"the weights of this Marian model lack {error.args[0]}") from None
    model = Transformer(config)
    try:
        model.load_state_dict(ours)
    except RuntimeError as error:
        raise RegardError(f"weights and config disagree: {str(error).splitlines()[-1].strip()}") from None
    return model.eval()


_SIZES = (
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "vocab_size",
)
_SPECIAL = {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}


def _config_of(given: dict[str, Any]) -> TransformerConfig:
    if given.get("model_type") != "marian":
        raise RegardError(f"model_type={given.get('model_type')!r}: only Marian models are read")
    for name in _SIZES:
        if type(given.get(name)) is not int:
            said = f"{name}={given[name]!r}" if name in given else f"no {name}"
            raise RegardError(f"the config of this Marian model has {said}: give a whole number")
    tied = given.get("tie_word_embeddings", True)
    shared = given.get("share_encoder_decoder_embeddings", True)
    wanted: dict[str, tuple[Any, ...]] = {
        "scale_embedding": (True,),
        "activation_function": CAN_SAY["feedforward"],
        "decoder_attention_heads": (given["encoder_attention_heads"],),
        "decoder_ffn_dim": (given["encoder_ffn_dim"],),
        "tie_word_embeddings": (True,) if shared else (True, False),
        **{name: (value,) for name, value in _SPECIAL.items() if name != "bos_token_id"},
    }
    for name, values in wanted.items():
        if given.get(name) not in values and not (name == "tie_word_embeddings" and name not in given):
            raise RegardError(
                f"this Marian model has {name}={given.get(name)!r}; a Transformer here can only have "
                f"{' or '.join(map(repr, values))}"
            )
    return TransformerConfig(
        width=given["d_model"],
        heads=given["encoder_attention_heads"],
        depth=given["encoder_layers"],
        decoder_depth=given["decoder_layers"],
        hidden_width=given["encoder_ffn_dim"],
        feedforward=given["activation_function"],
        norm="after",
        positions="sinusoidal",
        tied="all" if shared else "output" if tied else "none",
        source_vocabulary=given["vocab_size"],
        target_vocabulary=given.get("decoder_vocab_size") or given["vocab_size"],
        longest=given.get("max_position_embeddings", 1024),
        dropout=given.get("dropout", 0.0),
        attention_dropout=given.get("attention_dropout", 0.0),
    )


def _order(width: int) -> Tensor:
    """Our feature at each of their places: sines, then cosines."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def _moved(tensor: Tensor, order: Tensor, features: Features) -> Tensor:
    """A weight or bias with the features of the model in another order."""
    if features == "out":
        return tensor[order]
    return tensor[:, order] if tensor.ndim == 2 else tensor  # a bias is over what comes out


def _tables(config: TransformerConfig) -> dict[str, str]:
    if config.tied == "all":
        return {"target_embedding.table": "model.shared.weight"}
    tables = {
        "source_embedding.table": "model.encoder.embed_tokens.weight",
        "target_embedding.table": "model.decoder.embed_tokens.weight",
    }
    return tables | ({"output.weight": "lm_head.weight"} if config.tied == "none" else {})


def _layers(config: TransformerConfig) -> Iterator[tuple[str, list[str], Features]]:
    """Our layer, the layers of theirs that it stacks, and where its weight meets the features of the model."""
    attentions = {
        "encoder": [("attention", "self_attn")],
        "decoder": [("attention", "self_attn"), ("cross", "encoder_attn")],
    }
    for side, depth in (("encoder", config.depth), ("decoder", config.decoder_depth)):
        for number in range(depth):
            ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            for own, other in attentions[side]:
                yield f"{ours}.{own}.input.all", [f"{theirs}.{other}.{part}_proj" for part in "qkv"], "in"
                yield f"{ours}.{own}.output", [f"{theirs}.{other}.out_proj"], "out"
                yield f"{ours}.around_{own}.norm", [f"{theirs}.{other}_layer_norm"], "out"
            yield f"{ours}.feedforward.inner", [f"{theirs}.fc1"], "in"
            yield f"{ours}.feedforward.outer", [f"{theirs}.fc2"], "out"
            yield f"{ours}.around_feedforward.norm", [f"{theirs}.final_layer_norm"], "out"
