"""Trained runs to be explored: each kind of model on the kind of input it takes."""

from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.runs.answering import Labeller, MediaDescriber, TextGenerator, Translator
from regard.runs.inputs import PairReader, TextReader
from regard.sight.explorer.exhibit import Exhibit, Subject
from regard.sight.explorer.fused import Fusing
from regard.sight.explorer.senses import Perceiving, Telling
from regard.sight.explorer.texts import Continuing, Sorting
from regard.sight.explorer.translations import Translating


def exhibit_of_run(
    loaded: Any,
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
    subject: Subject
    match loaded:
        case Translator():
            text = _text(given)
            subject = Translating(translator=loaded, source=text, target=target, beam=beam, about=about)
        case MediaDescriber():
            subject = Telling(describer=loaded, given=given, target=target, beam=beam, about=about)
        case TextGenerator():
            subject = Continuing(generator=loaded, text=_text(given), more=more, about=about)
        case Labeller(reader=TextReader()):
            subject = Sorting(labeller=loaded, text=_text(given), about=about)
        case Labeller(reader=PairReader()):
            subject = Fusing(labeller=loaded, given=given, about=about)
        case Labeller():
            subject = Perceiving(labeller=loaded, given=given, about=about)
        case _:
            raise RegardError(
                f"{name or 'this run'} cannot be explored: a {type(loaded).__name__} takes neither text nor pictures"
            )
    return subject.look({}, [])


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


def _described(loaded: Any) -> str:
    model = getattr(loaded, "model", None)
    if model is None:
        return ""
    count = sum(each.numel() for each in model.parameters())
    return f"{type(model).__name__} · {_short(count)} parameters"


def _short(count: int) -> str:
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g} {letter}"
    return str(count)
