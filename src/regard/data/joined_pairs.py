"""Longer training pairs made of short ones, so that a translator of short sentences learns long texts too.

Sentences joined end to end are translated sentence by sentence, so joined targets are right targets (Kondo 2021).
"""

import random
from collections.abc import Iterable, Iterator

POOL = 4096  # pairs that are drawn from: a sample of those read so far
FEWEST, MOST = 2, 4  # pairs of a joined one


def join_pairs(pairs: Iterable[tuple[str, str]], *, share: float, seed: int) -> Iterator[tuple[str, str]]:
    """The pairs as they come and `share` times as many joined ones: a pure function of the pairs and the seed."""
    rng, pool, due = random.Random(seed), list[tuple[str, str]](), 0.0
    for pair in pairs:
        yield pair
        if len(pool) < POOL:
            pool.append(pair)
        else:  # Drawn, not the oldest: a file sorted by length would give pairs of one length.
            pool[rng.randrange(POOL)] = pair
        due += share
        while due >= 1 and len(pool) >= FEWEST:
            due -= 1
            drawn = rng.sample(pool, min(rng.randint(FEWEST, MOST), len(pool)))
            source, target = (" ".join(side) for side in zip(*drawn, strict=True))
            yield source, target
