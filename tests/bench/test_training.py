"""Training beside others: the same model, the same sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.bench.training import WORDS, Peer, captions, peer_updates, weights_for_torch, x_transformer
from regard.data.batches import END
from regard.models.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(
    width=24, heads=2, depth=2, decoder_depth=3, hidden_width=56, tied="all", source_vocabulary=50, target_vocabulary=50
)  # fmt: skip


def batch(count=5):
    feed = captions(40)
    pairs = feed.batch(list(range(count)))
    for side in (pairs.source, pairs.target):
        side.tokens[side.tokens > END] = side.tokens[side.tokens > END] % 46 + 4
    return pairs


@pytest.mark.usefixtures("as_a_user")
def test_torch_with_our_weights_has_our_loss_and_gradients():
    ours, theirs = Transformer(CONFIG).eval().double(), Peer(CONFIG).eval().double()
    given = weights_for_torch(ours)
    told = theirs.load_state_dict(given, strict=False)
    assert (told.missing_keys, told.unexpected_keys) == (["waves"], [])
    pairs = batch()
    loss, other = ours.loss(pairs), theirs(pairs)
    torch.testing.assert_close(loss.total / loss.count, other, rtol=1e-9, atol=0)
    (loss.total / loss.count).backward()
    other.backward()
    names = dict(zip(given, (name for name, _ in ours.state_dict().items()), strict=True))
    for name, weight in theirs.named_parameters():
        torch.testing.assert_close(
            weight.grad, ours.get_parameter(names[name]).grad, rtol=1e-6, atol=1e-10, msg=name
        )


def test_captions_are_as_long_as_captions():
    feed = captions(5000)
    assert np.median(feed.sources.lengths) == pytest.approx(14, abs=1)
    assert np.percentile(feed.sources.lengths, 99) < 40
    assert feed.sources.tokens.min() >= 4
    assert feed.sources.tokens.max() < WORDS
    assert np.corrcoef(feed.sources.lengths, feed.targets.lengths)[0, 1] > 0.7


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("make", [Peer, x_transformer])
def test_updates_learn_and_count_real_tokens(make):
    model = make(replace(CONFIG, dropout=0.0, smoothing=0.0))
    if model is None:
        pytest.skip("x-transformers is not installed")
    pairs = batch()
    update = peer_updates(model, iter([pairs] * 20), torch.float32, "cpu")
    before = model(pairs).item()
    counts = {update() for _ in range(20)}
    assert counts == {int(pairs.source.real().sum() + pairs.target.real().sum())}
    assert model(pairs).item() < before
