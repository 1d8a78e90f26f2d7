"""Torch's functions are watched in every form that torch takes, and what is not understood stops no model."""

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from time import sleep
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from regard import Bilinear, Monitor, MultiHeadAttention, RegardError, drop_heads, intervene
from regard.errors import RegardWarning
from regard.sight import interpose, multihead_calls
from regard.sight.layer import Layer
from regard.sight.watch import watch

close = {"rtol": 0, "atol": 2e-6}


class Attending(nn.Module):
    """Torch's function with whatever it is given."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, **options)


def by_hand(query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
    scores = query.double() @ key.double().mT / query.shape[-1] ** 0.5
    return torch.softmax(scores if allowed is None else scores.masked_fill(~allowed, -torch.inf), -1)


def of(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(*shape) for shape in shapes]


@pytest.mark.parametrize(
    ("query", "key", "options"),
    [
        ((2, 4, 5, 8), (1, 4, 7, 8), {}),
        ((1, 4, 5, 8), (3, 4, 7, 8), {}),
        ((3, 1, 5, 8), (3, 4, 7, 8), {}),
        ((3, 2, 5, 8), (7, 8), {}),
        ((5, 8), (3, 2, 7, 8), {}),
        ((2, 1, 5, 8), (3, 7, 8), {}),
        ((2, 3, 1, 5, 8), (2, 1, 4, 7, 8), {}),
        ((5, 8), (7, 8), {}),
        ((2, 4, 5, 8), (2, 4, 7, 8), {"attn_mask": torch.arange(7)[None] > 2}),
        ((2, 4, 5, 8), (2, 4, 7, 8), {"attn_mask": causal_lower_right(5, 7)}),
        ((2, 4, 5, 8), (2, 4, 7, 8), {"attn_mask": causal_upper_left(5, 7)}),
    ],
    ids=str,
)
def test_shapes_that_torch_broadcasts_are_seen_as_it_computes_them(
    query: tuple[int, ...], key: tuple[int, ...], options: dict[str, Any]
) -> None:
    model, (q, k, v) = Attending(), of(query, key, (*key[:-1], 3))
    given = options.get("attn_mask")
    allowed = given._materialize() if hasattr(given, "_materialize") else given
    plain = model(q, k, v, **options)
    with watch(model) as seen:
        watched = model(q, k, v, **options)
    assert torch.equal(plain, watched)
    torch.testing.assert_close(seen[0].weights().double(), by_hand(q, k, allowed), **close)


def test_a_value_with_a_wider_batch_changes_no_weight() -> None:
    model, (q, k, v) = Attending(), of((1, 2, 5, 8), (1, 2, 7, 8), (3, 2, 7, 8))
    with watch(model) as seen:
        assert model(q, k, v).shape == (3, 2, 5, 8)
    torch.testing.assert_close(seen[0].weights().double(), by_hand(q, k), **close)


def test_a_call_of_no_heads_answers_with_none() -> None:
    model, (q, k) = Attending(), of((2, 0, 5, 8), (2, 0, 7, 8))
    with watch(model) as seen:
        model(q, k, k)
    layer = seen[0]
    assert layer.entropy().shape == (2, 0, 5)
    assert layer.received().shape == (2, 0, 7)
    assert layer.top(2)[0].shape == (2, 0, 5, 2)


@pytest.mark.parametrize("lowered", ["none", "query", "key", "both"])
def test_under_autocast_the_call_is_what_torch_lowers_it_to(lowered: str) -> None:
    model, (q, k, v) = Attending(), of((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))
    q = q.bfloat16() if lowered in ("query", "both") else q
    k = k.bfloat16() if lowered in ("key", "both") else k

    def run() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(q, k, v)

    plain = run()
    with watch(model) as seen:
        watched = run()
    assert plain.dtype == torch.bfloat16
    assert torch.equal(plain, watched)
    torch.testing.assert_close(
        seen[0].weights().double(), by_hand(q.bfloat16(), k.bfloat16()), rtol=0, atol=1e-6
    )
    with intervene(model, {"Attending": drop_heads(1)}):
        changed = run()
    assert changed.dtype == plain.dtype
    assert changed[:, 1].abs().max() == 0
    torch.testing.assert_close(changed[:, 2:], plain[:, 2:])


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs transformers")
def test_a_model_of_mixed_precision_under_autocast_is_seen() -> None:
    from transformers import DeepseekV3Config, DeepseekV3Model

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 50}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16}
    widths = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 2}
    model = DeepseekV3Model(DeepseekV3Config(**sizes, **heads, **widths, pad_token_id=0)).eval()
    tokens = torch.randint(3, 50, (2, 7))

    def run() -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return model(input_ids=tokens)[0]

    plain = run()
    with watch(model) as seen:
        watched = run()
    assert torch.equal(plain, watched)
    assert [layer.shape for layer in seen] == [(2, 4, 7, 7)] * 2
    assert seen[1].entropy().isfinite().all()


def nested(layout: torch.layout) -> Tensor:
    if layout == torch.strided:
        return torch.nested.nested_tensor([torch.randn(4, 3, 8), torch.randn(4, 5, 8)])
    rows = [torch.randn(3, 4, 8), torch.randn(5, 4, 8)]
    return torch.nested.nested_tensor(rows, layout=layout).transpose(1, 2)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_nested_tensors_are_recorded_as_not_understood(layout: torch.layout) -> None:
    model, x = Attending(), nested(layout)
    plain = model(x, x, x)
    with (
        pytest.warns(RegardWarning, match=r"1 of 1 attention calls were not understood.*nested"),
        watch(model) as seen,
    ):
        watched = model(x, x, x)
    assert all(map(torch.equal, plain.unbind(), watched.unbind()))
    layer = seen[0]
    assert not layer.understood
    assert "<Attending: not understood: its query and key are nested tensors" in repr(seen)
    for asking in (
        lambda: layer.entropy(),
        lambda: layer.weights(queries=0),
        lambda: layer.select(heads=0),
        lambda: layer.sinks(),
        lambda: seen.stitched("Attending"),
        lambda: seen.rollout(),
        lambda: seen.save("nowhere.safetensors"),
    ):
        with pytest.raises(
            RegardError, match=r"^Attending attended in a way that was not understood: its query"
        ):
            asking()
    with pytest.raises(RegardError, match="has no heads to drop"):
        seen.matters(lambda: 0.0)
    assert "not understood" in seen._repr_html_()


def test_an_intervention_refuses_what_is_not_understood_and_leaves_other_modules_alone() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.odd, self.plain = Attending(), Attending()

        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return self.odd(x, x, x), self.plain(y, y, y)

    model, x, y = Two(), nested(torch.jagged), torch.randn(2, 4, 5, 8)
    refused = pytest.raises(RegardError, match="odd attends in a way that cannot be changed")
    with refused, intervene(model, {"odd": drop_heads(0)}):
        model(x, y)
    with intervene(model, {"plain": drop_heads(0)}):
        assert model(x, y)[1][:, 0].abs().max() == 0


@pytest.mark.parametrize("where", ["of", "ask"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: (Attending(), of((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8))),
        lambda: (MultiHeadAttention(8, 2), of((2, 5, 8))),
        lambda: (nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval(), of((2, 5, 8))),
        lambda: (nn.MultiheadAttention(8, 2, batch_first=True).eval(), of((2, 5, 8)) * 3),
    ],
    ids=["sdpa", "regard", "encoder layer", "multi-head"],
)
def test_no_failure_of_the_watcher_reaches_the_model(
    monkeypatch: pytest.MonkeyPatch, where: str, make: Callable[[], tuple[nn.Module, list[Tensor]]]
) -> None:
    model, inputs = make()

    def failing(*args: Any, **kwargs: Any) -> None:
        raise MemoryError("no room\nfor two lines")

    def run() -> Tensor:
        with torch.no_grad():
            output = model(*inputs)
        return output[0] if isinstance(output, tuple) else output

    plain = run()
    monkeypatch.setattr(Layer, where, failing)
    with pytest.warns(RegardWarning, match="no room$"), watch(model, keep="evidence") as seen:
        assert torch.equal(run(), plain)
    assert [layer.reason for layer in seen] == ["no room"]
    monkeypatch.undo()
    if isinstance(model, MultiHeadAttention):
        return
    monkeypatch.setattr(interpose, "sdpa_call", failing)
    for function in ("_report_fused", "_report_weighed"):
        monkeypatch.setattr(multihead_calls, function, failing)
    with pytest.warns(RegardWarning, match="no room$"), watch(model) as seen:
        assert torch.equal(run(), plain)
    assert [layer.reason for layer in seen] == ["no room"]


def test_a_choice_that_a_layer_does_not_have_is_its_reason_and_others_go_on() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = MultiHeadAttention(8, 4), MultiHeadAttention(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.narrow(self.wide(x))

    model, x = Wide(), torch.randn(2, 5, 8)
    with (
        pytest.warns(RegardWarning, match="of narrow: head 3, but there are only 2"),
        watch(model, heads=3) as seen,
    ):
        model(x)
    assert seen["wide"].shape == (2, 1, 5, 5)
    with pytest.raises(RegardError, match="narrow attended in a way that was not understood: head 3"):
        _ = seen["narrow"].entropy()


def test_a_score_that_cannot_be_cut_is_recorded_as_not_understood() -> None:
    class Odd(Bilinear):
        """Three sets of weights for four heads: fit to be computed as a whole, not to be cut by head."""

        def __init__(self) -> None:
            super().__init__(2, 2)
            self.spare = nn.Parameter(torch.zeros(3, 2, 2))

    model, x = MultiHeadAttention(8, 4, score=Odd()), torch.randn(2, 5, 8)
    plain = model(x)
    with pytest.warns(RegardWarning, match="index 3 is out of bounds"), watch(model, heads=3) as seen:
        assert torch.equal(model(x), plain)
    assert not seen[0].understood
    with watch(model) as seen:
        model(x)
    torch.testing.assert_close(seen[0].weights().sum(-1), torch.ones(2, 4, 5))


def test_a_monitor_goes_on_past_what_is_not_understood() -> None:
    model, x, y, records = Attending(), nested(torch.jagged), torch.randn(1, 2, 5, 8), []
    monitor = Monitor(model, every=1, write=records.append)
    with pytest.warns(RegardWarning, match="1 of 2"), monitor.at(0):
        [model(each, each, each) for each in (x, y)]
    assert [(record.module, record.head) for record in records] == [("Attending", 0), ("Attending", 1)]


def test_threads_whose_arguments_override_torchs_functions_leave_it_replaced() -> None:
    class Slow(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sleep(0.002)
            return super().__torch_function__(func, types, args, kwargs or {})

    model, (q, k, v), original = (
        Attending(),
        of((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)),
        F.scaled_dot_product_attention,
    )
    with ThreadPoolExecutor(3) as pool, watch(model) as seen:
        list(pool.map(lambda _: model(q.as_subclass(Slow), k, v), range(9)))
        assert F.scaled_dot_product_attention is not original
        before = len(seen)
        model(q, k, v)
        assert len(seen) == before + 1
    assert F.scaled_dot_product_attention is original


@pytest.mark.parametrize("mode", [False, True], ids=["", "under a mode"])
@pytest.mark.parametrize("observed", [True, False], ids=["watched", "another model"])
def test_an_argument_that_overrides_torchs_functions_finds_the_original(mode: bool, observed: bool) -> None:
    class Doubled(Tensor):
        """Doubles what torch's function answers, if that is the one it finds."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(func, types, args, kwargs or {})
            return found * 2 if func is F.scaled_dot_product_attention else found

    model, (q, k, v) = Attending(), of((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8))
    for options in (
        {"attn_mask": causal_lower_right(5, 7)},
        {"attn_mask": torch.zeros(5, 7).as_subclass(Doubled)},
    ):
        plain = model(q, k, v, **options)
        watched = model if observed else Attending()
        with torch.device("cpu") if mode else nullcontext(), watch(watched) as seen:
            assert torch.equal(model(q, k, v, **options), plain)
            watched(q, k, v)
        assert len(seen) == 1 + observed
