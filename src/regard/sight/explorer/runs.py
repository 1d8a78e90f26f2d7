"""Trained runs to be explored: each kind of model on the kind of input it takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.models.kind import View, kind_of
from regard.models.kinds import KINDS
from regard.runs.answering import Loaded, MediaDescriber, TextGenerator, Translator
from regard.sight.explorer.exhibit import Exhibit, Subject
from regard.sight.explorer.media_views import Perceiving, Telling
from regard.sight.explorer.pair_view import Fusing
from regard.sight.explorer.texts import Continuing, Sorting
from regard.sight.explorer.translations import Translating


def exhibit_of_run(
    loaded: Loaded,
    given: Any,  # a text, or the file or tensor of a picture or a recording, or two of them
    *,
    target: str | None = None,
    beam: int | None = None,
    more: int = 0,
    name: str = "",
) -> Exhibit:
    """What a loaded run does with a text, with the file of a picture or of a recording, or with a pair of them."""
    about = " · ".join(part for part in (name, _described(loaded)) if part)
    writes = isinstance(loaded, Translator | MediaDescriber)
    if target is not None and not writes:
        raise RegardError(f"a target of {target!r}: only a translator, a captioner or a transcriber has one")
    if beam is not None and (target is not None or not writes):
        raise RegardError(f"a beam of {beam}: only a model that writes a target of its own has one")
    if more and not isinstance(loaded, TextGenerator):
        raise RegardError(f"{more} tokens more: only a language model goes on from a text")
    kind = loaded.kind or kind_of(getattr(loaded.model, "config", None), KINDS)
    if kind.view is None:
        raise RegardError(
            f"a {type(loaded.model).__name__} cannot be explored: it has no attention over text, pictures or sounds"
        )
    asked = _Request(loaded, given, target, beam, more, about)
    return _VIEWS[kind.view](asked).look({}, [])


class _Request(NamedTuple):
    loaded: Any
    given: Any
    target: str | None
    beam: int | None
    more: int
    about: str


_VIEWS: dict[View, Callable[[_Request], Subject]] = {
    "translation": lambda it: Translating(
        translator=it.loaded, source=_text(it.given), target=it.target, beam=it.beam, about=it.about
    ),
    "continuation": lambda it: Continuing(
        generator=it.loaded, text=_text(it.given), more=it.more, about=it.about
    ),
    "text-class": lambda it: Sorting(labeller=it.loaded, text=_text(it.given), about=it.about),
    "media-class": lambda it: Perceiving(labeller=it.loaded, given=it.given, about=it.about),
    "pair-class": lambda it: Fusing(labeller=it.loaded, given=it.given, about=it.about),
    "description": lambda it: Telling(
        describer=it.loaded, given=it.given, target=it.target, beam=it.beam, about=it.about
    ),
}


def _text(given: str) -> str:
    """A text as it was given, or that of the file it names."""
    try:
        is_file = len(given) < 4096 and Path(given).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it: a text
        return given
    if not is_file:
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RegardError(f"{given} cannot be read as text ({error})") from None


def _described(loaded: Loaded) -> str:
    count = sum(each.numel() for each in loaded.model.parameters())
    return f"{type(loaded.model).__name__} · {_short(count)} parameters"


def _short(count: int) -> str:
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)
