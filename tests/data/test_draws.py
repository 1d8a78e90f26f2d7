import numpy as np
import pytest

from regard import RegardError
from regard.data.draws import mixed, stream, uniform


def splitmix(x: int) -> int:
    """The same in Python's numbers, which do not run over."""
    whole = (1 << 64) - 1
    x = (x + 1) * 0x9E3779B97F4A7C15 & whole
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & whole
    x = (x ^ x >> 27) * 0x94D049BB133111EB & whole
    return x ^ x >> 31


def test_mixing_is_splitmix64():
    numbers = [0, 1, 2, 12345, (1 << 64) - 1]
    assert mixed(np.array(numbers, np.uint64)).tolist() == [splitmix(n) for n in numbers]
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the first number of the published generator with the seed 0


def test_what_is_drawn_depends_on_the_seed_and_the_sample_alone():
    drawn = uniform([5, 3, 9], 4, seed=7)
    np.testing.assert_array_equal(uniform([9], 4, seed=7)[0], drawn[2])
    np.testing.assert_array_equal(uniform([3], 2, seed=7)[0], drawn[1, :2])
    assert not np.isin(uniform([5, 3, 9], 4, seed=8), drawn).any()


def test_what_is_drawn_will_be_the_same_for_ever():
    """Sets of samples are known by their seeds alone."""
    whole = (1 << 64) - 1
    for sample, seed in [(0, 0), (12, 3), (10**12, 98)]:
        row = splitmix((sample + splitmix(seed)) & whole)
        expected = [(splitmix((row + n) & whole) >> 11) / 2**53 for n in range(5)]
        assert uniform([sample], 5, seed=seed)[0].tolist() == expected


def test_draws_are_uniform_and_independent():
    drawn = uniform(range(50_000), 3, seed=1)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for first, second in [
        (drawn[:, 0], drawn[:, 1]),
        (drawn[:-1, 2], drawn[1:, 2]),
        (drawn[:, 0], uniform(range(50_000), 1, seed=2)[:, 0]),
    ]:
        cells = np.histogram2d(first, second, bins=20)[0]
        expected = len(first) / 400
        assert (
            abs(((cells - expected) ** 2 / expected).sum() / 399 - 1) < 0.3
        )  # χ² over its degrees of freedom


def test_a_negative_seed_is_refused():
    with pytest.raises(RegardError, match="seed=-1"):
        uniform([0], 1, seed=-1)


def test_what_is_drawn_for_two_purposes_is_independent():
    plain, other = (uniform(range(20_000), 2, seed=1, purpose=purpose) for purpose in ("", "jitter"))
    assert not np.isin(plain, other).any()
    together = np.corrcoef(np.concatenate([plain, other], 1).T)
    assert np.abs(together - np.eye(4)).max() < 0.03
    again = uniform([7], 2, seed=1, purpose="jitter")
    np.testing.assert_array_equal(again[0], other[7])


def test_a_stream_belongs_to_its_sample_alone():
    first, again = (stream(3, seed=1, purpose="noise").random(1000) for _ in range(2))
    others = [
        stream(*other[:1], seed=other[1], purpose=other[2]).random(1000)
        for other in ((4, 1, "noise"), (3, 2, "noise"), (3, 1, "else"))
    ]
    assert np.array_equal(first, again)
    for other in others:
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.15
