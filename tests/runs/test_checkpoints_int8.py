import pytest
import torch

from regard import RegardError
from regard.layers.inference_only import int8_rows
from regard.runs.checkpoints import SCALE, Described, Header, compressed, expanded, expanded_header


def test_a_matrix_keeps_its_rows_to_half_a_step_and_everything_else_its_bits():
    tensors = {"w": torch.randn(7, 13), "b": torch.randn(7), "count": torch.arange(3)}
    tensors["w"][3] = 0
    small = compressed(tensors)
    assert small["w"].dtype == torch.int8
    back = expanded(small)
    assert list(back) == list(tensors)
    steps = tensors["w"].abs().amax(-1, keepdim=True) / 127
    assert ((back["w"] - tensors["w"]).abs() <= 0.5001 * steps).all()
    assert torch.equal(back["b"], tensors["b"])
    assert torch.equal(back["count"], tensors["count"])


def test_what_was_read_back_becomes_the_same_bytes_again():
    for seed in range(5):
        torch.manual_seed(seed)
        small = compressed({"w": torch.randn(64, 31) * 10 ** torch.randn(64, 1)})
        assert torch.equal(int8_rows(expanded(small)["w"])[0], small["w"])


def test_weights_without_scales_are_as_they_are():
    tensors = {"w": torch.randn(3, 2), "b": torch.randn(3)}
    assert expanded(tensors) == tensors


def test_the_header_tells_the_float32_that_a_matrix_becomes():
    header = Header(tensors={"w": Described(torch.int8, (3, 2)), "w" + SCALE: Described(torch.float32, (3,))})
    assert expanded_header(header).tensors == {"w": Described(torch.float32, (3, 2))}


@pytest.mark.parametrize(
    ("matrix", "scale", "said"),
    [
        (None, Described(torch.float32, (3,)), "scales of no matrix"),
        (Described(torch.float32, (3, 2)), Described(torch.float32, (3,)), "scales of no matrix"),
        (Described(torch.int8, (3,)), Described(torch.float32, (3,)), "scales of no matrix"),
        (Described(torch.int8, (3, 2)), Described(torch.float32, (2,)), "for 3 rows"),
        (Described(torch.int8, (3, 2)), Described(torch.int8, (3,)), "for 3 rows"),
    ],
)
def test_scales_that_fit_no_matrix_are_refused(matrix, scale, said):
    tensors = {"w" + SCALE: scale} if matrix is None else {"w": matrix, "w" + SCALE: scale}
    with pytest.raises(RegardError, match=said):
        expanded_header(Header(tensors=tensors))


def test_infinite_weights_are_refused():
    with pytest.raises(RegardError, match="inf or NaN"):
        compressed({"w": torch.full((2, 2), float("inf"))})
