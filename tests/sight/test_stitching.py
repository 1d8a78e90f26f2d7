"""The steps of a decoder, stitched, are the attention of the whole text at once."""

import pytest
import torch
from sight.peers import hugging_face
from torch import nn

from regard import MultiHeadAttention, RegardError, causal
from regard.layers import DecoderBlock, FeedForward, Residual, Rotary
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
        torch.testing.assert_close(stitched.entropy, whole[name].entropy, **close)
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


def test_what_is_not_one_text_is_refused() -> None:
    model = MultiHeadAttention(16, 4)
    with watch(model) as seen:
        model(torch.randn(2, 5, 16))
        model(torch.randn(2, 9, 16))
    with pytest.raises(RegardError, match="from 5 to 9 keys with 9 new queries"):
        seen.stitched("MultiHeadAttention")
