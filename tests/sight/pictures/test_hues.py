import numpy as np

from regard.sight.pictures.hues import HUES


def test_hues_are_told_apart_by_the_colour_blind():
    # Viénot, Brettel and Mollon (1999): what protanopes and deuteranopes see of linear red, green and blue.
    linear = (np.array(HUES) / 255.0) ** 2.2
    for matrix in (
        [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
        [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    ):
        seen = 255 * (linear @ np.array(matrix).T).clip(0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, None] - seen, axis=-1) + 1e9 * np.eye(len(HUES))
        assert apart[:6, :6].min() > 25
        assert apart.min() > 18
