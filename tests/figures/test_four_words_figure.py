import numpy as np
import pytest

import regard
from regard import RegardError
from regard.figures import FIGURES, figure_function


def test_the_values_are_those_of_attention_written_out_by_hand():
    numbers = regard.figures.four_words(seed=7).numbers
    random = np.random.default_rng(7)
    x = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    q, k, v = (x @ random.integers(3, size=(3, 3)) for _ in range(3))
    for query, weights, answer in zip(q, numbers["A = softmax"], numbers["A V"], strict=True):
        powers = [np.exp(query @ key / 3**0.5) for key in k]
        np.testing.assert_allclose(weights, powers / np.sum(powers), atol=1e-12)
        np.testing.assert_allclose(
            answer, sum(w * row for w, row in zip(weights, v, strict=True)), atol=1e-12
        )
    assert numbers["largest difference from weigh and attend"] < 1e-12


def test_the_same_seed_draws_the_same_files(tmp_path):
    first, second = (regard.figures.four_words().write(tmp_path / name) for name in "ab")
    assert [file.name for file in first] == ["four-words.png", "four-words.svg", "four-words.json"]
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_each_figure_has_a_function_of_its_name_and_a_docstring():
    for name in FIGURES:
        function = figure_function(name)
        assert function.__name__ == name.replace("-", "_")
        assert function.__doc__
        assert getattr(regard.figures, function.__name__) is function


def test_an_unknown_figure_is_refused():
    with pytest.raises(RegardError, match="'five-words' is no figure: one of"):
        figure_function("five-words")
    with pytest.raises(AttributeError, match="five_words"):
        regard.figures.five_words  # noqa: B018
