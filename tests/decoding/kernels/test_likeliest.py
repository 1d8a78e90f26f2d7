"""A step of greedy decoding in one kernel, against its equations: on a GPU, or by Triton's interpreter."""

import pytest
import torch

from regard.data.batches import END, PAD, START

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("words", [29, 2500])
def test_the_likeliest_token_is_written_and_texts_end(words: int) -> None:
    from regard.decoding.kernels.likeliest import likeliest

    rows, capacity = 7, 5
    logits = torch.randn(rows, words).half()
    logits[:, PAD], logits[:, START] = 20, 30  # never chosen, and yet counted
    logits[1, END] = 15
    logits[3, [5, 9, 27]] = 14  # of equals the first
    logits[4] = torch.nan
    over = torch.tensor([False, False, True, False, False, False, False])
    most = torch.tensor([9, 9, 9, 9, 9, 3, 4])
    tokens, written = torch.zeros(rows, dtype=torch.long), torch.zeros(capacity, rows, dtype=torch.long)
    tops = torch.zeros(capacity, rows, dtype=torch.float64)
    likeliest(logits, at=torch.tensor([2]), most=most, over=over, tokens=tokens, written=written, tops=tops)
    chosen = logits[:, START + 1 :].float().argmax(-1) + START + 1
    live = torch.tensor([0, 1, 2, 3, 5, 6])
    assert torch.equal(written[2, live], chosen[live])
    assert chosen[3] == 5
    assert over.tolist()[:4] == [False, True, True, False]
    assert over.tolist()[5:] == [True, False]
    assert torch.equal(tokens[live], chosen.where(~over, END)[live])
    wanted = logits.double().log_softmax(-1).gather(1, chosen[:, None])[:, 0]
    assert torch.allclose(tops[2, [0, 1, 3, 5, 6]].double(), wanted[[0, 1, 3, 5, 6]], atol=1e-5)
    assert tops[2, 2] == 0
    assert not tops[2, 4].isfinite()
    assert not written[[0, 1, 3, 4]].any()
