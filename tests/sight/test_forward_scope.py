"""An intervention changes its model in its own thread, and in the recomputation of what was changed: nothing else."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from regard import MultiHeadAttention, RegardError, drop_heads, forbid, intervene, scale_head
from regard.attention.dispatch import observed, observers
from regard.sight.watch import watch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


class Block(nn.Module):
    """Attention by torch's scaled_dot_product_attention, in a module that is not of regard."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


class Stack(nn.Module):
    """Blocks that may be checkpointed: `way` runs one of them."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(make() for _ in range(2))
        self.way: Callable[[nn.Module, Tensor], Tensor] = lambda block, x: block(x)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = self.way(block, x)
        return x


class Loose(nn.Module):
    """Checkpoints a function that does not know the module."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.way: Callable[[Any, Any], Tensor] = lambda function, parts: function(*parts)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        return self.way(_attend, parts).transpose(1, 2).flatten(2)


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query.sin(), key, value)


MAKES: dict[str, Callable[[], nn.Module]] = {"torch": Block, "regard": lambda: MultiHeadAttention(16, 4)}
CHANGES = {"drop": drop_heads(1), "forbid": forbid(keys=0, heads=2)}


def stack(make: str, device: str) -> tuple[Stack, Tensor]:
    return Stack(MAKES[make]).to(device), torch.randn(2, 5, 16, device=device, requires_grad=True)


def checkpointed(reentrant: bool) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda block, x: checkpoint(block, x, use_reentrant=reentrant)


def gradients(model: nn.Module, x: Tensor, backward: Callable[[], None]) -> list[Tensor]:
    model.zero_grad()
    x.grad = None
    backward()
    return [x.grad, *(weight.grad for weight in model.parameters())]  # type: ignore[list-item]


