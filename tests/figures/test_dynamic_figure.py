import pytest
import torch
from torch.autograd.functional import jacobian

import regard
from regard import RegardError
from regard.figures.dynamic_figure import KINDS


@pytest.fixture(scope="module")
def trained():
    said = []
    return regard.figures.dynamic(steps=60, progress=said.append), said


def test_fixed_layers_have_one_row_for_every_sentence_and_attention_follows_the_subject(trained):
    numbers = trained[0].numbers
    for name in ("convolution", "dense layer"):
        first, *others = numbers["shares"][name]
        assert others == [first] * 3
        assert sum(first) == pytest.approx(1, abs=1e-3)
    places = [each["subject"] for each in numbers["shown"]]
    assert len(set(places)) == 4
    for place, weights in zip(places, numbers["shares"]["attention"], strict=True):
        assert weights[place] > 0.8


def test_the_map_from_words_to_answer_changes_with_the_words_under_attention_alone(trained):
    changes = trained[0].numbers["relative change of the map from words to answer between sentences"]
    assert (changes["convolution"], changes["dense layer"]) == (0, 0)
    assert changes["attention"] > 0.5


def test_only_attention_names_the_subject_and_fixed_weights_can_but_guess(trained):
    right = trained[0].numbers["subjects named right"]
    for part in right.values():
        assert part["attention"] > 0.99
        assert max(part["convolution"], part["dense layer"]) < 0.6


@pytest.mark.parametrize("name", ["convolution", "dense layer"])
def test_shares_of_a_fixed_layer_are_the_norms_of_its_derivative(name):
    torch.manual_seed(2)
    layer, x = KINDS[name](), torch.randn(7, 16)
    slopes = jacobian(lambda each: layer(each[None])[0], x).norm(dim=(0, 2))  # by place
    torch.testing.assert_close(layer.shares(x), slopes / slopes.sum())


def test_shares_of_attention_mix_the_projected_words_into_its_answer():
    torch.manual_seed(3)
    layer, x = KINDS["attention"](), torch.randn(7, 16)
    value, bias = layer.layer.input.all.weight[32:], layer.layer.input.all.bias[32:]
    projected = layer.layer.output(x @ value.T + bias)  # both maps are affine and shares sum to 1
    torch.testing.assert_close(layer(x[None])[0], layer.shares(x) @ projected)


def test_the_same_seed_gives_the_same_numbers_and_leaves_other_draws_alone():
    torch.manual_seed(11)
    state = torch.random.get_rng_state()
    first, second = (regard.figures.dynamic(steps=2, seed=5).numbers for _ in range(2))
    assert first == second
    assert torch.equal(torch.random.get_rng_state(), state)


def test_progress_names_the_layer_and_the_loss(trained):
    said = trained[1]
    assert [line.split(":")[0] for line in said] == list(KINDS)
    assert all("after 60 of 60 updates" in line for line in said)


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"seed": -1}, "--seed -1"), ({"steps": 0}, "--steps 0: give 1 to 10000")],
)
def test_a_mistake_is_named(settings, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.dynamic(**settings)
