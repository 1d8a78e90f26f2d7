"""Numbers in English and in French words: pairs to translate, without a download.

Numbers are divided by a hash of the number itself: eight in ten are for training, one for validation and one for
testing. So no seed, size or order can bring a held-out number into training. The key of the hash is one that puts
zero into training, for its word occurs in no other number, and a number of one digit into each of the others.
"""

import hashlib
import random
from typing import Literal

from regard.errors import RegardError

LARGEST = 999_999_999
Part = Literal["train", "valid", "test"]

_ENGLISH = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_FRENCH = (
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
    "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
)  # fmt: skip
_FRENCH_TENS = ("vingt", "trente", "quarante", "cinquante", "soixante")


def english(number: int) -> str:
    """British style: 999 is "nine hundred and ninety-nine", 1001 is "one thousand and one"."""
    millions, thousands, rest = _groups(number)
    words = [f"{_english_group(millions)} million"] if millions else []
    words += [f"{_english_group(thousands)} thousand"] if thousands else []
    if words and 0 < rest < 100:
        words.append("and")
    if rest or not words:
        words.append(_english_group(rest))
    return " ".join(words)


def french(number: int) -> str:
    """Hyphens below a hundred only (the spelling before 1990): 999 is "neuf cent quatre-vingt-dix-neuf"."""
    millions, thousands, rest = _groups(number)
    # million is a noun, which leaves vingts and cents their s; mille is part of the numeral and takes it away.
    words = [f"{_french_group(millions, ends=True)} million{'s' * (millions > 1)}"] if millions else []
    if thousands:
        words.append("mille" if thousands == 1 else f"{_french_group(thousands, ends=False)} mille")
    if rest or not words:
        words.append(_french_group(rest, ends=True))
    return " ".join(words)


def number_links(number: int) -> list[frozenset[int]]:
    """For each French word of a number, the English words that it translates, counted from 0; words end at spaces.

    Of 171, "cent soixante et onze" for "one hundred and seventy-one": 0 or 1 for cent, 3 for each of the others. Nothing translates "and".
    """
    if not number:
        return [frozenset({0})]
    words = english(number).split()
    found: list[frozenset[int]] = []
    at = 0  # in the English words
    for group, scale in zip(_groups(number), ("million", "thousand", ""), strict=True):
        hundreds, rest = divmod(group, 100)
        silent = frozenset[int]()  # a "one" that French leaves out
        if hundreds > 1:
            found.append(frozenset({at}))
        if hundreds:
            found.append(frozenset({at + 1} if hundreds > 1 else {at, at + 1}))
            at += 2
        if rest:
            at += words[at] == "and"
            if (group, scale) == (1, "thousand"):
                silent = frozenset({at})
            else:
                found += [frozenset({at})] * len(_french_tens(rest, ends=scale != "thousand").split())
            at += 1
        if group and scale:
            found.append(frozenset({at}) | silent)
            at += 1
    return found


def part_of(number: int) -> Part:
    """Whether a number is for training, validation or testing: a pure function of the number."""
    place = hashlib.blake2b(str(number).encode(), digest_size=8, key=b"nombres").digest()
    match int.from_bytes(place, "big") % 10:
        case 0:
            return "test"
        case 1:
            return "valid"
        case _:
            return "train"


def draw_numbers(count: int, *, seed: int, part: Part = "train", largest: int = LARGEST) -> list[int]:
    """Numbers of a part: how many digits is drawn uniformly, then one of that many digits uniformly.

    Training numbers may repeat, as the short ones must. Numbers held out are distinct; where those of a length run
    out, as the few of one and two digits soon do, the other lengths take their places.
    """
    _groups(largest)
    if part not in ("train", "valid", "test"):
        raise RegardError(f'part={part!r}: give "train", "valid" or "test"')
    rng = random.Random(seed)
    found: list[int] = []
    taken: set[int] = set()
    misses = 0
    while len(found) < count:
        digits = rng.randint(1, len(str(largest)))
        number = rng.randint(0 if digits == 1 else 10 ** (digits - 1), min(10**digits - 1, largest))
        if part_of(number) != part or number in taken:
            misses += 1
            if misses > 10_000:
                raise RegardError(
                    f"{count} numbers for {part} up to {largest}: there are only {len(found)} numbers; ask for fewer, or "
                    "up to a larger one"
                )
            continue
        misses = 0
        found.append(number)
        if part != "train":
            taken.add(number)
    return found


def number_pairs(
    count: int, *, seed: int, part: Part = "train", largest: int = LARGEST
) -> list[tuple[str, str]]:
    """Numbers in English and in French words, drawn by `draw_numbers`."""
    numbers = draw_numbers(count, seed=seed, part=part, largest=largest)
    return [(english(number), french(number)) for number in numbers]


def _groups(number: int) -> tuple[int, int, int]:
    if not 0 <= number <= LARGEST:
        raise RegardError(f"number {number}: give one from 0 to {LARGEST}")
    return number // 1_000_000, number // 1000 % 1000, number % 1000


def _english_group(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _english_tens(rest)
    return f"{_ENGLISH[hundreds]} hundred" + (f" and {_english_tens(rest)}" if rest else "")


def _english_tens(number: int) -> str:
    if number < 20:
        return _ENGLISH[number]
    tens, ones = divmod(number, 10)
    return _ENGLISH_TENS[tens - 2] + (f"-{_ENGLISH[ones]}" if ones else "")


def _french_group(number: int, *, ends: bool) -> str:
    """A number below a thousand; whether it ends the numeral decides on the s of cents and quatre-vingts."""
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _french_tens(rest, ends)
    hundred = "cent" if hundreds == 1 else f"{_FRENCH[hundreds]} cent"
    if rest:
        return f"{hundred} {_french_tens(rest, ends)}"
    return hundred + "s" * (ends and hundreds > 1)


def _french_tens(number: int, ends: bool) -> str:
    if number < 20:
        return _FRENCH[number]
    if number >= 80:
        return "quatre-vingt" + (f"-{_FRENCH[number - 80]}" if number > 80 else "s" * ends)
    tens = min(number // 10, 6)  # soixante goes on to nineteen
    ones = number - 10 * tens
    joined = {0: "", 1: " et un", 11: " et onze"}.get(ones, f"-{_FRENCH[ones]}")
    return _FRENCH_TENS[tens - 2] + joined