def same(found: list[Tensor], expected: list[Tensor]) -> bool:
    """To the bit; on a GPU torch's backward pass may add in another order each time."""
    if found[0].is_cuda:
        return all(torch.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in zip(found, expected, strict=True))
    return all(map(torch.equal, found, expected))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_checkpointed_forward_is_recomputed_with_its_changes(
    device: str, make: str, reentrant: bool, change: str
) -> None:
    model, x = stack(make, device)
    changes = {"blocks.1": CHANGES[change]}

    def inside() -> None:
        with intervene(model, changes):
            model(x).square().sum().backward()

    def outside() -> None:
        with intervene(model, changes):
            loss = model(x).square().sum()
        loss.backward()

    def elsewhere() -> None:
        with intervene(model, changes):
            loss = model(x).square().sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()

    def under_another() -> None:
        with intervene(model, changes):
            loss = model(x).square().sum()
        with intervene(model, {"blocks.0": drop_heads(0, 1, 2, 3)}):
            loss.backward()
            model(x)

    def unchanged() -> None:
        loss = model(x).square().sum()
        with intervene(model, changes):
            loss.backward()
            model(x)

    plain = gradients(model, x, unchanged)
    expected = gradients(model, x, outside)  # nothing is recomputed yet
    assert not same(plain, expected)
    model.way = checkpointed(reentrant)
    for way in (inside, outside, elsewhere, under_another):
        assert same(gradients(model, x, way), expected), way.__name__
    assert same(gradients(model, x, unchanged), plain)


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
@pytest.mark.parametrize("device", DEVICES)
def test_regions_inside_regions(device: str, reentrant: bool) -> None:
    model, x = stack("torch", device)

    def run() -> None:
        with intervene(model, {"blocks.1": forbid(keys=0)}):
            loss = model(x).square().sum()
        loss.backward()

    expected = gradients(model, x, run)
    inner = checkpointed(reentrant)
    model.way = lambda block, x: checkpoint(inner, block, x, use_reentrant=reentrant)
    assert same(gradients(model, x, run), expected)


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_a_region_that_does_not_know_its_module_is_that_modules(reentrant: bool) -> None:
    class Trained(nn.Module):
        """Runs the backward pass in a method of its own, as some frameworks do."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = Loose()

        def step(self, x: Tensor) -> None:
            with intervene(self, {"inner": forbid(keys=0)}):
                loss = self.inner(x).square().sum()
            loss.backward()

    model, x = Trained(), torch.randn(2, 5, 16, requires_grad=True)
    expected = gradients(model, x, lambda: model.step(x))
    model.inner.way = lambda function, parts: checkpoint(function, *parts, use_reentrant=reentrant)
    assert same(gradients(model, x, lambda: model.step(x)), expected)


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
@pytest.mark.parametrize("device", DEVICES)
def test_an_intervention_inside_a_region_is_recomputed_as_it_was(device: str, reentrant: bool) -> None:
    model, x = stack("torch", device)
    counts: list[int] = []

    def partly(x: Tensor) -> Tensor:
        with watch(model) as seen:
            x = model(x).sin()
        counts.append(len(seen))
        with intervene(model, {"blocks.1": forbid(keys=0)}):
            x = model(x).sin()
        return model(x).sin()

    expected = gradients(model, x, lambda: partly(x).sum().backward())
    found = gradients(model, x, lambda: checkpoint(partly, x, use_reentrant=reentrant).sum().backward())
    assert same(found, expected)
    assert counts == [2, 2, 2]


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
def test_nothing_stays_replaced_once_the_graph_is_gone(reentrant: bool) -> None:
    originals = F.scaled_dot_product_attention, nn.MultiheadAttention.forward
    model, x = stack("torch", "cpu")
    model.way = checkpointed(reentrant)
    with intervene(model, {"blocks.1": drop_heads(0)}):
        loss = model(x).sum()
    assert observers
    assert not observed(model)
    loss.backward()
    del loss
    gc.collect()
    assert not observers
    assert originals == (F.scaled_dot_product_attention, nn.MultiheadAttention.forward)


def test_a_recomputation_that_cannot_be_told_is_refused() -> None:
    model, x = stack("torch", "cpu")
    block = model.blocks[1]
    output = model.blocks[0](x)
    output.register_hook(
        lambda grad: block(grad).detach() * 0 + grad
    )  # not checkpointing, but inside of backward
    with (
        pytest.raises(
            RegardError, match=r"blocks\.1 attends in a backward pass, and its forward pass is not known"
        ),
        intervene(model, {"blocks.1": drop_heads(0)}),
    ):
        output.sum().backward()
    done = []

    def hooked(grad: Tensor) -> None:
        with intervene(
            model, {"blocks.1": drop_heads(0, 1, 2, 3)}
        ):  # begun in the backward pass: no doubt there
            done.append(block(grad))

    output = model.blocks[0](x)
    output.register_hook(hooked)
    output.sum().backward()
    assert torch.equal(done[0], torch.ones_like(x))


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("device", DEVICES)
def test_another_thread_runs_the_model_unchanged(device: str, make: str) -> None:
    model, x = stack(make, device)
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        run = torch.no_grad()(lambda: model(x))
        plain = model(x)
        with intervene(model, {"blocks.1": drop_heads(2)}):
            changed = model(x)
            assert observed(model)
            assert not pool.submit(observed, model).result()
            theirs = pool.submit(run).result()
            assert torch.equal(model(x), changed)
        assert not torch.equal(plain, changed)
        assert torch.equal(theirs, plain)
        with (
            pytest.raises(RegardError, match=r"blocks\.1 did not attend in this thread"),
            intervene(model, {"blocks.1": drop_heads(2)}),
        ):
            pool.submit(run).result()


def test_a_changed_call_of_torchs_function_has_all_its_gradients() -> None:
    model, x = Block(), torch.randn(2, 5, 16, requires_grad=True)
    allowed = torch.ones(5, 5, dtype=torch.bool)
    allowed[:, 0] = False

    def by_hand() -> None:
        query, key, value = model.project(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        weights = (query @ key.mT / 2).masked_fill(~allowed, -torch.inf).softmax(-1)
        (x + (weights @ value).transpose(1, 2).flatten(2)).square().sum().backward()

    def changed() -> None:
        with intervene(model, {"Block": forbid(keys=0)}):
            model(x).square().sum().backward()

    for found, expected in zip(gradients(model, x, changed), gradients(model, x, by_hand), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
@pytest.mark.parametrize("device", DEVICES)
def test_watching_sees_a_checkpointed_call_once(device: str, reentrant: bool) -> None:
    model, x = stack("torch", device)
    model.way = checkpointed(reentrant)
    plain = gradients(model, x, lambda: model(x).sum().backward())
    with watch(model) as seen:
        watched = gradients(model, x, lambda: model(x).sum().backward())
    assert [layer.name for layer in seen] == ["blocks.0", "blocks.1"]
    assert same(watched, plain)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_fused_modules_of_torch_stay_fused_elsewhere(device: str) -> None:
    def make() -> nn.TransformerEncoder:
        layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True, device=device)
        return nn.TransformerEncoder(layer, 2).eval()

    model, other, x = make(), make(), torch.randn(2, 5, 16, device=device)
    padding = torch.arange(5, device=device) >= torch.tensor([[5], [3]], device=device)

    @torch.no_grad()
    def run(which: nn.Module) -> Tensor:
        return which(x, src_key_padding_mask=padding)

    plain, apart = run(model), run(other)
    assert plain[1, 3:].abs().max() == 0  # which is what the fused path leaves in the padding
    with ThreadPoolExecutor(1) as pool, intervene(model, {"layers.1.self_attn": scale_head(0, 1.0)}):
        changed = run(model)
        assert torch.backends.mha.get_fastpath_enabled()
        assert torch.equal(run(other), apart)
        assert torch.equal(pool.submit(run, model).result(), plain)
    assert changed[1, 3:].abs().max() > 0
    torch.testing.assert_close(changed[0], plain[0])
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert torch.equal(run(model), changed)  # torch's own way of taking it
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
