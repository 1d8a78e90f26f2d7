"""What is held out is decided by the names of samples: more of them, or another order, moves none."""

import random

import torch

from regard.data.media_feeds import HeldPictures
from regard.runs.tasks.pools import Pool, completed


def splits(names: list[str]) -> dict[str, str]:
    """The split of each name."""
    pool = Pool(HeldPictures(torch.zeros(len(names), 1, 2, 2)), ["told"] * len(names), names)
    found = completed({"train": pool}, 0.2)
    return {name: split for split, some in found.items() for name in some.names}


def test_neither_order_nor_company_moves_a_sample_between_splits() -> None:
    names = [f"class {number % 3}/{number}.png" for number in range(200)]
    first = splits(names)
    assert {
        split: list(first.values()).count(split) > 10 for split in ("train", "valid", "test")
    } == dict.fromkeys(("train", "valid", "test"), True)
    shuffled = random.Random(3).sample(names, len(names))
    assert splits(shuffled) == first
    more = splits(["class 0/new.png", *names])
    assert {name: more[name] for name in names} == first
