"""When a decode is recorded, and when the ordinary loops have to find the texts; with --device cuda, that both agree."""

import pytest
import torch
from decoding.test_steady import LIMITS, lively, sources, texts

from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.recorded import obstacle, recorded


def test_a_model_on_the_cpu_is_not_recorded() -> None:
    model, source = lively().cpu(), sources().to("cpu")
    assert obstacle(model, source) == "the model is not on a GPU"
    assert recorded(model, source, limits=LIMITS) is None


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
