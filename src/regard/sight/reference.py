"""Reference alignments made by people, and how far a found one is from them."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from regard.errors import RegardError
from regard.sight.alignment import Pair, Pairs

_LINK = re.compile(r"([0-9]+)([-?])([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The pairs (source, target) of a sentence that must be found, and those that may be: sure ⊆ possible."""

    sure: Pairs
    possible: Pairs = frozenset()  # the sure ones are added

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well found alignments agree with a reference, over a whole corpus (Och & Ney 2003)."""

    error_rate: float  # AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|)
    precision: float  # |A∩P| / |A|
    recall: float  # |A∩S| / |S|


def parse_references(text: str, *, first: int = 0) -> list[Reference]:
    """The references of a text with a sentence a line, in the format of Pharaoh.

    "0-0 1-2 3?4": source word 0 is surely aligned with target word 0, 3 possibly with 4. An empty line is a sentence
    with no pair. `first` is the number of the first word, 1 in some corpora; the pairs always count from 0.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    return [_parse(line, number, first) for number, line in enumerate(lines, 1)]


def pharaoh(pairs: Set[Pair]) -> str:
    """An alignment as a line of text: "0-0 1-2"."""
    return " ".join(f"{j}-{i}" for j, i in sorted(pairs))


def agreement(found: Sequence[Set[Pair]], references: Sequence[Reference]) -> Agreement:
    """How well the alignments A of some sentences agree with the sure (S) and possible (P) pairs of people.

    AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), each counted over all sentences (Och & Ney 2003). It is 0 when all sure pairs
    and only possible ones are found, and when there is nothing to find and nothing was.
    """
    if len(found) != len(references):
        raise RegardError(
            f"alignments of {len(found)} sentences and references for {len(references)}: one for each"
        )
    together = list(zip(found, references, strict=True))
    given, sure = sum(len(pairs) for pairs in found), sum(len(reference.sure) for reference in references)
    right = sum(len(pairs & reference.sure) for pairs, reference in together)
    allowed = sum(len(pairs & reference.possible) for pairs, reference in together)
    return Agreement(
        error_rate=1 - (right + allowed) / (given + sure) if given + sure else 0.0,
        precision=allowed / given if given else 1.0,
        recall=right / sure if sure else 1.0,
    )


def _parse(line: str, number: int, first: int) -> Reference:
    links: dict[str, set[Pair]] = {"-": set(), "?": set()}
    for link in line.split():
        found = _LINK.fullmatch(link)
        if found is None:
            raise RegardError(
                f"line {number}: {link!r} is no pair: write 1-2 for a sure one, 1?2 for a possible one"
            )
        source, target = int(found[1]) - first, int(found[3]) - first
        if source < 0 or target < 0:
            raise RegardError(f"line {number}: {link!r}, but words are counted from {first}")
        links[found[2]].add((source, target))
    return Reference(sure=frozenset(links["-"]), possible=frozenset(links["?"]))
