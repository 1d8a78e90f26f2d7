import math

import pytest

import regard
from regard import RegardError
from regard.data.letter_vectors import spell

SENTENCE = "she sells sea shells by the sea"


def answered(queries, pairs):
    """Attention as a mean over a set of pairs (key, value), summed exactly, so that their order cannot matter."""
    width = len(queries[0])
    found = []
    for query in queries:
        powers = [
            math.exp(math.fsum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(width))
            for key, _ in pairs
        ]
        total = math.fsum(powers)
        columns = zip(*(value for _, value in pairs), strict=True)
        found.append(
            [math.fsum(p * v for p, v in zip(powers, column, strict=True)) / total for column in columns]
        )
    return found


def test_the_answers_are_those_of_a_mean_over_a_set_of_keys_with_their_values():
    numbers = regard.figures.shuffle(seed=5, sentence=SENTENCE).numbers
    words, order, values = numbers["words"], numbers["order"], numbers["values"]
    vectors = spell(words).double().tolist()
    in_order = answered(vectors, list(zip(vectors, values, strict=True)))
    swapped = answered(vectors, [(vectors[place], value) for place, value in zip(order, values, strict=True)])
    near = {
        "in order": in_order,
        "keys and values shuffled together": in_order,
        "queries shuffled": [in_order[place] for place in order],
        "keys shuffled, values not": swapped,
    }
    assert numbers["answers"].keys() == near.keys()
    for name, answers in near.items():
        for row, expected in zip(numbers["answers"][name], answers, strict=True):
            assert row == pytest.approx(expected, abs=1e-12), name
    assert sorted(order) == list(range(len(words)))
    assert all(place != index for index, place in enumerate(order))


def test_only_keys_without_their_values_change_the_answers():
    name = "largest difference from the answers in order, permuted where queries are"
    apart = regard.figures.shuffle(sentence=SENTENCE).numbers[name]
    assert apart.pop("keys shuffled, values not") > 0.1
    assert max(apart.values()) < 1e-12
    assert len(apart) == 3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"sentence": "alone"}, "has 1 words: give 2 to 12"),
        ({"sentence": "word " * 13}, "has 13 words: give 2 to 12"),
        ({"sentence": "the the the"}, "two different words"),
    ],
)
def test_a_mistake_is_named(settings, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.shuffle(**settings)
