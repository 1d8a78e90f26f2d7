"""A long text is cut into windows."""

from itertools import chain

import numpy as np
import pytest
import torch

from regard.data.stream_feed import StreamFeed


@pytest.mark.parametrize("tokens", [2, 3, 10, 11, 12, 21, 97])
@pytest.mark.parametrize("context", [1, 5, 10])
@pytest.mark.parametrize("shift", [True, False])
def test_every_token_of_a_stream_but_the_first_is_predicted_once(tokens, context, shift):
    stream = np.arange(4, 4 + tokens).astype(np.uint16)
    feed = StreamFeed(stream, context=context, budget=3 * context, seed=1, shift=shift)
    for epoch in range(6):
        predicted = []
        for samples in feed.order(epoch):
            assert len(samples) <= 3
            batch = feed.batch(samples)
            assert batch.tokens.shape[1] <= context + 1
            for row, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True):
                assert length >= 2
                assert row[:length] == [*range(row[0], row[0] + length)]
                predicted += row[1:length]
        assert sorted(predicted) == [*range(5, 4 + tokens)]


def test_the_cuts_of_a_stream_move_from_epoch_to_epoch():
    feed = StreamFeed(np.zeros(1000, np.uint16), context=50, budget=100, seed=2)
    offsets = [min(chain(*feed.order(epoch))) for epoch in range(40)]
    assert min(offsets) >= 1
    assert max(offsets) <= 50
    assert len({*offsets}) > 20
    assert offsets == [min(chain(*feed.order(epoch))) for epoch in range(40)]
    still = StreamFeed(np.zeros(1000, np.uint16), context=50, budget=100, seed=2, shift=False)
    assert [*chain(*still.order(1))] == [*range(50, 1001, 50)]


def test_packed_windows_of_a_stream_are_the_same_windows():
    stream = np.arange(100, dtype=np.uint16)
    one, other = (
        StreamFeed(stream, context=7, budget=28, seed=1, packed=packed).batch([3, 50, 104])
        for packed in (False, True)
    )
    assert torch.equal(one.tokens[one.real()], other.tokens)
