import gzip
import struct

import numpy as np
import pytest

from regard import RegardError
from regard.data.idx import read_idx, read_idx_pair, read_mnist

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 5, 7), dtype=np.uint8)
LABELS = np.array([4, 0, 9], np.uint8)


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def written(tmp_path, data: bytes, name: str = "x") -> str:
    (tmp_path / name).write_bytes(data)
    return str(tmp_path / name)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_array_is_what_was_written(tmp_path, pack):
    np.testing.assert_array_equal(read_idx(written(tmp_path, pack(idx(PIXELS)))), PIXELS)


def test_a_set_under_the_usual_names(tmp_path):
    written(tmp_path, gzip.compress(idx(PIXELS)), "t10k-images-idx3-ubyte.gz")
    written(tmp_path, idx(LABELS), "t10k-labels-idx1-ubyte")
    pixels, labels = read_mnist(str(tmp_path), "test")
    np.testing.assert_array_equal(pixels[:, 0].numpy(), PIXELS)
    assert labels.tolist() == [4, 0, 9]
    with pytest.raises(RegardError, match="neither train-images-idx3-ubyte nor"):
        read_mnist(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes, not even a header"),
        (b"\x89PNG....", "not an IDX file"),
        (b"\0\0\x08\x00", "not an IDX file"),
        (b"\0\0\x0d\x01" + bytes(8), "type 0x0d"),
        (b"\0\0\x08\x03" + bytes(5), "within its header"),
        (idx(PIXELS)[:-1], "3 × 5 × 7 bytes, but ends after 104"),
        (idx(PIXELS) + b"\0", "there are more"),
        (b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1), "at most 4 GiB"),
        (b"\0\0\x08\x01" + struct.pack(">I", 2**31), "ends after 0"),
        (b"\0\0\x08\x01" + bytes(4), "at least one"),
        (gzip.compress(idx(PIXELS), mtime=0)[:-12], "broken gzip file"),
        (b"\x1f\x8b\x08\x00nonsense", "broken gzip file|cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_named(tmp_path, data, said):
    with pytest.raises(RegardError, match=said) as raised:
        read_idx(written(tmp_path, data))
    assert str(tmp_path / "x") in str(raised.value)


def test_pictures_and_labels_must_belong_together(tmp_path):
    images, labels = written(tmp_path, idx(PIXELS), "i"), written(tmp_path, idx(LABELS[:2]), "l")
    with pytest.raises(RegardError, match=r"3 pictures and .* 2 labels"):
        read_idx_pair(images, labels)
    with pytest.raises(RegardError, match="1 axes, pictures have 3"):
        read_idx_pair(labels, labels)
    with pytest.raises(RegardError, match="3 axes, labels have 1"):
        read_idx_pair(images, images)
    with pytest.raises(RegardError, match="this is a folder"):
        read_idx(str(tmp_path))
    with pytest.raises(RegardError, match="no such file"):
        read_idx(str(tmp_path / "none"))
