"""Transformers to CTranslate2, which decodes them in C++ (the extra `peers`, or `pip install ctranslate2`).

    save_ctranslate2(model, "folder", source=tokens, target=tokens)
    ctranslate2.Translator("folder").translate_batch([["▁two", …, "</s>"]])

What it can say: norm="before" or "after", positions="sinusoidal", "learned" or "rotary", every feed-forward map and every `tied`;
as many heads of key and value as of query; score="scaled-dot". Sources end with "</s>", as they do here. It may write PAD
and START, which our decoders never do: pass suppress_sequences=[["<pad>"], ["<s>"]] where that matters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.data.batches import END, SPECIAL, START, UNKNOWN
from regard.errors import RegardError
from regard.interop.settings import refuse_other_settings
from regard.layers.blocks import SwiGLU
from regard.layers.embedding import Embedding
from regard.models.transformer import Transformer, TransformerConfig

if TYPE_CHECKING:
    from regard.attention.multihead import MultiHeadAttention

CAN_SAY = {
    "norm": ("before", "after"),
    "positions": ("sinusoidal", "learned", "rotary"),
    "feedforward": ("relu", "gelu", "swiglu"),
    "kv_heads": (None,),
    "score": ("scaled-dot",),
    "position_width": (None,),
}


def save_ctranslate2(
    model: Transformer,
    folder: str | Path,
    *,
    source: Sequence[str],  # the names of the tokens, in the order of their numbers
    target: Sequence[str],
    quantization: str | None = None,  # int8, float16 …; None: float32. It can also be chosen when loading
) -> None:
    """Write the folder that `ctranslate2.Translator` reads."""
    spec = _spec(model)
    for side, names, size in (
        ("source", source, model.config.source_vocabulary),
        ("target", target, model.config.target_vocabulary),
    ):
        if len(names) != size:
            raise RegardError(f"{len(names)} names for a {side} vocabulary of {size} tokens")
        getattr(spec, f"register_{side}_vocabulary")(list(names))
    spec.config.unk_token, spec.config.eos_token = SPECIAL[UNKNOWN], SPECIAL[END]
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL[START]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(folder))
    except OSError as error:
        raise RegardError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None


def _spec(model: Transformer) -> Any:
    config = model.config
    refuse_other_settings(config, CAN_SAY, to="CTranslate2")
    specs = _library()
    activations = specs.common_spec.Activation
    activation = {"relu": activations.RELU, "gelu": activations.GELU, "swiglu": activations.SWISH}
    rotary = {"rotary_dim": config.width // config.heads} if config.positions == "rotary" else {}
    settings = {
        "num_heads": config.heads,
        "pre_norm": config.norm == "before",
        "activation": activation[config.feedforward],
        "ffn_glu": config.feedforward == "swiglu",
        **rotary,
    }
    encoder = specs.transformer_spec.TransformerEncoderSpec(config.depth, **settings)
    decoder = specs.transformer_spec.TransformerDecoderSpec(config.decoder_depth, **settings)
    reading = model.target_embedding if config.tied == "all" else model.source_embedding
    for spec, embedding, norm in (
        (encoder, reading, model.encoder_norm),
        (decoder, model.target_embedding, model.decoder_norm),
    ):
        _embedding(spec, embedding, config)
        if config.norm == "before":
            _norm(spec.layer_norm, norm)
    for layer, block in zip(encoder.layer, model.encoder, strict=True):
        _self_attention(layer, block)
        _feedforward(layer, block)
    for layer, block in zip(decoder.layer, model.decoder, strict=True):
        _self_attention(layer, block)
        _cross(layer, block)
        _feedforward(layer, block)
    decoder.projection.weight = _array(model.word_table())
    return specs.transformer_spec.TransformerSpec(encoder, decoder)


def _library() -> Any:
    try:
        from ctranslate2 import specs
    except ImportError:
        raise RegardError("CTranslate2 is not installed: pip install ctranslate2") from None
    return specs


def _array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()


def _linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)  # type: ignore[arg-type]


def _embedding(spec: Any, embedding: Embedding, config: TransformerConfig) -> None:
    tables = spec.embeddings if isinstance(spec.embeddings, list) else [spec.embeddings]
    tables[0].weight = _array(embedding.table)
    if embedding.positions is not None:
        places = torch.arange(config.longest, device=embedding.table.device)
        spec.position_encodings.encodings = _array(embedding.positions(places))
    elif hasattr(spec, "position_encodings"):
        del spec.position_encodings


def _self_attention(layer: Any, block: Any) -> None:
    attention: MultiHeadAttention = block.attention
    _linear(layer.self_attention.linear[0], attention.input.all.weight, attention.input.all.bias)
    _linear(layer.self_attention.linear[1], attention.output.weight, attention.output.bias)
    _norm(layer.self_attention.layer_norm, block.around_attention.norm)


def _cross(layer: Any, block: Any) -> None:
    cross: MultiHeadAttention = block.cross
    asking = cross.input.outputs[0]
    for spec, rows in zip(layer.attention.linear, (slice(None, asking), slice(asking, None)), strict=False):
        _linear(spec, cross.input.all.weight[rows], cross.input.all.bias[rows])
    _linear(layer.attention.linear[2], cross.output.weight, cross.output.bias)
    _norm(layer.attention.layer_norm, block.around_cross.norm)


def _feedforward(layer: Any, block: Any) -> None:
    inner = block.feedforward
    if isinstance(inner, SwiGLU):
        _linear(layer.ffn.linear_0, inner.gate.weight, None)
        _linear(layer.ffn.linear_0_noact, inner.inner.weight, None)
    else:
        _linear(layer.ffn.linear_0, inner.inner.weight, inner.inner.bias)
    _linear(layer.ffn.linear_1, inner.outer.weight, inner.outer.bias)
    _norm(layer.ffn.layer_norm, block.around_feedforward.norm)
