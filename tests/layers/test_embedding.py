"""Tokens as vectors, and their positions."""

import copy
import gc
import math
import weakref

import pytest
import torch
from torch import nn

from regard import RegardError
from regard.layers.embedding import Embedding, Gaussian, Learned, Placed, Positions, Sinusoidal
from regard.layers.rotary import Rotary


def test_an_embedding_is_scaled_and_knows_its_place() -> None:
    embedding = Embedding(11, 6, positions=Sinusoidal(6))
    tokens = torch.tensor([[3, 3, 0]])
    expected = embedding.table[tokens] * 6**0.5 + Sinusoidal(6)(torch.arange(4, 7))
    torch.testing.assert_close(embedding(tokens, offset=4), expected)
    assert 0.8 < (Embedding(1000, 64).table * 8).std() < 1.2


def test_rows_of_an_embedding_may_begin_at_places_of_their_own() -> None:
    embedding = Embedding(11, 6, positions=Sinusoidal(6))
    tokens = torch.tensor([[3, 4, 5], [3, 4, 5]])
    both = embedding(tokens, offset=torch.tensor([2, 7]))
    assert torch.equal(both[0], embedding(tokens[0], offset=2))
    assert torch.equal(both[1], embedding(tokens[1], offset=7))


def test_positions_beside_an_embedding_are_the_same_wherever_the_offset_comes_from() -> None:
    embedding = Embedding(11, 6, positions=Sinusoidal(4), join="concatenate")
    tokens = torch.tensor([[3, 3, 0], [1, 2, 9]])
    found = embedding(tokens, offset=4)
    expected = torch.cat(
        [embedding.table[tokens] * 6**0.5, Sinusoidal(4)(torch.arange(4, 7)).expand(2, -1, -1)], -1
    )
    torch.testing.assert_close(found, expected)
    assert torch.equal(embedding(tokens, offset=torch.tensor([4, 4])), found)
    packed = embedding(tokens.flatten(), offset=Placed(torch.tensor([4, 5, 6, 4, 5, 6]), 7))
    assert torch.equal(packed, found.flatten(0, 1))
    place = embedding.placed(torch.tensor([5]), count=9)
    assert torch.equal(embedding(tokens[:, 1:2], offset=place), found[:, 1:2])


@pytest.mark.usefixtures("as_a_user")
def test_positions_join_an_embedding_in_one_of_two_ways() -> None:
    with pytest.raises(RegardError, match="join='beside': one of 'add', 'concatenate'"):
        Embedding(11, 6, join="beside")  # type: ignore[arg-type]


def schemes() -> list[Positions]:
    return [Sinusoidal(12), Learned(12, count=300), Gaussian(12)]


