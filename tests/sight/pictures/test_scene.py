import numpy as np
import pytest

from regard import RegardError, alignment_map, heatmap, lines
from regard.sight.pictures.scene import Box, Dot, Picture, Pixels, Ribbon, Stroke, Words, moved, write

INK = (1, 2, 3)
WEIGHTS = [[0.7, 0.3], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("mark", "places"),
    [
        (Words(x=1, y=2, text="a", size=9), lambda mark: [(mark.x, mark.y)]),
        (Box(x=1, y=2, width=3, height=4), lambda mark: [(mark.x, mark.y)]),
        (Dot(x=1, y=2, radius=3, fill=INK, edge=INK), lambda mark: [(mark.x, mark.y)]),
        (
            Pixels(x=1, y=2, width=3, height=4, pixels=np.zeros((1, 1, 3), np.uint8)),
            lambda mark: [(mark.x, mark.y)],
        ),
        (Ribbon(start=(1, 2), end=(3, 4), thick=1, ink=INK), lambda mark: [mark.start, mark.end]),
        (Stroke(places=((1, 2), (3, 4)), thick=1, ink=INK), lambda mark: list(mark.places)),
    ],
)
def test_a_mark_is_moved_whole(mark, places):
    assert places(moved(mark, 10, 100)) == [(x + 10, y + 100) for x, y in places(mark)]


@pytest.mark.parametrize("make", [heatmap, alignment_map, lines])
def test_every_picture_is_written_as_its_name_says(tmp_path, make):
    picture = make(WEIGHTS, ["a", "b"], ["c", "d"])
    assert isinstance(picture, Picture)
    picture.write(tmp_path / "x.png")
    picture.write(str(tmp_path / "x.svg"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(("name", "said"), [("x.pdf", "not as .pdf"), ("x", "not as a file without either")])
def test_another_kind_of_file_is_refused_in_one_line(tmp_path, name, said):
    with pytest.raises(RegardError) as error:
        write(heatmap(WEIGHTS, ["a", "b"], ["c", "d"]), tmp_path / name)
    assert str(error.value).endswith(f"a picture is written as .png or .svg, {said}")
    assert not (tmp_path / name).exists()
