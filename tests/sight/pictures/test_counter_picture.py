import json

import numpy as np
import pytest
import torch
from sight.pictures.drawn import printed

from regard import RegardError
from regard.data.batches import Labelled, Sequences
from regard.data.digit_counts import FIRST
from regard.models.counter import Counter, CounterConfig
from regard.sight.pictures.chart import Chart
from regard.sight.pictures.colours import HATCH, MARKED, colour
from regard.sight.pictures.counter_picture import counting
from regard.sight.pictures.scene import Box, Label

DIGITS = [[4, 2, 4, 0, 9, 1, 1, 1, 1, 1], [2, 2, 4, 4, 3, 3, 5, 5, 6, 6]]


def batch(digits=DIGITS):
    sequences = Sequences(torch.tensor(digits) + FIRST, torch.full((len(digits),), 10))
    labels = [int(row.count(4) > row.count(2)) for row in digits]
    return Labelled(sequences, torch.tensor(labels))


@pytest.fixture
def model():
    """A counter set by hand: it looks at 4s and 2s alone, and they send +1 and −1."""
    counter = Counter(CounterConfig(width=2, value_width=1, hidden_width=4))
    with torch.no_grad():
        for parameter in counter.parameters():
            parameter.zero_()
        # A digit is [asked for, what it sends].
        table = counter.embedding.table
        scale = counter.embedding(torch.tensor([[0]]))  # zeros: only to see that nothing else is added
        assert not scale.any()
        table[FIRST + 4], table[FIRST + 2] = torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0])
        counter.pooling.queries[..., 0] = 20.0
        joined = counter.pooling.attention.input
        for (weight, _), rows in zip(
            joined._parts(), ([[1, 0], [0, 1]], [[1, 0], [0, 1]], [[0, 1]]), strict=True
        ):
            weight.copy_(torch.tensor(rows, dtype=torch.float))
        counter.pooling.attention.output.weight.fill_(1.0)
        counter.reader[0].weight[:, 0] = torch.tensor([1.0, 0.0, 0.0, 0.0])
        counter.reader[2].weight[1, 0] = 40.0
        counter.reader[2].bias.copy_(torch.tensor([0.5, 0.0]))
    return counter.eval()


def test_the_weights_and_values_are_those_of_the_model(model):
    picture = counting(model, batch()).parts[0]
    assert picture.digits.tolist() == DIGITS
    known = np.isin(np.array(DIGITS), [2, 4])
    assert np.allclose(picture.weights, known / known.sum(1, keepdims=True), atol=1e-3)
    assert np.allclose(picture.values[0, :4], [0.5, -0.5, 0.5, 0.0])
    assert (picture.yes > 0.5).tolist() == [True, False]


def test_a_digit_lies_on_the_colour_of_its_weight_and_fours_go_up_and_twos_down(model):
    picture = counting(model, batch()).parts[0]
    marks = picture.scene().marks
    cells = [mark for mark in marks if isinstance(mark, Box) and mark.corner]
    assert len(cells) == 20
    levels = picture.weights / picture.weights.max(1, keepdims=True)  # each sample by its own largest
    assert [cell.fill for cell in cells] == [colour(float(each)) for each in levels.flatten()]
    bars = {
        mark.x: mark
        for mark in marks
        if isinstance(mark, Box) and mark.fill and not mark.corner and mark.y < cells[10].y
    }
    up, down, other = (bars[x] for x in sorted(bars))
    assert up.y + up.height == pytest.approx(down.y)  # they stand on one line
    assert up.height == down.height == other.height
    assert up.fill == other.fill != down.fill


def test_fours_and_twos_are_outlined_whatever_their_weight(model):
    with torch.no_grad():
        model.pooling.queries.zero_()  # every digit has the same weight
    marks = counting(model, batch()).scene().marks
    outlines = [mark for mark in marks if isinstance(mark, Box) and mark.edge == MARKED]
    cells = [mark for mark in marks if isinstance(mark, Box) and mark.corner]
    wanted = [cell for cell, digit in zip(cells, [*DIGITS[0], *DIGITS[1]], strict=True) if digit in (2, 4)]
    assert len(wanted) == len(outlines) == 7
    for cell, outline in zip(wanted, outlines, strict=True):
        assert cell.x < outline.x < outline.x + outline.width < cell.x + cell.width
        assert cell.y < outline.y < outline.y + outline.height < cell.y + cell.height


def test_what_a_digit_with_no_more_than_an_even_share_of_the_weight_sends_is_grey(model):
    def hues():
        marks = counting(model, batch(DIGITS[:1])).scene().marks
        return {mark.fill for mark in marks if isinstance(mark, Box) and mark.fill and not mark.corner}

    assert HATCH not in hues()
    with torch.no_grad():
        model.pooling.queries.zero_()
    assert hues() == {HATCH}


def test_the_answer_its_probability_and_the_truth_are_written(model):
    said = [mark.text for mark in counting(model, batch()).scene().marks if isinstance(mark, Label)]
    assert {"yes, 100.0 %", "2 × 4, 1 × 2", "no, 62.2 %", "2 × 4, 2 × 2"} <= set(said)
    assert ".33" in said
    wrong = Labelled(batch().inputs, 1 - batch().labels)
    said = [mark.text for mark in counting(model, wrong).scene().marks if isinstance(mark, Label)]
    assert {"2 × 4, 1 × 2: wrong, no", "2 × 4, 2 × 2: wrong, yes"} <= set(said)


def test_with_a_log_the_loss_is_drawn_below(model, tmp_path):
    (tmp_path / "log.jsonl").write_text(
        json.dumps({"event": "update", "step": 1, "loss": 0.7, "rate": 0.1}) + "\n"
    )
    picture = counting(model, batch().inputs, log=tmp_path / "log.jsonl")
    assert [type(part) for part in picture.parts][1:] == [Chart]
    assert picture.parts[1].y == "loss"
    picture.write(tmp_path / "x.png")
    picture.write(tmp_path / "x.svg")


def test_the_terminal_shows_digits_weights_values_and_the_answer(model):
    lines = printed(counting(model, batch()).terminal()).splitlines()
    assert lines[0].strip() == "More 4s than 2s?"
    assert " ".join(lines[1].split()) == "[4] [2] [4] 0 9 1 1 1 1 1 yes, 100.0 %"
    assert lines[2].split()[:4] == ["33%", "33%", "33%", "0%"]
    assert lines[3].split()[:4] == ["▲1.0", "▼1.0", "▲1.0", "·"]


def test_too_many_samples_are_refused(model):
    with pytest.raises(RegardError, match="33 samples"):
        counting(model, batch(DIGITS[:1] * 33))
