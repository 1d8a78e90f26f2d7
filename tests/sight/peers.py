"""The models that watching is tried on: ours, torch's own, and those of other libraries where they are installed."""

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import (
    Additive,
    ALiBi,
    Bilinear,
    Cosine,
    Dot,
    HeadSizes,
    LowRank,
    MultiHeadAttention,
    causal,
    lengths,
)
from regard.interop import torch as drop_in
from regard.layers import DecoderBlock, EncoderBlock, FeedForward, Residual, Rotary


@dataclass(frozen=True)
class Peer:
    """A model, how it is run, how many attention calls that makes, and whether gradients are asked of it."""

    model: nn.Module
    run: Callable[..., Tensor]
    calls: int
    gradients: bool = True


def results(peer: Peer) -> list[Tensor]:
    """The output of one run, and the gradients of the weights where they are asked for."""
    torch.manual_seed(7)  # dropout draws the same numbers
    if not peer.gradients:
        with torch.no_grad():
            return [peer.run()]
    output = peer.run()
    weights = [weight for weight in peer.model.parameters() if weight.requires_grad]
    grads = torch.autograd.grad(output.float().square().sum(), weights, allow_unused=True)
    return [output.detach(), *(grad for grad in grads if grad is not None)]


class Ours(nn.Module):
    """An encoder and a decoder block with a given self-attention."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        residual = partial(Residual, 16)
        self.encoder = EncoderBlock(attention, FeedForward(16, 24), residual)
        self.decoder = DecoderBlock(
            MultiHeadAttention(16, 4), MultiHeadAttention(16, 4), FeedForward(16, 24), residual
        )

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        memory = self.encoder(x, mask=lengths(n))
        return self.decoder(x, memory, mask=causal() & lengths(n), memory_mask=lengths(keys=n))


class Plain(nn.Module):
    """Somebody's own attention, around torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = self.qkv(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        causal = mask is None
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal, scale=0.3)


def ours() -> dict[str, Callable[[], Peer]]:
    def peer(attention: MultiHeadAttention) -> Peer:
        model, x, n = Ours(attention), torch.randn(2, 7, 16), torch.tensor([7, 4])
        return Peer(model, lambda: model(x, n), 3)

    made: dict[str, Callable[[], MultiHeadAttention]] = {
        "scaled": lambda: MultiHeadAttention(16, 4),
        "dot": lambda: MultiHeadAttention(16, 4, score=Dot()),
        "cosine": lambda: MultiHeadAttention(16, 4, score=Cosine(0.2, learned=True)),
        "bilinear": lambda: MultiHeadAttention(16, 4, score=Bilinear(4, 4, heads=4)),
        "low-rank": lambda: MultiHeadAttention(16, 4, score=LowRank(4, 4, rank=2, heads=4)),
        "additive": lambda: MultiHeadAttention(16, 4, score=Additive(4, 4, hidden=5, heads=4)),
        "grouped rotary": lambda: MultiHeadAttention(16, 4, sizes=HeadSizes(kv_heads=2), rotary=Rotary(4)),
        "alibi": lambda: MultiHeadAttention(16, 4, bias=ALiBi(4)),
    }
    return {f"regard {name}": (lambda make=make: peer(make())) for name, make in made.items()}


