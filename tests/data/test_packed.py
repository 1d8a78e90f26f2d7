import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from regard import RegardError
from regard.data.images import Frame
from regard.data.lines import Report
from regard.data.packed import read_packed

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 4, 6), dtype=np.uint8)
FRAME = Frame(height=4, width=6, channels=1)


def png(values: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


def table(path, columns: dict) -> str:
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: {"bytes": data, "path": None}])
def test_pictures_and_labels_of_a_table(tmp_path, wrap):
    path = table(tmp_path / "x.parquet", {"label": [7, 8, 9], "image": [wrap(png(each)) for each in PIXELS]})
    pixels, labels = read_packed(path, FRAME)
    np.testing.assert_array_equal(pixels[:, 0].numpy(), PIXELS)
    assert labels == ["7", "8", "9"]


def test_bad_rows_are_named_by_number_and_dropped_where_the_policy_says_so(tmp_path):
    pictures = [png(PIXELS[0]), b"no", None, png(PIXELS[1]), png(PIXELS[2])]
    columns = {"picture": pictures, "what": ["a", "b", "c", None, " "]}
    path = table(tmp_path / "x.parquet", columns)
    with pytest.raises(RegardError, match=r"x\.parquet:2: neither PNG nor JPEG"):
        read_packed(path, FRAME, columns=["picture", "what"])
    report = Report()
    assert read_packed(path, FRAME, columns=[1, 2], policy="skip", report=report)[1] == ["a"]
    assert report.counts == {"not an image": 1, "no bytes": 1, "not text": 1, "empty": 1}


def test_what_is_no_table_of_pictures_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("no")
    with pytest.raises(RegardError, match="cannot be read as Parquet"):
        read_packed(str(tmp_path / "x"), FRAME)
    with pytest.raises(RegardError, match="no such file"):
        read_packed(str(tmp_path / "y"), FRAME)
    path = table(tmp_path / "z.parquet", {"image": ["text"], "label": [1]})
    with pytest.raises(RegardError, match="a str where the bytes of a picture"):
        read_packed(path, FRAME)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RegardError, match=r"regard\[parquet\]"):
        read_packed(path, FRAME)
