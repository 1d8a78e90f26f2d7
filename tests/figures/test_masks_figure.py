import math

import numpy as np
import pytest

import regard
from regard import RegardError
from regard.data.letter_vectors import spell

SENTENCE, TRANSLATION = "a nation of other nations", "une nation de nations"


@pytest.fixture(scope="module")
def numbers():
    return regard.figures.masks(sentence=SENTENCE, translation=TRANSLATION, window=3).numbers


def vectors():
    """The sentence and two paddings, then its translation and one: as the figure has them."""
    found = spell(f"{SENTENCE} <pad> <pad> {TRANSLATION} <pad>".split(), loudness=2.0).double().tolist()
    return found[:7], found[7:]


def score(query, key):
    return math.fsum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query))


def weighed(queries, keys, may_look):
    """Softmax over the keys that are allowed and no others: hidden keys do not enter at all."""
    rows = []
    for i, query in enumerate(queries):
        powers = {j: math.exp(score(query, key)) for j, key in enumerate(keys) if may_look(i, j)}
        rows.append([powers.get(j, 0.0) / (math.fsum(powers.values()) or 1.0) for j in range(len(keys))])
    return rows


def test_weights_are_a_softmax_over_the_keys_that_each_rule_allows(numbers):
    sentence, translation = vectors()
    words = sentence[:5]
    rules = {
        "padding": (sentence, sentence, lambda i, j: i < 5 and j < 5),
        "causal": (words, words, lambda i, j: j <= i),
        "window": (words, words, lambda i, j: abs(i - j) < 3),
        "cross": (translation, sentence, lambda i, j: i < 4 and j < 5),
    }
    assert numbers["weights"].keys() == rules.keys()
    for name, (queries, keys, rule) in rules.items():
        allowed = [[int(rule(i, j)) for j in range(len(keys))] for i in range(len(queries))]
        assert numbers["allowed"][name] == allowed
        np.testing.assert_allclose(numbers["weights"][name], weighed(queries, keys, rule), atol=1e-6)
        sums = np.sum(numbers["weights"][name], -1)
        np.testing.assert_allclose(sums, np.any(allowed, -1), atol=1e-5)
        assert not np.array(numbers["weights"][name])[~np.array(allowed, dtype=bool)].any()


def test_a_mask_multiplied_in_lets_hidden_words_take_or_change_weights(numbers):
    x = vectors()[0][:5]
    causal = np.tri(5)
    scores = np.array([[score(q, k) for k in x] for q in x])
    powers = np.exp(scores * causal)
    np.testing.assert_allclose(
        numbers["a causal mask"]["scores × mask"], powers / powers.sum(-1, keepdims=True), atol=1e-6
    )
    everything = np.array(weighed(x, x, lambda i, j: True))
    np.testing.assert_allclose(numbers["a causal mask"]["weights × mask"], everything * causal, atol=1e-6)
    right = weighed(x, x, lambda i, j: j <= i)
    for name in ("−∞ added", "… normalised"):
        np.testing.assert_allclose(numbers["a causal mask"][name], right, atol=1e-6)
    assert numbers["largest difference of the first from attend"] < 1e-12


def test_only_a_mask_before_softmax_or_a_new_sum_keeps_hidden_words_out_of_the_answers(numbers):
    measures = numbers["measures"]
    x = np.array(vectors()[0][:5])
    doubled = x * np.array([1, 1, 1, 1, 2])[:, None]
    for name, ahead in (("scores × mask", True), ("weights × mask", False)):
        answers = []
        for words in (x, doubled):
            scores = words @ words.T / np.sqrt(words.shape[1])
            powers = np.exp(scores * np.tri(5) if ahead else scores)
            weights = powers / powers.sum(-1, keepdims=True)
            answers.append((weights if ahead else weights * np.tri(5)) @ words)
        change = np.linalg.norm(answers[1] - answers[0], axis=-1) / np.linalg.norm(answers[0], axis=-1)
        assert measures[name]["answers moved"] == pytest.approx(change[:-1].max(), abs=1e-6)
        assert measures[name]["answers moved"] > 0.001
    for name in ("−∞ added", "… normalised"):
        assert measures[name] == {"weight on hidden": 0, "least row sum": 1, "answers moved": 0}
    assert measures["scores × mask"]["weight on hidden"] > 0.01
    assert measures["weights × mask"]["least row sum"] < 0.9


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sentence": "alone"}, "--sentence has 1 words: give 2 to 9"),
        ({"translation": ""}, "--translation has 0 words"),
        ({"sentence": "word " * 10}, "--sentence has 10 words"),
        ({"window": 0}, "--window 0: at least 1"),
    ],
)
def test_a_mistake_is_named(settings, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.masks(**settings)
