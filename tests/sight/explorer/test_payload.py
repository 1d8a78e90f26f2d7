"""Packs say what they were given, and lie in memory as the page expects."""

import gzip
import json

import numpy as np
import pytest
import torch
from sight.explorer.unpacked import unpack

from regard.sight.explorer.payload import PayloadArray, gzipped, halves, pack, singles, small


def test_what_is_packed_comes_back() -> None:
    values, marks = torch.rand(5, 7), torch.arange(11) % 3
    header, arrays = unpack(pack({"a": singles(values), "b": small(marks)}, approximate=True, word="größe"))
    assert header["approximate"] is True
    assert header["word"] == "größe"
    np.testing.assert_array_equal(arrays["a"], values.numpy())
    np.testing.assert_array_equal(arrays["b"], marks.numpy())


@pytest.mark.parametrize("names", [["a"], ["a" * length for length in (1, 2, 3, 17, 40, 96)]])
def test_every_array_begins_at_a_multiple_of_eight_behind_a_header_of_json(names: list[str]) -> None:
    data = pack({name: small(np.arange(3 + len(name))) for name in names})
    assert data[:4] == b"RGD1"
    length = int.from_bytes(data[4:8], "little")
    header = json.loads(data[8 : 8 + length].decode())
    assert (8 + length) % 8 == 0
    assert header["arrays"][0]["at"] == 8 + length
    for one in header["arrays"]:
        assert one["at"] % 8 == 0
        assert list(data[one["at"] : one["at"] + one["shape"][0]]) == list(range(one["shape"][0]))


@pytest.mark.parametrize("size", [1.0, 3e-5, 1e-9, 7e4])
def test_half_floats_keep_three_digits_whatever_their_size(size: float) -> None:
    values = torch.rand(64).clamp_min(0.01) * size
    _, arrays = unpack(pack({"a": halves(values)}))
    np.testing.assert_allclose(arrays["a"], values.numpy(), rtol=2**-10)


def test_hidden_and_infinite_numbers_stay_what_they_are() -> None:
    values = torch.tensor([0.0, 0.25, torch.nan, -torch.inf])
    for stored in (halves(values), singles(values)):
        _, arrays = unpack(pack({"a": stored}))
        np.testing.assert_array_equal(arrays["a"], values.numpy())


def test_split_planes_are_low_bytes_before_high_bytes() -> None:
    stored = PayloadArray(array=np.array([0x1122, 0x3344], dtype="<u2"), planes=True)
    data = pack({"a": stored})
    header, arrays = unpack(data)
    at = header["arrays"][0]["at"]
    assert data[at : at + 4] == bytes([0x22, 0x44, 0x11, 0x33])
    assert arrays["a"].tolist() == [0x1122, 0x3344]


def test_squeezing_is_gzip_and_gives_the_same_bytes_for_the_same_bytes() -> None:
    data = pack({"a": singles(torch.zeros(100))})
    assert gzip.decompress(gzipped(data)) == data
    assert gzipped(data) == gzipped(data)
