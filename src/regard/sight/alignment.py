"""Alignments: which source word each target word was made from, as pairs (source, target).

They come from the weights [target, source] of a cross-attention, or of several averaged. Two alignments are joined
with the `&` and `|` of sets. A model of the opposite direction answers in its own order: turn its pairs round with
`flipped` first.
"""

from collections.abc import Sequence, Set

from jaxtyping import Float
from torch import Tensor

from regard.errors import RegardError

Pair = tuple[int, int]
Pairs = frozenset[Pair]

_NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def hard_alignment(weights: Float[Tensor, "target source"]) -> Pairs:
    """Each target word with the source word it looks at most.

    {(argmax_j w_ij, i)} (Luong 2015, 5.4). A target that looks at nothing is in no pair.
    """
    if weights.shape[-1] == 0:
        return frozenset()
    most, source = weights.max(-1)
    found = zip(source.tolist(), most.tolist(), strict=True)
    return frozenset((j, i) for i, (j, weight) in enumerate(found) if weight > 0)


def soft_alignment(weights: Float[Tensor, "target source"], above: float) -> Pairs:
    """Each target word with every source word that gets more than a share of its look.

    {(j, i) : w_ij > above} (Dou & Neubig 2021).
    """
    if not 0 <= above < 1:
        raise RegardError(
            f"soft_alignment(above={above}): a weight above which a pair counts, from 0 to below 1"
        )
    return frozenset((j, i) for i, j in (weights > above).nonzero().tolist())


def flipped(pairs: Set[Pair]) -> Pairs:
    """The same alignment seen from the other side: (j, i) for (i, j)."""
    return frozenset((j, i) for i, j in pairs)


def of_words(pairs: Set[Pair], *, source: Sequence[int], target: Sequence[int]) -> Pairs:
    """The alignment of words, from that of their pieces: two words are a pair when any of their pieces are.

    `source[j]` is the word that the source piece j belongs to, negative for none (a mark of begin or end).
    """
    words = ((source[j], target[i]) for j, i in pairs)
    return frozenset((j, i) for j, i in words if j >= 0 and i >= 0)


def symmetrised(forward: Set[Pair], backward: Set[Pair]) -> Pairs:
    """One alignment from those of both directions: what both say, grown into what either says.

    From the intersection, neighbours (diagonals too) in the union are added while they align a word that
    is not yet; last, pairs of either between two words not aligned at all (Koehn 2003, grow-diag-final-and). Both are
    pairs (source, target). For the strict one take `forward & backward`.
    """
    either, kept = forward | backward, set(forward & backward)
    sources, targets = {j for j, _ in kept}, {i for _, i in kept}

    def add(pair: Pair) -> None:
        kept.add(pair)
        sources.add(pair[0])
        targets.add(pair[1])

    fresh = sorted(kept)
    while fresh:
        before = set(kept)
        for j, i in fresh:
            for down, right in _NEIGHBOURS:
                near = (j + down, i + right)
                if near in either and (near[0] not in sources or near[1] not in targets):
                    add(near)
        fresh = sorted(kept - before)
    for pair in [*sorted(forward), *sorted(backward)]:
        if pair[0] not in sources and pair[1] not in targets:
            add(pair)
    return frozenset(kept)
