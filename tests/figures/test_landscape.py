import numpy as np

from regard.figures.landscape import landscape


def test_it_has_the_size_asked_for_and_is_the_same_each_time():
    drawn = np.asarray(landscape(50))
    assert drawn.shape == (50, 50, 3)
    np.testing.assert_array_equal(drawn, np.asarray(landscape(50)))
    sun, tree, hill = drawn[9, 9], drawn[22, 37], drawn[47, 5]
    assert sun[0] > 240 > 120 > sun[2]
    assert tree.argmax() == hill.argmax() == 1
