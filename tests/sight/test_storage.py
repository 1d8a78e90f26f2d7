"""What was seen survives a file."""

from pathlib import Path

import pytest
import torch
from contracts.cases import Case
from safetensors.torch import save_file
from sight.peers import every_peer

from regard import RegardError
from regard.sight.layer import Layer
from regard.sight.seen import Seen
from regard.sight.watch import watch


@pytest.mark.parametrize("name", every_peer())
def test_every_peer_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    peer = every_peer()[name]()
    with torch.no_grad(), watch(peer.model) as seen:
        peer.run()
    seen.save(tmp_path / "seen.safetensors")
    back = Seen.load(tmp_path / "seen.safetensors")
    assert back.names == seen.names
    for mine, theirs in zip(back, seen, strict=True):
        assert torch.equal(mine.weights(), theirs.weights())


def test_every_mask_and_bias_comes_back(tmp_path: Path) -> None:
    from contracts.cases import biases, rectangular_masks, scores, square_masks

    cases = [Case(mask, "scaled", "none", "f32", False, True) for mask in square_masks()]
    cases += [Case(mask, "scaled", "none", "bf16", True, False) for mask in rectangular_masks()]
    cases += [Case("causal", score, bias, "f32", True, True) for score in scores() for bias in biases()]
    layers = [Layer.of(str(case), case.build()[0]) for case in cases]
    Seen(layers).save(tmp_path / "all.safetensors")
    for mine, theirs in zip(Seen.load(tmp_path / "all.safetensors"), layers, strict=True):
        torch.testing.assert_close(mine.weights(), theirs.weights(), rtol=0, atol=1e-6)
        assert mine.call is not None
        assert theirs.call is not None
        assert str(mine.call.mask) == str(theirs.call.mask)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"nothing\.safetensors is not there"):
        Seen.load(tmp_path / "nothing.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(RegardError, match=r"text\.safetensors cannot be read"):
        Seen.load(tmp_path / "text.safetensors")
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors")
    with pytest.raises(RegardError, match="not what was seen of a model"):
        Seen.load(tmp_path / "other.safetensors")
    seen = Seen([])
    with pytest.raises(RegardError, match="has no model to run"):
        seen.matters(lambda: 0.0)
