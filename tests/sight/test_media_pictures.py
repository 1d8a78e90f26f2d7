"""Where models looked in pictures and recordings, against the products of their weights written out in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from runs.small import reader

from regard import RegardError
from regard.data.batches import END, Both, Images, Pairs, Sequences, Sounds
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.models import captioner, convolutional, fusion, hearing, transcriber, vision
from regard.models.captioner import RecurrentCaptioner
from regard.models.convolutional import Convolution
from regard.models.hearing import Hearing
from regard.models.vision import Vision
from regard.runs.answering import ImageCaptioner, Labeller, SpeechTranscriber
from regard.runs.inputs import PairReader, PictureReader, SoundReader, TextReader
from regard.runs.load import build_model
from regard.sight.media_pictures import picture_of_class, picture_of_words
from regard.sight.translation_picture import words_of
from regard.sight.watch import watch
from regard.training.experiment import prepare

LABELS = [str(digit) for digit in range(10)]


@pytest.fixture(scope="module")
def tokenizer():
    return prepare(reader(), Report()).tokenizers["source"]


def written_out(model, batch, run):
    """The weights of every attention of a model, mean over heads, in float64."""
    with torch.no_grad(), watch(model.eval()) as seen:
        run(batch)
    return {name: seen.stitched(name).weights()[0].double().mean(0) for name in seen.names}


def rolled(weights):
    """Abnar's rollout of the blocks, as a product of matrices."""
    flow = None
    for name in sorted(name for name in weights if name.startswith("encoder.blocks.")):
        mixed = 0.5 * weights[name] + 0.5 * torch.eye(len(weights[name]), dtype=torch.float64)
        flow = mixed if flow is None else mixed @ flow
    return flow


@pytest.mark.parametrize("pooling", ["class-token", "attention", "mean"])
def test_what_a_class_was_made_from_is_the_rollout_that_its_pooling_asks_for(pooling):
    torch.manual_seed(1)
    model = Vision(replace(vision.pico(), pooling=pooling)).eval()
    sorter = Labeller(model, PictureReader((8, 8), 1), LABELS)
    picture = torch.rand(1, 8, 8)
    weights = written_out(model, Images(picture[None]), model.predict)
    flow = rolled(weights)
    expected = {
        "class-token": lambda: flow[0, 1:],
        "attention": lambda: (weights["pooling.attention"] @ flow)[0],
        "mean": lambda: flow.mean(0),
    }[pooling]()
    drawn = picture_of_class(sorter, picture)
    assert drawn.grids.shape == (1, 4, 4)
    np.testing.assert_allclose(drawn.grids[0].reshape(-1), expected.numpy(), atol=1e-6)


def test_what_was_heard_lies_over_the_frames_in_order(tmp_path):
    torch.manual_seed(2)
    model = Hearing(hearing.pico()).eval()
    sorter = Labeller(model, SoundReader(model.config), LABELS)
    sound = torch.rand(3001) - 0.5
    weights = written_out(model, Sounds(sound[None], torch.tensor([3001])), model.predict)
    drawn = picture_of_class(sorter, sound)
    expected = (weights["pooling.attention"] @ rolled(weights))[0]
    assert drawn.grids.shape == (1, 1, 19)  # 3001 samples, 80 a frame, two frames a token
    np.testing.assert_allclose(drawn.grids[0, 0], expected.numpy(), atol=1e-6)
    drawn.write(tmp_path / "heard.png")
    assert (tmp_path / "heard.png").stat().st_size > 1000


@pytest.mark.parametrize("sense", ["picture", "sound"])
def test_every_word_has_the_weights_of_its_tokens(sense, tokenizer):
    torch.manual_seed(3)
    if sense == "picture":
        config = replace(captioner.pico(), target_vocabulary=tokenizer.size)
        teller = ImageCaptioner(build_model(config).eval(), PictureReader((8, 48), 1), tokenizer)
        given = torch.rand(1, 8, 48)
        batch, shape = Images(given[None]), (2, 24)
    else:
        config = replace(transcriber.pico(), target_vocabulary=tokenizer.size)
        teller = SpeechTranscriber(build_model(config).eval(), SoundReader(config), tokenizer)
        given = torch.rand(1600) - 0.5
        batch, shape = Sounds(given[None], torch.tensor([1600])), (1, 10)
    text = "quatre-vingt-dix mille"
    tokens = tokenizer.encode(text)
    pair = Pairs(batch, Sequences.of([[*tokens, END]]))
    weights = written_out(teller.model, pair, teller.model.logits)["decoder.1.cross"]
    drawn = picture_of_words(teller, given, text, layer=1)
    words = words_of(tokenizer, tokens)
    assert drawn.words == ("quatre-", "vingt-", "dix", "mille")
    for place, word in enumerate(drawn.words):
        pieces = [n for n, part in enumerate(words.parts) if part == place]
        expected = torch.stack([weights[n] for n in pieces]).mean(0).view(shape)
        np.testing.assert_allclose(drawn.grids[place], expected.numpy(), atol=1e-6, err_msg=word)