def torch_nn() -> dict[str, Callable[[], Peer]]:
    def attention(library: Any, need_weights: bool, training: bool) -> Peer:
        model = library.MultiheadAttention(16, 4, batch_first=True).train(training)
        x, y = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
        padding = torch.arange(5) >= torch.tensor([[5], [3]])
        return Peer(model, lambda: model(x, y, y, key_padding_mask=padding, need_weights=need_weights)[0], 1)

    def encoder(norm_first: bool, padded: bool, training: bool) -> Peer:
        layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True, norm_first=norm_first)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=padded and not norm_first).train(
            training
        )
        x = torch.randn(2, 7, 16)
        padding = torch.arange(7) >= torch.tensor([[7], [4]]) if padded else None
        return Peer(model, lambda: model(x, src_key_padding_mask=padding), 2, gradients=training)

    def transformer(library: Any, training: bool) -> Peer:
        model = library.Transformer(16, 4, 1, 2, 24, 0.0, batch_first=True).train(training)
        x, y = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        return Peer(model, lambda: model(x, y, tgt_mask=mask, tgt_is_causal=True), 5, gradients=training)

    def plain(masked: bool) -> Peer:
        model, x = Plain(), torch.randn(2, 7, 16)
        mask = torch.rand(2, 1, 7, 7) > 0.3 if masked else None
        return Peer(model, lambda: model(x, mask), 1)

    peers: dict[str, Callable[[], Peer]] = {
        "sdpa, causal": lambda: plain(False),
        "sdpa, masked": lambda: plain(True),
    }
    for training in (True, False):
        mode = "train" if training else "eval"
        for need in (True, False):
            said = "with" if need else "without"
            peers[f"nn.MultiheadAttention {said} weights, {mode}"] = partial(attention, nn, need, training)
        peers[f"nn.Transformer, {mode}"] = partial(transformer, nn, training)
        for norm_first in (True, False):
            for padded in (True, False):
                said = f"{'pre' if norm_first else 'post'}-norm{', padded' if padded else ''}"
                peers[f"nn.TransformerEncoder {said}, {mode}"] = partial(
                    encoder, norm_first, padded, training
                )
    peers["drop-in MultiheadAttention"] = partial(attention, drop_in, True, True)
    peers["drop-in Transformer"] = partial(transformer, drop_in, True)
    return peers


def hugging_face() -> dict[str, Callable[[], Peer]]:
    if importlib.util.find_spec("transformers") is None:
        return {}
    logging.getLogger("transformers").setLevel(logging.ERROR)
    small = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    seq = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "vocab_size": 50,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    }

    def text(config: str, model: str, calls: int, both: bool = False, **options: Any) -> Peer:
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(**options)).eval()
        tokens, kept = torch.randint(3, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
        kept[1, 6:] = 0
        extra = {"decoder_input_ids": torch.randint(3, 50, (2, 6))} if both else {}
        return Peer(
            made, lambda **more: made(input_ids=tokens, attention_mask=kept, **extra, **more)[0], calls
        )

    def picture() -> Peer:
        from transformers import ViTConfig, ViTModel

        made, image = (
            ViTModel(ViTConfig(**small, image_size=16, patch_size=4)).eval(),
            torch.randn(2, 3, 16, 16),
        )
        return Peer(made, lambda: made(pixel_values=image)[0], 2)

    def speech() -> Peer:
        from transformers import WhisperConfig, WhisperForConditionalGeneration

        config = WhisperConfig(**seq, num_mel_bins=8, max_source_positions=10, forced_decoder_ids=None)
        made, sound = WhisperForConditionalGeneration(config).eval(), torch.randn(2, 8, 20)
        start = torch.randint(3, 50, (2, 4))
        return Peer(made, lambda: made(input_features=sound, decoder_input_ids=start)[0], 6)

    vocabulary = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    t5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 50}
    gpt2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, **vocabulary}
    return {
        "HF BERT": partial(text, "BertConfig", "BertModel", 2, **small, vocab_size=50),
        "HF GPT-2": partial(text, "GPT2Config", "GPT2LMHeadModel", 2, **gpt2),
        "HF Llama": partial(
            text, "LlamaConfig", "LlamaForCausalLM", 2, **small, num_key_value_heads=2, **vocabulary
        ),
        "HF T5": partial(
            text, "T5Config", "T5ForConditionalGeneration", 6, True, **t5, decoder_start_token_id=0
        ),
        "HF Marian": partial(text, "MarianConfig", "MarianMTModel", 6, True, **seq, forced_eos_token_id=None),
        "HF Whisper": speech,
        "HF ViT": picture,
    }


def others() -> dict[str, Callable[[], Peer]]:
    peers: dict[str, Callable[[], Peer]] = {}

    def x_transformer() -> Peer:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=True, rotary_pos_emb=True)
        model = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=layers)
        tokens = torch.randint(0, 50, (2, 9))
        return Peer(model, lambda: model(tokens), 2)

    def timm_vit() -> Peer:
        import timm

        options = {"img_size": 16, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 4}
        model, image = timm.models.VisionTransformer(**options), torch.randn(2, 3, 16, 16)
        return Peer(model.eval(), lambda: model(image), 2)

    if importlib.util.find_spec("x_transformers") is not None:
        peers["x-transformers, flash"] = x_transformer
    if importlib.util.find_spec("timm") is not None:
        peers["timm ViT"] = timm_vit
    return peers


def every_peer() -> dict[str, Callable[[], Peer]]:
    return {**ours(), **torch_nn(), **hugging_face(), **others()}
