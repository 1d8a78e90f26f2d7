"""Interventions against the same change made by hand."""

import pytest
import torch
from sight.peers import every_peer
from torch import Tensor, nn

from regard import MultiHeadAttention, RegardError, attend, causal, keep, lengths
from regard.sight.interventions import drop_heads, forbid, intervene, scale_head, uniform
from regard.sight.watch import watch


def by_hand(model: MultiHeadAttention, x: Tensor, change, mask=None) -> Tensor:  # type: ignore[no-untyped-def]
    """Multi-head attention with its heads' outputs [b, h, q, d] made by `change(query, key, value)`."""
    query, key, value = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in model.input.together(x))
    return model.output(change(query, key, value).transpose(1, 2).flatten(2))


def test_dropping_and_scaling_heads() -> None:
    model, x = MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    factors = torch.tensor([1.0, 0.0, 2.5, 0.0])[:, None, None]
    expected = by_hand(model, x, lambda q, k, v: attend(q, k, v) * factors)
    with intervene(model, {"MultiHeadAttention": [drop_heads(1, 3), scale_head(2, 2.5)]}):
        torch.testing.assert_close(model(x), expected)
    torch.testing.assert_close(model(x), by_hand(model, x, attend))


def test_forbidding_pairs() -> None:
    model, x, n = MultiHeadAttention(16, 4), torch.randn(2, 5, 16), torch.tensor([5, 3])
    allowed = torch.ones(1, 4, 5, 5, dtype=torch.bool)
    allowed[:, 2, 3:, 0] = False
    mask = causal() & lengths(n)
    expected = by_hand(model, x, lambda q, k, v: attend(q, k, v, mask & keep(allowed)))
    with intervene(model, {"MultiHeadAttention": forbid(queries=slice(3, 5), keys=0, heads=2)}):
        torch.testing.assert_close(model(x, mask=mask), expected)
    with intervene(model, {"MultiHeadAttention": forbid(queries=1)}), watch(model) as seen:
        model(x)
    assert (seen[0].weights()[:, :, 1] == 0).all()  # watching sees the changed attention


@pytest.mark.parametrize("heads", [None, [1, 2]])
def test_uniform_attention_looks_at_all_that_may_be_seen(heads: list[int] | None) -> None:
    model, x, n = MultiHeadAttention(16, 4), torch.randn(2, 5, 16), torch.tensor([5, 3])
    chosen = torch.tensor([heads is None or h in heads for h in range(4)])[:, None, None]
    mask = causal() & lengths(n)

    def change(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.where(chosen, attend(q * 0, k, v, mask), attend(q, k, v, mask))

    with intervene(model, {"MultiHeadAttention": uniform(heads=heads)}):
        torch.testing.assert_close(model(x, mask=mask), by_hand(model, x, change))


@pytest.mark.parametrize("name", every_peer())
def test_every_watched_model_can_be_changed(name: str) -> None:
    peer = every_peer()[name]()
    peer.model.eval()
    with torch.no_grad():
        with intervene(peer.model, {}):  # off the fused path of torch.nn, which leaves zeros in the padding
            plain = peer.run()
        with intervene(peer.model, {}), watch(peer.model) as seen:
            torch.testing.assert_close(peer.run(), plain, rtol=1e-4, atol=1e-4)
        assert len(seen) == peer.calls
        target = seen.names[0]
        with intervene(peer.model, {target: drop_heads(0, 1, 2, 3)}):
            silent = peer.run()
        with intervene(peer.model, {target: scale_head(0, 1.0)}):
            same = peer.run()
    assert not torch.equal(silent, plain)
    torch.testing.assert_close(same, plain, rtol=1e-4, atol=1e-4)


def test_importance_is_the_change_of_a_metric() -> None:
    model, x = nn.Sequential(MultiHeadAttention(16, 4), MultiHeadAttention(16, 4)), torch.randn(2, 5, 16)
    with torch.no_grad():
        model[1].output.weight[:, 8:12] = 0.0  # the third head of the second layer says nothing
        with watch(model) as seen:
            model(x)
        found = seen.matters(lambda: model(x).square().mean())
    assert found.change["1"][2] == 0
    assert (found.change["0"] != 0).all()
    ranked = found.ranked()
    assert len(ranked) == 8
    assert abs(ranked[0][2]) >= abs(ranked[-1][2]) == 0
    with torch.no_grad(), intervene(model, {"1": drop_heads(0)}):
        assert float(model(x).square().mean()) - found.metric == pytest.approx(float(found.change["1"][0]))


def test_mistakes_are_named() -> None:
    model = nn.Sequential(MultiHeadAttention(16, 4), nn.Linear(16, 16))
    x = torch.randn(2, 5, 16)
    with (
        pytest.raises(RegardError, match="no module 'attention'"),
        intervene(model, {"attention": drop_heads(0)}),
    ):
        model(x)
    with pytest.raises(RegardError, match="1 did not attend"), intervene(model, {"1": drop_heads(0)}):
        model(x)
    with (
        pytest.raises(RegardError, match="head 7, but there are only 4"),
        intervene(model, {"0": drop_heads(7)}),
    ):
        model(x)


def test_heads_of_a_fused_encoder_can_be_ranked() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 16)
    with torch.no_grad():
        with watch(model) as seen:
            model(x)
        assert seen.names == ["layers.0.self_attn", "layers.1.self_attn"]  # as on the plain path
        assert len(seen.matters(lambda: model(x).square().mean()).ranked()) == 8
