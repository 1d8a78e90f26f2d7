"""The steps of a decoder, stitched, are the attention of the whole text at once."""

import pytest
import torch
from sight.peers import hugging_face
from torch import nn

from regard import MultiHeadAttention, RegardError, causal
from regard.data.batches import END, Pairs, Sequences
from regard.decoding import decode
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.decoding.hypothesis import Hypothesis, beams
from regard.layers import DecoderBlock, FeedForward, Residual, Rotary
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig
from regard.sight.watch import watch

close = {"rtol": 0, "atol": 2e-6}


class Stepping(nn.Module):
    """A decoder block that goes over a text at once, or step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.block = DecoderBlock(
            MultiHeadAttention(16, 4, rotary=Rotary(4)),
            MultiHeadAttention(16, 4),
            FeedForward(16, 16),
            lambda: Residual(16),
        )

    def forward(self, x: torch.Tensor, memory: torch.Tensor, pieces: list[int]) -> torch.Tensor:
        if not pieces:
            return self.block(x, memory, mask=causal())
        state, found, start = self.block.start(memory), [], 0
        for piece in x.split(pieces, dim=1):
            y, state = self.block.step(piece, state, mask=causal(offset=start))
            found.append(y)
            start += piece.shape[1]
        return torch.cat(found, 1)


@pytest.mark.parametrize("pieces", [[1] * 6, [4, 1, 1]])
def test_our_decoder_step_by_step(pieces: list[int]) -> None:
    model, x, memory = Stepping(), torch.randn(3, 6, 16), torch.randn(3, 5, 16)
    with watch(model) as whole:
        model(x, memory, [])
    with watch(model) as steps:
        model(x, memory, pieces)
    for name in ("block.attention", "block.cross"):
        stitched = steps.stitched(name)
        assert stitched.shape == whole[name].shape
        torch.testing.assert_close(stitched.weights(), whole[name].weights(), **close)
        torch.testing.assert_close(stitched.entropy(), whole[name].entropy(), **close)
        torch.testing.assert_close(stitched.map(3, 3), whole[name].map(3, 3), **close)


@pytest.mark.skipif(not hugging_face(), reason="needs transformers")
@pytest.mark.parametrize("name", ["HF GPT-2", "HF Llama", "HF T5", "HF Marian"])
@pytest.mark.parametrize("beams", [1, 3])
def test_hugging_face_generation(name: str, beams: int) -> None:
    model = hugging_face()[name]().model
    both = model.config.is_encoder_decoder
    torch.manual_seed(3)
    tokens = torch.randint(3, 50, (2, 5))
    kept = torch.ones_like(tokens)
    kept[1, :2] = 0  # padded on the left, as generation wants it
    options = {"max_new_tokens": 6, "min_new_tokens": 3, "num_beams": beams, "do_sample": False}
    returned = {"return_dict_in_generate": True, "output_scores": True, "num_return_sequences": beams}
    with torch.no_grad(), watch(model) as seen:
        answer = model.generate(tokens, attention_mask=kept, **options, **returned)
    texts = answer.sequences
    with torch.no_grad(), watch(model) as whole:  # every finished text at once, without a cache
        repeated = {"attention_mask": kept.repeat_interleave(beams, 0), "use_cache": False}
        if both:
            model(input_ids=tokens.repeat_interleave(beams, 0), decoder_input_ids=texts[:, :-1], **repeated)
        else:
            grown = torch.cat([repeated["attention_mask"], torch.ones_like(texts[:, 5:-1])], 1)
            places = (grown.cumsum(1) - 1).clamp_min(0)  # padding on the left moves no position
            model(input_ids=texts[:, :-1], position_ids=places, **{**repeated, "attention_mask": grown})
    lineage = answer.beam_indices if beams > 1 else None
    decoders = [full for full in whole.names if "encoder." not in full.replace("decoder.", "")]
    assert len(decoders) == (4 if both else 2)
    for full in decoders:
        stitched, once = seen.stitched(full, beams=lineage), whole[full]
        for text in range(texts.shape[0]):
            steps = (
                stitched.shape[-2]
                if lineage is None
                else (0 if both else 4) + int((lineage[text] >= 0).sum())
            )
            rows = slice(2 if not both and text >= beams else 0, steps)  # rows of padding are nobody's
            mine = stitched.weights(batch=text, queries=rows)
            theirs = once.weights(batch=text, queries=rows)
            keys = min(mine.shape[-1], theirs.shape[-1])
            torch.testing.assert_close(mine[..., :keys], theirs[..., :keys], rtol=0, atol=1e-5)


SOURCES = Sequences.of([[5, 9, 4, 7, 11, 6, END], [8, 4, END], [10, 5, 5, 12, END], [END], [6, 7, 8, 9, END]])
SIZES = {"source_vocabulary": 13, "target_vocabulary": 11}


def translator(kind: str) -> Transformer | RecurrentTranslator:
    """A small model that has learned nothing, so that its texts end at different times."""
    if kind == "transformer":
        config = TransformerConfig(**SIZES, width=16, heads=2, depth=1, decoder_depth=2, hidden_width=16)
        model: Transformer | RecurrentTranslator = Transformer(config)
    else:
        wiring, attention = kind.split(" ")
        options = {"width": 12, "embedding_width": 7, "wiring": wiring, "attention": attention}
        model = RecurrentTranslator(RecurrentConfig(**SIZES, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # looks that differ from row to row
    return model.eval()


def decoded(model: nn.Module, size: int) -> list[Hypothesis]:
    """The best text of every source, of limits that differ."""
    limits = torch.tensor([9, 4, 7, 2, 8])
    if size == 1:
        return greedy(model, SOURCES, limits=limits)
    return [found[0] for found in beam(model, SOURCES, size=size, limits=limits)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "kind",
    ["transformer", "output-context bilinear", "recurrent-context bilinear", "recurrent-context additive"],
)
def test_the_text_of_a_decoder_looks_as_it_does_when_it_is_told(kind: str, size: int) -> None:
    model = translator(kind)
    with watch(model) as steps:
        best = decoded(model, size)
    assert len({len(text.rows) for text in best}) > 2  # the ends are not at one step
    told = Sequences.of([[*text.tokens, END][: len(text.rows)] for text in best])
    with torch.no_grad(), watch(model) as whole:
        model.logits(Pairs(SOURCES, told))
    names = ["decoder.0.attention", "decoder.0.cross", "decoder.1.attention", "decoder.1.cross"]
    for name in names if kind == "transformer" else ["attention"]:
        stitched = steps.stitched(name, beams=beams(best))
        once = whole.stitched(name)
        for text, hypothesis in enumerate(best):
            queries = slice(0, len(hypothesis.rows))
            mine, theirs = (each.weights(batch=text, queries=queries) for each in (stitched, once))
            assert mine.sum(-1).allclose(torch.ones(()))
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)
        assert stitched.weights()[best.index(min(best, key=lambda each: len(each.rows))), :, -1].sum() == 0


def test_every_text_of_a_beam_can_be_followed() -> None:
    model = translator("transformer")
    with watch(model) as steps:
        found = beam(model, SOURCES, size=3, limits=6, count=3)
    texts = [(number, text) for number, best in enumerate(found) for text in best]
    stitched = steps.stitched("decoder.1.cross", beams=beams([text for _, text in texts]))
    assert steps.calls("decoder.1.cross")[1].shape == (5, 2, 3, 7)  # three rows ask each memory
    for place, (number, text) in enumerate(texts):
        tokens = Sequences.of([[*text.tokens, END][: len(text.rows)]])
        alone = Sequences(SOURCES.tokens[number : number + 1], SOURCES.lengths[number : number + 1])
        with torch.no_grad(), watch(model) as whole:
            model.logits(Pairs(alone, tokens))
        mine = stitched.weights(batch=place, queries=slice(0, len(text.rows)))
        torch.testing.assert_close(mine, whole["decoder.1.cross"].weights(), rtol=0, atol=1e-5)


def test_the_beams_of_another_decode_are_refused() -> None:
    model = translator("transformer")
    with watch(model) as seen:
        decoded(model, 3)
    wrong = torch.tensor([[0, 99]])
    with pytest.raises(RegardError, match=r"row 99 at step 1, but decoder\.0\.cross had 15 rows there"):
        seen.stitched("decoder.0.cross", beams=wrong)


def test_what_is_not_one_text_is_refused() -> None:
    model = MultiHeadAttention(16, 4)
    with watch(model) as seen:
        model(torch.randn(2, 5, 16))
        model(torch.randn(2, 9, 16))
    with pytest.raises(RegardError, match="9 queries over 9 keys, does not continue call 1, 5 over 5"):
        seen.stitched("MultiHeadAttention")


def test_two_unrelated_calls_are_refused() -> None:
    model = MultiHeadAttention(16, 4)
    x, y = torch.randn(2, 1, 5, 16)
    with watch(model) as seen:
        model(x)
        model(y)
    with pytest.raises(
        RegardError, match="call 2 of MultiHeadAttention, 5 queries over 5 keys, does not continue"
    ):
        seen.stitched("MultiHeadAttention")
    with watch(model) as seen:
        model(x)
        model(x)
    with pytest.raises(RegardError, match="call 2 of MultiHeadAttention is call 1 again"):
        seen.stitched("MultiHeadAttention")
    with watch(model) as seen:  # as many new keys as queries, but of another text
        model(x[:, :2])
        model(y[:, :3], y)
    with pytest.raises(RegardError, match="does not continue call 1"):
        seen.stitched("MultiHeadAttention")


def test_one_call_is_itself() -> None:
    model = MultiHeadAttention(16, 4)
    with watch(model) as seen:
        model(torch.randn(1, 5, 16))
    assert seen.stitched("MultiHeadAttention") is seen[0]


def windowed(family: str) -> nn.Module:
    """A small model of Hugging Face's whose cache keeps four positions."""
    import transformers

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    sizes |= {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50, "max_position_embeddings": 64}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    own = {
        "Mistral": {"sliding_window": 4},
        "Gemma3": {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
        "Llama4": {
            "attention_chunk_size": 4,
            "layer_types": ["chunked_attention", "full_attention"],
            "moe_layers": [],
            "intermediate_size_mlp": 48,
        },
        "RecurrentGemma": {
            "num_hidden_layers": 3,
            "attention_window_size": 4,
            "lru_width": 32,
            "conv1d_width": 2,
        },
    }[family]
    config = {"Gemma3": "Gemma3Text", "Llama4": "Llama4Text"}.get(family, family)
    made = getattr(transformers, f"{config}Config")(**sizes | tokens | own)
    return getattr(transformers, f"{family}ForCausalLM")(made).eval()


@pytest.mark.skipif(not hugging_face(), reason="needs transformers")
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("prompt", [2, 7])
@pytest.mark.parametrize("family", ["Mistral", "Gemma3", "Llama4", "RecurrentGemma"])
def test_a_cache_that_is_a_sliding_window(family: str, prompt: int, beams: int) -> None:
    if family == "RecurrentGemma" and beams > 1:
        pytest.skip("its cache cannot be reordered")
    model, tokens = windowed(family), torch.randint(3, 50, (1, prompt))
    options = {"attention_mask": torch.ones_like(tokens), "do_sample": False, "num_beams": beams}
    options |= {"max_new_tokens": 7, "min_new_tokens": 7, "return_dict_in_generate": True}
    with torch.no_grad(), watch(model) as steps:
        found = model.generate(tokens, **options, output_scores=beams > 1)
    with torch.no_grad(), watch(model) as whole:
        model(found.sequences[:, :-1], use_cache=False)
    for name in whole.names:
        stitched = steps.stitched(name, beams=found.beam_indices if beams > 1 else None)
        assert stitched.shape == (1, 4, prompt + 6, prompt + 6)
        torch.testing.assert_close(stitched.weights(), whole[name].weights(), rtol=0, atol=2e-6)
        torch.testing.assert_close(stitched.entropy(), whole[name].entropy(), rtol=0, atol=5e-6)


KINDS = pytest.mark.parametrize("kind", ["transformer", "recurrent-context additive"])


@KINDS
def test_the_best_texts_of_a_beam_are_followed_by_themselves(kind: str) -> None:
    model = translator(kind)
    with watch(model) as seen:
        best = [texts[0] for texts in beam(model, SOURCES, size=4, limits=9)]
    for name in ["decoder.0.cross", "decoder.1.attention"] if kind == "transformer" else ["attention"]:
        found, given = seen.stitched(name), seen.stitched(name, beams=beams(best))
        torch.testing.assert_close(found.weights(), given.weights(), rtol=0, atol=0)
        assert found.shape[-2] == max(len(text.rows) for text in best)


def test_they_are_followed_over_static_caches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ways = translator("transformer"), []
    for static in (False, True):
        monkeypatch.setattr(decode, "static_on", lambda *_, static=static: static)
        with watch(model) as seen:
            beam(model, SOURCES, size=4, limits=9)
        ways.append(seen)
    for name in ("decoder.0.cross", "decoder.1.attention"):
        eager, fixed = (seen.stitched(name).weights() for seen in ways)
        width = min(eager.shape[-1], fixed.shape[-1])
        torch.testing.assert_close(fixed[..., :width], eager[..., :width], rtol=0, atol=2e-6)


@KINDS
@pytest.mark.parametrize("static", [False, True])
def test_a_beam_without_its_rows_is_refused(kind: str, static: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if static and kind != "transformer":
        pytest.skip("has no static caches")
    monkeypatch.setattr(decode, "static_on", lambda *_: static)
    model = translator(kind)
    one = Sequences(SOURCES.tokens[:1], SOURCES.lengths[:1])
    with watch(model) as seen:
        found = beam(model, one, size=4, limits=9)[0][0]
    assert len(found.rows) > 2
    seen.decodes.clear()  # as of calls that were loaded from a file
    name = "decoder.0.cross" if kind == "transformer" else "attention"
    with pytest.raises(RegardError, match=r"the rows of a beam( do)?: give the beams"):
        seen.stitched(name)
    stitched = seen.stitched(name, beams=beams([found]))
    assert stitched.shape[-2] == len(found.rows)  # the answer's, though the search may have gone on
    if kind == "transformer":
        with pytest.raises(RegardError, match="give the beams"):
            seen.stitched("decoder.0.attention")


def test_the_map_ends_with_the_texts_that_are_followed() -> None:
    model = translator("transformer")
    with watch(model) as seen:
        best = decoded(model, 3)
    shortest = min(best, key=lambda text: len(text.rows))
    assert (
        seen.stitched("decoder.1.attention", beams=beams([shortest])).shape[-2:] == (len(shortest.rows),) * 2
    )


@pytest.mark.slow
@pytest.mark.skipif(not hugging_face(), reason="needs transformers")
def test_rows_of_a_beam_that_changed_places_are_refused_in_cross_attention_too() -> None:
    model = hugging_face()["HF Marian"]().model
    options = {"num_beams": 3, "max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    options |= {"return_dict_in_generate": True, "output_scores": True}
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)  # texts that differ
    for _ in range(40):  # until a text comes from several rows
        tokens = torch.randint(3, 50, (1, 5))
        with torch.no_grad(), watch(model) as seen:
            found = model.generate(tokens, **options)
        if len(set(found.beam_indices[0].tolist())) > 1:
            break
    cross = "model.decoder.layers.0.encoder_attn"
    with pytest.raises(RegardError, match=f"{cross} was not asked by the same texts at every step"):
        seen.stitched(cross)
    assert seen.stitched(cross, beams=found.beam_indices).shape == (1, 4, 6, 5)