def test_a_recurrent_captioner_shows_its_one_attention(tokenizer):
    torch.manual_seed(4)
    config = replace(
        captioner.show_attend_tell(),
        image_size=(16, 16),
        channels=1,
        target_vocabulary=tokenizer.size,
        width=16,
    )
    model = RecurrentCaptioner(config).eval()
    drawn = picture_of_words(
        ImageCaptioner(model, PictureReader((16, 16), 1), tokenizer), torch.rand(1, 16, 16), "un"
    )
    assert drawn.grids.shape == (1, 2, 2)
    assert drawn.grids.sum() == pytest.approx(1, abs=1e-5)
    none = RecurrentCaptioner(replace(config, attention="none")).eval()
    with pytest.raises(RegardError, match="attention: none"):
        picture_of_words(
            ImageCaptioner(none, PictureReader((16, 16), 1), tokenizer), torch.rand(1, 16, 16), "un"
        )


def test_two_senses_show_what_each_asked_of_the_other(tmp_path):
    torch.manual_seed(5)
    model = build_model(fusion.pico()).eval()
    picture, sound = torch.rand(1, 8, 8), torch.rand(1600) - 0.5
    judge = Labeller(
        model, PairReader(PictureReader((8, 8), 1), SoundReader(model.config)), ["different", "same"]
    )
    both = Both(Images(picture[None]), Sounds(sound[None], torch.tensor([1600])))
    weights = written_out(model, both, model.predict)
    drawn = picture_of_class(judge, (picture, sound), title="same")
    for part, asking in zip(drawn.parts, ("second_asks", "first_asks"), strict=True):
        expected = sum(weights[f"{asking}.blocks.{block}.cross"].mean(0) for block in (0, 1)) / 2
        np.testing.assert_allclose(part.grids.reshape(-1), expected.numpy(), atol=1e-6)
    drawn.write(tmp_path / "both.svg")
    assert "asked" in (tmp_path / "both.svg").read_text("utf-8")


def test_a_sound_that_asked_a_text_is_drawn_over_time_against_the_words(tmp_path):
    torch.manual_seed(6)
    words = Tokenizer.train(["two nine four"], kind="word")
    config = replace(fusion.pico(), first="sound", second="text", asks="first", vocabulary=words.size)
    model, sound, text = build_model(config).eval(), torch.rand(1600) - 0.5, "nine two"
    judge = Labeller(model, PairReader(SoundReader(config), TextReader(words)), ["different", "same"])
    tokens = torch.tensor([[*words.encode(text), END]])
    both = Both(Sounds(sound[None], torch.tensor([1600])), Sequences(tokens, torch.tensor([3])))
    with torch.no_grad(), watch(model) as seen:
        model.predict(both)
    heads = torch.cat([seen[f"first_asks.blocks.{block}.cross"].weights()[0].double() for block in (0, 1)])
    expected = heads[int((-heads * heads.log()).sum((1, 2)).argmin())]  # the sharpest of all
    weights = written_out(model, both, model.predict)
    drawn = picture_of_class(judge, (sound, text), title="same")
    assert drawn.words == ("nine", "two", "</s>")
    assert drawn.seconds == 0.2
    np.testing.assert_allclose(drawn.weights, expected.T.numpy(), atol=1e-6)
    np.testing.assert_allclose(drawn.pooled, weights["first_asks.pooling.attention"][0].numpy(), atol=1e-6)
    drawn.write(tmp_path / "asked.svg")
    assert "seconds" in (tmp_path / "asked.svg").read_text("utf-8")


def test_two_texts_are_not_drawn_as_a_picture_of_a_class():
    words = Tokenizer.train(["two nine four"], kind="word")
    config = replace(fusion.pico(), first="text", second="text", vocabulary=words.size)
    judge = Labeller(build_model(config).eval(), PairReader(TextReader(words), TextReader(words)), ["a", "b"])
    with pytest.raises(RegardError, match="two texts: a picture is of a picture or a recording"):
        picture_of_class(judge, ("two", "nine"))


def test_a_model_without_attention_has_nothing_to_show():
    sorter = Labeller(Convolution(convolutional.pico()).eval(), PictureReader((8, 8), 1), LABELS)
    with pytest.raises(RegardError, match="a Convolution has no attention"):
        picture_of_class(sorter, torch.rand(1, 8, 8))
