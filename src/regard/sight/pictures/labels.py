"""Text made fit to be shown. Tokens are data: they may be endless, hold control characters, or nothing at all."""

import unicodedata
from itertools import accumulate

from rich.cells import cell_len

UNSHOWN = "�"
_JOINERS = ("\u200c", "\u200d", "\ufe0e", "\ufe0f")  # join or restyle their neighbours, which are shown
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = 2  # accents kept on one letter; Vietnamese needs two


def plain(text: str, limit: int = 16) -> str:
    """The text as one visible line of at most `limit` columns: ␊ for a line break, ␣ for a space at an end, … if cut."""
    text = unicodedata.normalize("NFC", str(text)[: 8 * limit + 64])
    shown, marks = [], 0
    for letter in text:
        category = unicodedata.category(letter)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if letter not in _JOINERS and marks <= _MARKS:
            shown.append(_visible(letter, category))
    return shorten(_marked_ends("".join(shown)), limit)


def shorten(text: str, limit: int) -> str:
    """The text, or as much of its beginning as leaves room for a … in `limit` columns."""
    if cell_len(text) <= limit:
        return text
    widths = accumulate(cell_len(letter) for letter in text)
    return "".join(letter for letter, end in zip(text, widths, strict=True) if end < limit) + "…"


def amount(weight: float) -> str:
    """A weight in few digits, for the ends of a scale."""
    digits = f"{weight:.2g}" if weight < 0.1 else f"{weight:.2f}".rstrip("0").rstrip(".")
    return "0" if weight == 0 else digits


def letters(text: str) -> list[str]:
    """The text letter by letter, accents staying with theirs."""
    found: list[str] = []
    for each in text:
        if found and unicodedata.category(each) in ("Mn", "Me"):
            found[-1] += each
        else:
            found.append(each)
    return found


def _visible(letter: str, category: str) -> str:
    number = ord(letter)
    if number < 32:
        return chr(0x2400 + number)  # the control pictures, in the order of the control characters
    if number == 127:
        return "␡"
    if category == "Zs":
        return " "
    return UNSHOWN if category in _INVISIBLE else letter


def _marked_ends(text: str) -> str:
    body = text.strip(" ")
    if not body:
        return "␣" * len(text)
    start = len(text) - len(text.lstrip(" "))
    return "␣" * start + body + "␣" * (len(text) - start - len(body))
