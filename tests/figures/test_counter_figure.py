import json

import numpy as np
import pytest
import torch
from sight.pictures.drawn import printed

import regard
from regard import RegardError, watch
from regard.data.digit_counts import FIRST, count_samples
from regard.figures.counter_figure import OneValueCounter
from regard.sight.pictures.scene import Label


def by_hand(model, digits):
    """w, v and p(yes) of one row of digits, in NumPy."""
    part = {name: each.detach().numpy() for name, each in model.state_dict().items()}
    embedded = part["embedding.weight"][digits]
    keys = embedded @ part["key.weight"].T + part["key.bias"]
    scores = np.array([part["query"][0] @ key / 32**0.5 for key in keys])
    weights = np.exp(scores) / np.exp(scores).sum()
    hidden = np.maximum(embedded @ part["value.0.weight"].T + part["value.0.bias"], 0)
    values = (hidden @ part["value.2.weight"].T + part["value.2.bias"])[:, 0]
    message = weights @ values
    logit = part["head.weight"][0, 0] * message + part["head.bias"][0]
    return weights, values, message, 1 / (1 + np.exp(-logit))


@torch.no_grad()
def test_the_model_is_its_equation_written_out_by_hand():
    model, data = OneValueCounter().double(), count_samples(7, seed=3)
    found = model.weights(data.inputs), model.values(data.inputs)[..., 0], model.message(data.inputs)[:, 0]
    yes = model.predict(data.inputs)[:, 1].exp()
    losses = []
    for row, digits in enumerate((data.inputs.tokens - FIRST).tolist()):
        *parts, wanted = by_hand(model, digits)
        for ours, theirs in zip(found, parts, strict=True):
            np.testing.assert_allclose(ours[row].detach(), theirs, atol=1e-12)
        assert float(yes[row]) == pytest.approx(wanted, abs=1e-12)
        losses.append(-np.log(wanted if data.labels[row] else 1 - wanted))
    assert float(model.loss(data).total) == pytest.approx(sum(losses), abs=1e-12)


def test_the_sizes_are_those_of_the_text():
    model = OneValueCounter()
    assert model.query.shape == (1, 32)
    assert model.embedding.weight.shape == (10, 16)
    assert (model.key.in_features, model.key.out_features) == (16, 32)
    assert model.value[-1].out_features == 1


def test_its_attention_is_seen():
    model, data = OneValueCounter(), count_samples(3, seed=3)
    with watch(model) as seen:
        model.predict(data.inputs)
    (name,) = seen.names
    torch.testing.assert_close(seen[name].weights()[:, 0], model.weights(data.inputs))


def test_numbers_and_picture_are_of_the_digits_that_were_given(tmp_path):
    before = torch.random.get_rng_state()
    lines = []
    made = regard.figures.counter(digits="4444444442", steps=3, seed=5, progress=lines.append)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert lines[-1].startswith("regard's Counter: 3 of 3 updates")
    files = made.write(tmp_path)
    told = json.loads(files[2].read_text())
    assert told["digits"] == [4] * 9 + [2]
    plain = told["one value a digit"]
    assert len(plain["loss"]) == len(told["regard's Counter"]["loss"]) == 3
    assert plain["message"] == pytest.approx(np.dot(plain["weights"], plain["value"]), abs=1e-5)
    above = plain["message where the weight is above 0.1"]
    assert above == [
        value if weight > 0.1 else 0.0 for weight, value in zip(plain["weights"], plain["value"], strict=True)
    ]
    texts = [mark.text for mark in made.picture.scene().marks if isinstance(mark, Label)]
    assert texts.count("4") == 18
    assert texts.count("9 × 4, 1 × 2") == 2
    shown = printed(made.picture.terminal())
    assert shown.count("[4]") == 18
    assert max(map(len, shown.splitlines())) <= 80
    again = regard.figures.counter(digits="4444444442", steps=3, seed=5)
    assert again.numbers == made.numbers


@pytest.mark.slow
@pytest.mark.usefixtures("as_a_user")  # hundreds of updates, each checked, would take a minute
def test_both_models_learn_to_look_at_fours_and_twos():
    told = regard.figures.counter().numbers
    for name in ("one value a digit", "regard's Counter"):
        assert told[name]["right on fresh rows"] >= 0.995
        assert told[name]["share of the weight on 4s and 2s"] >= 0.85
        assert told[name]["p(yes)"] < 0.01
    plain = told["one value a digit"]
    assert plain["value of a 4"] * plain["value of a 2"] < 0
    looked = [digit for digit, weight in zip(told["digits"], plain["weights"], strict=True) if weight > 0.1]
    assert looked == [2, 2, 4]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"digits": "1 7 2"}, "'1 7 2' has 3 digits: give 10"),
        ({"digits": "ten digits"}, "'ten digits': give 10 digits"),
        ({"seed": -1}, "--seed -1"),
        ({"steps": 0}, "--steps 0"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_trained(settings, said):
    lines = []
    with pytest.raises(RegardError, match=said):
        regard.figures.counter(**settings, progress=lines.append)
    assert not lines
