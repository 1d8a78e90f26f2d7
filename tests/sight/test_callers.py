"""The calls of a model are found in whichever thread runs it, and those of no other model."""

import copy
import importlib.util
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import MultiHeadAttention, watch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


class Attending(nn.Module):
    """A model with torch's function and ours."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.ours = nn.Linear(8, 24), MultiHeadAttention(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return self.ours(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("device", DEVICES)
def test_threads_of_two_models_are_told_apart(device: str) -> None:
    model, other = Attending().to(device), Attending().to(device)
    x = torch.randn(2, 5, 8, device=device)
    plain = model(x)
    with ThreadPoolExecutor(3) as pool:
        with watch(model) as seen:
            outputs = list(pool.map(model, [x] * 8))
            list(pool.map(other, [x] * 8))
            other(x)
        pool.submit(model, x).result()
    assert all(torch.equal(output, plain) for output in outputs)
    assert (len(seen.calls("ours")), len(seen.calls("Attending")), len(seen)) == (8, 8, 16)


@pytest.mark.parametrize("device", DEVICES)
def test_replicas_have_the_names_of_their_modules(device: str) -> None:
    model, x = Attending().to(device), torch.randn(2, 5, 8, device=device)
    plain = model(x)

    def replica(module: nn.Module) -> nn.Module:  # as torch.nn.parallel.replicate makes them, on one device
        made = module._replicate_for_data_parallel()
        made.__dict__.update(module._parameters)
        made._modules = {name: replica(child) for name, child in module._modules.items()}  # type: ignore[arg-type]
        return made

    replicas = [replica(model) for _ in range(2)]
    with watch(model) as seen, ThreadPoolExecutor(2) as pool:
        outputs = [pool.submit(each, x).result() for each in replicas]
    assert all(torch.equal(output, plain) for output in outputs)
    assert seen.names == ["Attending", "ours"]
    assert len(seen) == 4


def test_copies_of_a_watched_model_are_other_models() -> None:
    model, x = Attending(), torch.randn(2, 5, 8)
    with watch(model) as seen:
        model(x)
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        for other in (copied, pickled):
            assert torch.equal(other(x), model(x))
    assert len(seen) == 6


@pytest.mark.slow  # imports transformers
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
@pytest.mark.parametrize("device", DEVICES)
def test_generation_in_a_streamers_thread_is_seen(device: str) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.generation.streamers import BaseStreamer

    class Streamer(BaseStreamer):  # as TextIteratorStreamer, without a tokenizer
        def __init__(self) -> None:
            self.tokens: list[Tensor] = []

        def put(self, value: Tensor) -> None:
            self.tokens.append(value)

        def end(self) -> None:
            pass

    config = GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=30, n_positions=32, eos_token_id=None)
    model, other = (GPT2LMHeadModel(config).to(device).eval() for _ in range(2))
    prompt = torch.randint(30, (1, 4), device=device)
    streamer = Streamer()
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(prompt, **options)
    with watch(model) as seen:
        thread = threading.Thread(
            target=model.generate, args=(prompt,), kwargs={**options, "streamer": streamer}
        )
        thread.start()
        other.generate(prompt, **options)
        thread.join()
    assert torch.equal(torch.cat([each.flatten() for each in streamer.tokens]), plain[0].cpu())
    assert len(seen) == 2 * 3
    assert len(seen.names) == 2