def test_sinusoidal_positions_are_the_formula_of_2017() -> None:
    vectors = Sinusoidal(6)(torch.tensor([0, 1, 7]))
    for row, t in enumerate((0, 1, 7)):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert vectors[row, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert vectors[row, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoidal_positions_of_an_odd_width_end_with_a_sine() -> None:
    assert Sinusoidal(5)(torch.arange(3)).shape == (3, 5)
    torch.testing.assert_close(
        Sinusoidal(5)(torch.tensor(9))[4], torch.tensor(math.sin(9 / 10000 ** (4 / 5)))
    )


def test_a_shift_of_sinusoidal_positions_is_one_linear_map() -> None:
    # The reason the paper gives for the formula: p(t + k) is a fixed linear function of p(t).
    vectors = Sinusoidal(8)(torch.arange(60)).double()
    turn = torch.linalg.lstsq(vectors[:40], vectors[5:45]).solution
    torch.testing.assert_close(vectors[10:50] @ turn, vectors[15:55], rtol=0, atol=1e-4)


@pytest.mark.parametrize("scheme", schemes(), ids=lambda s: type(s).__name__)
def test_a_position_does_not_know_the_length_of_the_sequence(scheme: Positions) -> None:
    short, long = scheme(torch.arange(5)), scheme(torch.arange(200))
    assert torch.equal(short, long[:5])
    x = torch.zeros(2, 7, 12)
    assert torch.equal(scheme.add(x, offset=3), scheme.add(torch.zeros(2, 10, 12))[:, 3:])
    places = torch.tensor([0, 1, 2, 0, 0, 1, 0])  # of packed sequences
    assert torch.equal(scheme.add(x, offset=Placed(places, 3)), scheme(places).expand(2, -1, -1))
    assert torch.equal(scheme.add(x[:, :1], offset=Placed(places[:1], 0))[0], long[:1])  # filling alone


@pytest.mark.parametrize("scheme", schemes(), ids=lambda s: type(s).__name__)
def test_rows_may_begin_at_places_of_their_own_and_padding_stands_at_the_beginning(scheme: Positions) -> None:
    x, offsets = torch.randn(3, 7, 12), torch.tensor([5, 0, -2])
    together, beside = scheme.add(x, offset=offsets), scheme.concatenate(x, offset=offsets)
    for row, numbers in enumerate([range(5, 12), range(7), [0, 0, 0, 1, 2, 3, 4]]):
        assert torch.equal(together[row], x[row] + scheme(torch.tensor(list(numbers))))
        assert torch.equal(beside[row, :, 12:], scheme(torch.tensor(list(numbers))))


@pytest.mark.parametrize("scheme", [Sinusoidal(12), Gaussian(12)], ids=lambda s: type(s).__name__)
def test_the_size_of_a_position_is_bounded(scheme: Positions) -> None:
    sizes = scheme(torch.arange(100_000)).norm(dim=-1)
    assert sizes.max() <= math.sqrt(12 / 2) + 1e-4
    torch.testing.assert_close(sizes, sizes[:1].expand_as(sizes), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("width", "decay", "horizon"), [(32, 0.05, 40), (64, 0.01, 64), (128, 0.01, 256), (64, 1.0, 20)]
)
def test_gaussian_positions_meet_like_a_bell(width: int, decay: float, horizon: int) -> None:
    scheme = Gaussian(width, decay=decay, horizon=horizon)
    assert scheme.tolerance < 0.05
    vectors = scheme(torch.arange(1000, 1001 + horizon)).double()
    distance = torch.arange(horizon + 1).double()
    error = (vectors @ vectors[0] - torch.exp(-decay * distance**2)).abs().max().item()
    assert error <= scheme.tolerance + 1e-6
    assert scheme.tolerance < 100 * max(error, 1e-7)  # and the bound is not an empty one


def test_gaussian_positions_fall_with_distance() -> None:
    scheme = Gaussian(128, decay=0.01, horizon=256)
    vectors = scheme(torch.arange(40)).double()
    assert ((vectors @ vectors[0]).diff() < 0).all()


def test_sinusoidal_positions_fall_near_the_origin_and_not_for_ever() -> None:
    vectors = Sinusoidal(64)(torch.arange(200)).double()
    similar = vectors @ vectors[0]
    assert (similar[:4].diff() < 0).all()
    assert (similar.diff() > 0).any()


def test_concatenated_positions_are_extra_features() -> None:
    x = torch.randn(2, 5, 7)
    both = Sinusoidal(4).concatenate(x, offset=2)
    assert both.shape == (2, 5, 11)
    assert torch.equal(both[..., :7], x)
    assert torch.equal(both[1, :, 7:], Sinusoidal(4)(torch.arange(2, 7)))


def test_learned_positions_are_trained_and_end() -> None:
    scheme = Learned(4, count=6)
    scheme.add(torch.zeros(1, 3, 4), offset=2).sum().backward()
    assert scheme.table.grad is not None
    assert scheme.table.grad.sum(-1).tolist() == [0, 0, 4, 4, 4, 0]
    with pytest.raises(RegardError, match="7 positions, but only 6"):
        scheme.add(torch.zeros(1, 3, 4), offset=4)
    with pytest.raises(RegardError, match="7 positions, but only 6"):
        scheme.add(torch.zeros(2, 3, 4), offset=torch.tensor([-1, 4]))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sinusoidal(0), "width=0"),
        (lambda: Gaussian(5), "width=5"),
        (lambda: Sinusoidal(4).add(torch.zeros(2, 6)), "width 6, and 4 is wanted"),
    ],
)
def test_mistakes_are_named(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=said):
        make()


@pytest.mark.parametrize("scheme", [Sinusoidal(6), Rotary(6)], ids=["added", "rotary"])
def test_a_table_of_positions_belongs_to_its_module(scheme: nn.Module) -> None:
    def placed(module: nn.Module, dtype: torch.dtype) -> torch.Tensor:
        x = torch.ones(5, 6, dtype=dtype)
        return module.add(x, offset=2) if isinstance(module, Sinusoidal) else module(x, offset=2)

    own = copy.deepcopy(scheme)
    wide = placed(own, torch.float64)
    torch.testing.assert_close(placed(own.bfloat16(), torch.bfloat16).double(), wide, rtol=0, atol=0.05)
    assert torch.equal(placed(own.float(), torch.float32), placed(copy.deepcopy(scheme), torch.float32))
    assert not own.state_dict()
    table = weakref.ref(own._first_rows._known[2])  # type: ignore[union-attr, index]
    assert table() is not None
    del own
    gc.collect()
    assert table() is None
