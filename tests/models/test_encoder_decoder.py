"""What writes: one decoder for texts, pictures and sounds, and names of weights that saved runs have."""

import pytest
import torch
from models.samples import sequences, stepped

from regard.data.batches import Images, Pairs, Sequences
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.layout import Encoded
from regard.models.stack import StackConfig, decoder_blocks
from regard.models.transcriber import Transcriber
from regard.models.transformer import EncoderDecoder, EncoderDecoderConfig, Transformer, TransformerConfig


class Told(EncoderDecoder[Images]):
    """A decoder whose memory is handed to it, as pixels."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.make_table()
        self.make_decoder()

    def read(self, source: Images) -> Encoded:
        """Three real vectors of five."""
        return Encoded(source.pixels[:, 0], torch.full((len(source),), 3))


SETTINGS = {"width": 12, "heads": 2, "hidden_width": 23, "dropout": 0.0, "depth": 1, "decoder_depth": 2}


@pytest.mark.parametrize("kind", [Transformer, Captioner, Transcriber])
def test_nobody_writes_in_a_way_of_its_own(kind: type) -> None:
    own = {"encode", "read", "check", "_reader"}
    assert {name for name, part in vars(kind).items() if callable(part) and not name.startswith("__")} <= own


def test_only_real_vectors_are_asked() -> None:
    model = Told(EncoderDecoderConfig(target_vocabulary=19, **SETTINGS)).double()
    memory, target = torch.randn(2, 1, 5, 12).double(), sequences(4, 2, vocabulary=19)
    found = model.logits(Pairs(Images(memory), target))
    memory[:, :, 3:] = torch.nan
    assert torch.equal(model.logits(Pairs(Images(memory), target)), found)
    steps = stepped(model, model.start(Images(memory)), target.decoder_input())
    torch.testing.assert_close(steps[target.real()], found[target.real()], rtol=0, atol=1e-12)


def test_the_names_of_weights_are_those_of_saved_runs() -> None:
    sizes = {"source_vocabulary": 17, "target_vocabulary": 19}
    model = Transformer(TransformerConfig(**sizes, **{**SETTINGS, "decoder_depth": 1}, tied="none"))
    parts = ["input.all.weight", "input.all.bias", "output.weight", "output.bias"]
    norm = ["norm.weight", "norm.bias"]
    ends = ["feedforward.inner.weight", "feedforward.inner.bias"]
    ends += ["feedforward.outer.weight", "feedforward.outer.bias"]
    ends += [f"around_feedforward.{name}" for name in norm]
    looks = [f"attention.{name}" for name in parts] + [f"around_attention.{name}" for name in norm]
    asks = [f"cross.{name}" for name in parts] + [f"around_cross.{name}" for name in norm]
    assert list(model.state_dict()) == [
        "target_embedding.table",
        "source_embedding.table",
        *(f"encoder.0.{name}" for name in [*looks, *ends]),
        "encoder_norm.weight",
        "encoder_norm.bias",
        *(f"decoder.0.{name}" for name in [*looks, *asks, *ends]),
        "decoder_norm.weight",
        "decoder_norm.bias",
        "output.weight",
    ]


def test_blocks_that_write_are_left_out_more_often_the_later_they_stand() -> None:
    blocks = decoder_blocks(StackConfig(width=12, heads=2, hidden_width=5, stochastic_depth=0.3), 3)
    rates = [round(block.around_cross.depth.skip, 10) for block in blocks]
    assert rates == [0.1, 0.2, 0.3]


def test_one_config_serves_encoder_and_decoder() -> None:
    config = CaptionerConfig(target_vocabulary=19, channels=1, image_size=(4, 6), patch=(2, 2), **SETTINGS)
    model = Captioner(config)
    assert len(model.encoder.blocks) == 1
    assert len(model.decoder) == 2
    target = Sequences.of([[5, 2]])
    assert model.logits(Pairs(Images(torch.rand(1, 1, 4, 6)), target)).shape == (1, 2, 19)
