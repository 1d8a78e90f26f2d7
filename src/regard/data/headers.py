"""Which columns of a table are wanted, and whether its first row names them.

The rule, in this order. A first row is a header if columns are asked for by name; if it has the usual names (such as
`source` and `target`); if all of its fields are names that columns commonly have, which the rows after it are not; or
if some column holds numbers in every row but the first. Otherwise it is a row like any other. Where a table names its columns and neither the usual
names nor those asked for are among them, the reading stops and lists them: which ones are meant is never guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import RegardError

Column = str | int  # a name, or a number counted from 1
Fields = tuple[str, ...]

# Words of which the names of columns are made: "id", "english", "source_text", "sentence1", "text_en" …
_COUNTS = "id ids idx index no nr num number row line key uid guid uuid"
_CONTENTS = """
source src target tgt trg text texts sentence sentences phrase word words input output question answer prompt response
translation translations original reference ref label labels class category sentiment topic tag tags rating stars score
title body review comment content message description caption captions transcript transcription file files filename
filepath path name image picture photo img audio sound wav recording url link language lang locale license credit
attribution author user date time timestamp split speaker
"""
_LANGUAGES = """
english french german spanish italian portuguese dutch russian chinese japanese korean arabic turkish polish czech
ukrainian greek hebrew hindi swedish danish norwegian finnish hungarian romanian latin en fr de es it pt nl ru zh ja ko
ar tr pl cs uk el he hi sv da fi hu ro la eng fra fre deu ger spa ita por nld rus zho jpn kor
"""
_NUMBERING = {*_COUNTS.split()}
_WORDS = {*_NUMBERING, *_CONTENTS.split(), *_LANGUAGES.split()}
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns asked for; without a request, the usual names."""

    usual: Fields  # such as ("source", "target")
    columns: Sequence[Column] | None = None

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        if isinstance(self.columns, str) or len(self.columns) != len(self.usual):
            raise RegardError(
                f"columns={self.columns!r}: give {len(self.usual)}, for {' and '.join(self.usual)}"
            )
        kinds = {type(column) for column in self.columns}
        if kinds - {int, str} or len(kinds) > 1:
            raise RegardError(f"columns={self.columns!r}: give either names or numbers")
        if any(isinstance(column, int) and column < 1 for column in self.columns):
            raise RegardError(f"columns={self.columns!r}: columns are counted from 1")

    @property
    def names(self) -> Fields | None:
        """The columns asked for by name."""
        if self.columns is None or isinstance(self.columns[0], int):
            return None
        return tuple(str(column) for column in self.columns)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Where the columns stand, from 0, when they have no names."""
        if self.columns is None:
            return tuple(range(len(self.usual)))
        return tuple(int(column) - 1 for column in self.columns)

    def among(self, path: str, present: Sequence[str]) -> tuple[int, ...]:
        """Where the columns stand in a table whose columns have these names."""
        if self.columns is not None and self.names is None:
            if max(self.numbers) >= len(present):
                raise RegardError(f"{path}: no column {max(self.numbers) + 1}, there are: {listed(present)}")
            return self.numbers
        found = [place(name, present) for name in self.names or self.usual]
        if self.names is None and None in found:
            if len(present) == len(self.usual) == 1:
                return (0,)
            raise RegardError(self.unsaid(path, present))
        for name, at in zip(self.names or self.usual, found, strict=True):
            if at is None:
                raise RegardError(f"{path}: no column {name!r}, there are: {listed(present)}")
        return tuple(at for at in found if at is not None)

    def unsaid(self, path: str, present: Sequence[str]) -> str:
        """The error for columns that were not chosen, with an example of how to."""
        useful = [name for name in present if name.strip() and not set(_words(name)) <= _NUMBERING]
        chosen = ",".join((useful if len(useful) >= len(self.usual) else list(present))[: len(self.usual)])
        setting = f"[{chosen}]" if len(self.usual) > 1 else chosen
        return (
            f"{path}: it has the columns {listed(present)}; say which to take as {' and '.join(self.usual)}, such as "
            f"data.column{'s' * (len(self.usual) > 1)}={setting} (for evaluate: --columns {chosen})"
        )


def is_header(first: Sequence[str], following: Sequence[Sequence[str]], wanted: Wanted) -> bool:
    """Whether the first row of a table names its columns; the rule is at the top of this file."""
    if wanted.names is not None or all(place(name, first) is not None for name in wanted.usual):
        return True
    if _are_names(first) and not (following and all(map(_are_names, following))):
        return True
    fields = [field.strip() for field in first]
    if any(map(_NUMBER.fullmatch, fields)):
        return False
    return any(field and holds_numbers(following, at) for at, field in enumerate(fields))


def holds_numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether there are some rows, and numbers in this column of all."""
    values = [row[column].strip() if column < len(row) else "" for row in rows]
    return len(values) > 1 and all(map(_NUMBER.fullmatch, values))


def place(name: str, present: Sequence[str]) -> int | None:
    """Where a name stands: as it is, else in other letters or with space around it, else inside a nested column."""
    plain = name.strip().casefold()
    folded = [other.strip().casefold() for other in present]
    for matches in (
        [other == name for other in present],
        [other == plain for other in folded],
        [other.endswith(f".{plain}") for other in folded],
    ):
        found = [at for at, same in enumerate(matches) if same]
        if len(found) > 1:
            raise RegardError(
                f"{len(found)} columns are called {name!r}, among {listed(present)}: give numbers"
            )
        if found:
            return found[0]
    return None


def listed(names: Sequence[str]) -> str:
    """Names for a message, and no more than a line of them."""
    return ", ".join(repr(name[:40]) for name in names[:12]) + (" …" if len(names) > 12 else "")


def _are_names(row: Sequence[str]) -> bool:
    """Whether all fields but the empty ones are names of columns, no two of them the same."""
    filled = [field.strip().casefold() for field in row if field.strip()]
    return len({*filled}) == len(filled) > 0 and all({*_words(field)} <= _WORDS for field in filled)


def _words(field: str) -> list[str]:
    """The words of a name, without a number at their ends: sentence1, source_text."""
    return [word.rstrip("0123456789") or word for word in re.split(r"[\W_]+", field.casefold()) if word]
