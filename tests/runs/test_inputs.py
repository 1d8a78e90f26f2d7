"""Inputs of a loaded model: files, tensors and arrays mean the same."""

import numpy as np
import pytest
import torch

from regard import RegardError
from regard.models.counter import Counter, CounterConfig
from regard.models.hearing import HearingConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.answering import Labeller
from regard.runs.inputs import DigitReader, PairReader, PictureReader, SoundReader

BYTES = torch.randint(0, 256, (1, 8, 8), generator=torch.Generator().manual_seed(3)).to(torch.uint8)
SAMPLES = torch.randint(-(2**15), 2**15, (400,), generator=torch.Generator().manual_seed(5)).to(torch.int16)


def test_a_classifier_answers_bytes_floats_and_arrays_alike():
    config = VisionConfig(
        width=16, heads=2, depth=1, hidden_width=16, patch=(4, 4), image_size=(8, 8), channels=1, classes=2
    )
    sorter = Labeller(Vision(config).eval(), PictureReader((8, 8), 1), ["a", "b"])
    floats, *others = sorter.probabilities([BYTES / 255, BYTES, BYTES.numpy(), (BYTES / 255).numpy()])
    assert others == [floats] * 3


def test_a_listener_hears_whole_numbers_floats_and_arrays_alike():
    reader = SoundReader(HearingConfig())
    floats = SAMPLES.double() / 2**15
    wide = SAMPLES.to(torch.int32) * 2**16
    batch = reader.batch([floats, SAMPLES, SAMPLES.numpy(), wide, floats.numpy().astype(">f8")]).samples
    assert all(torch.equal(row, floats.float()) for row in batch)


def test_pairs_of_two_senses_are_scaled_each_in_its_own_way():
    reader = PairReader(PictureReader((8, 8), 1), SoundReader(HearingConfig()))
    both = reader.batch([(BYTES, SAMPLES), (BYTES / 255, SAMPLES / 2**15)])
    assert torch.equal(both.first.pixels[0], both.first.pixels[1])
    assert torch.equal(both.second.samples[0], both.second.samples[1])


def test_a_counter_answers_rows_of_digits():
    counter = Labeller(Counter(CounterConfig()).eval(), DigitReader(), ["no", "yes"])
    first, again, other = counter.probabilities(["1 7 2 0 2 1 3 4 8 6", "1720213486", "4 4 4 4 4 4 4 4 4 4"])
    assert first == again != other
    assert sum(first.values()) == pytest.approx(1, abs=1e-6)


def test_what_cannot_be_understood_is_one_line(as_a_user):
    with pytest.raises(RegardError, match="a picture of int64: give bool, uint8"):
        PictureReader((8, 8), 1).batch([BYTES.long()])
    with pytest.raises(RegardError, match="a recording of floats from"):
        SoundReader(HearingConfig()).batch([SAMPLES.float()])
    with pytest.raises(RegardError, match=r"a picture of the shape \[8, 8\]: this model takes \[1, 8, 8\]"):
        PictureReader((8, 8), 1).batch([np.zeros((8, 8))])
    with pytest.raises(RegardError, match="a recording as a list"):
        SoundReader(HearingConfig()).batch([[0.0, 0.1]])
    with pytest.raises(RegardError, match="a list of rows is wanted, not one row"):
        DigitReader().batch("1 7 2 0 2 1 3 4 8 6")
    with pytest.raises(RegardError, match="row 0 of 1 is 7: give texts, in quotes"):
        DigitReader().batch([7])
