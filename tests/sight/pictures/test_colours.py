import numpy as np

from regard.sight.pictures.colours import HUES, code, colour, readable, shade


def lightness(rgb):
    """CIE L*, from the definition: another space than the one the ramp was drawn in."""
    part = np.asarray(rgb) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(y > (6 / 29) ** 3, 116 * np.cbrt(y) - 16, y * (29 / 3) ** 3)


def without_green(rgb):
    """As deuteranopes see it (Viénot 1999, in linear light)."""
    part = np.asarray(rgb) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    seen = linear @ np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]).T
    seen = seen.clip(0, 1)
    return 255 * np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)


def test_small_weights_are_pale_and_large_ones_dark():
    assert lightness(colour(0.0)) > 94
    assert lightness(colour(1.0)) < 15


def test_equal_steps_of_weight_are_equal_steps_of_lightness():
    steps = -np.diff(lightness(shade(np.linspace(0, 1, 13))))
    assert steps.min() > 0
    assert steps.max() / steps.min() < 1.6


def test_the_order_of_weights_survives_colour_blindness():
    seen = lightness(without_green(shade(np.linspace(0, 1, 33))))
    assert (np.diff(seen) < -1.0).all()


def test_what_lies_outside_gets_the_colour_of_the_nearest_end():
    assert colour(-3.0) == colour(0.0) == colour(float("nan"))
    assert colour(7.0) == colour(1.0) != colour(0.0)


def test_shades_have_the_shape_of_the_weights():
    weights = np.linspace(0, 1, 6).reshape(2, 3)
    assert shade(weights).shape == (2, 3, 3)
    assert tuple(shade(weights)[1, 0]) == colour(weights[1, 0])


def test_a_code_is_what_svg_writes():
    assert code((255, 0, 16)) == "#ff0010"


def test_text_is_dark_on_pale_weights_and_pale_on_dark_ones():
    for level in np.linspace(0, 1, 9):
        assert abs(lightness(readable(colour(level))) - lightness(colour(level))) > 40


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
