"""When a decode is recorded, and when the ordinary loops have to find the texts; with --device cuda, that both agree."""

import pytest
import torch
from decoding.test_steady import LIMITS, lively, sources, texts

from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.recorded import _survey, obstacle, recorded


def test_a_model_on_the_cpu_is_not_recorded() -> None:
    model, source = lively().cpu(), sources().to("cpu")
    assert obstacle(model, source) == "the model is not on a GPU"
    assert recorded(model, source, limits=LIMITS) is None


def test_one_walk_sees_hooks_modes_and_where_the_weights_lie() -> None:
    model = lively().eval()
    first = _survey(model)
    assert (first.hooked, first.training) == (False, False)
    deep = model.decoder[1].get_submodule("cross.input.all")
    hook = deep.register_forward_pre_hook(lambda *_: None)
    deep.training = True
    second = _survey(model)
    assert (second.hooked, second.training, second.addresses) == (True, True, first.addresses)
    hook.remove()
    moved = deep.get_parameter("weight")
    moved.data = moved.data.clone()
    assert not _survey(model).hooked
    assert _survey(model).addresses != first.addresses


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("size", [None, 4])
def test_recorded_texts_are_those_of_the_ordinary_loops(size: int | None) -> None:
    model, source = lively().cuda(), sources().to("cuda")
    found = [recorded(model, source, limits=LIMITS, size=size, penalty=0.6) for _ in range(2)]
    hook = model.register_forward_pre_hook(lambda *_: None)
    assert "hooks" in str(obstacle(model, source))
    if size is None:
        wanted = [[one] for one in greedy(model, source, limits=LIMITS)]
    else:
        wanted = beam(model, source, size=size, limits=LIMITS)
    hook.remove()
    for each in found:
        assert each is not None
        assert texts(each) == texts(wanted)
