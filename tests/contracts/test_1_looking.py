"""Contract 1: looking never changes the answer. Outputs and gradients with and without watching are the same bits."""

import pytest
import torch
from sight.peers import every_peer, results

from regard.sight.watch import watch

PEERS = every_peer()


@pytest.mark.parametrize("name", PEERS)
def test_watching_changes_no_bit(name: str) -> None:
    peer = PEERS[name]()
    plain = results(peer)
    with watch(peer.model) as seen:
        watched = results(peer)
    again = results(peer)
    assert len(seen) == peer.calls
    assert len(set(seen.names)) == peer.calls
    for before, during, after in zip(plain, watched, again, strict=True):
        assert torch.equal(before, during)
        assert torch.equal(before, after)
    for layer in seen:  # and asking changes nothing either
        assert layer.entropy().isfinite().all()
    assert torch.equal(results(peer)[0], plain[0])


def test_watching_under_inference_mode() -> None:
    peer = PEERS["nn.MultiheadAttention without weights, eval"]()
    with torch.inference_mode():
        plain = peer.run()
        with watch(peer.model) as seen:
            watched = peer.run()
    assert torch.equal(plain, watched)
    assert seen[0].received().sum().item() == pytest.approx(2 * 4 * 7, rel=1e-5)
