"""A stream is a sample, token by token."""

import pytest
import torch
from decoding.toys import Toy, hashed, sources
from torch import nn

from regard import RegardError
from regard.data.batches import Sequences
from regard.decoding.sampling import sample
from regard.decoding.streaming import stream


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.0}, {"temperature": 0.7, "top_k": 4, "top_p": 0.8}]
)
def test_a_stream_gives_the_tokens_of_a_sample(options: dict[str, float]) -> None:
    model = Toy(hashed(9, ending=0.3))
    ended = 0
    for source in sources(20):
        prompt = Sequences.of([source])
        (expected,) = sample(model, prompt, limits=7, seed=5, **options)  # type: ignore[arg-type]
        assert list(stream(model, prompt, limits=7, seed=5, **options)) == expected.tokens  # type: ignore[arg-type]
        ended += expected.finished
    assert 0 < ended < 20


def test_a_stream_is_the_text_of_any_number() -> None:
    model, texts = Toy(hashed(9)), sources(6)
    found = sample(model, Sequences.of(texts), limits=5, seed=5)
    prompt = Sequences.of([texts[4]])
    assert list(stream(model, prompt, limits=5, seed=5, numbers=torch.tensor([4]))) == found[4].tokens


def test_tokens_come_as_soon_as_they_are_known() -> None:
    model = Toy(hashed(9, ending=-9.0))
    tokens = stream(model, Sequences.of([[4, 2]]), limits=5, seed=0)
    assert model.batches == []
    next(tokens)
    assert model.batches == [1]
    assert len(list(tokens)) == 4
    assert model.batches == [1] * 5


def test_the_reader_of_a_stream_keeps_gradients_and_training_mode() -> None:
    class Module(nn.Module):
        def start(self, source):  # type: ignore[no-untyped-def]
            return Toy(hashed(9, ending=-9.0)).start(source)

        def step(self, tokens, state):  # type: ignore[no-untyped-def]
            assert not self.training
            assert not torch.is_grad_enabled()
            return Toy(hashed(9, ending=-9.0)).step(tokens, state)

    model = Module()
    for _ in stream(model, Sequences.of([[4, 2]]), limits=3, seed=0):
        assert model.training
        assert torch.is_grad_enabled()


def test_mistakes_are_told_before_the_first_token_is_asked_for() -> None:
    with pytest.raises(RegardError, match="top_k=0"):
        stream(Toy(hashed(9)), Sequences.of([[4, 2]]), limits=3, seed=0, top_k=0)
    with pytest.raises(RegardError, match="a limit of 0"):
        stream(Toy(hashed(9)), Sequences.of([[4, 2]]), limits=0, seed=0)


def test_several_prompts_are_refused() -> None:
    with pytest.raises(RegardError, match="a stream of 2 prompts"):
        list(stream(Toy(hashed(9)), Sequences.of([[4, 2], [5, 2]]), limits=3, seed=0))
