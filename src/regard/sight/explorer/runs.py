"""Trained runs to be explored: each kind of model on the kind of input it takes."""

from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.models.fusion import Fusion
from regard.models.kind import View
from regard.models.kinds import KINDS
from regard.runs.answering import Loaded, MediaDescriber, TextGenerator, Translator
from regard.runs.inputs import DigitReader, PairReader, TextReader
from regard.runs.recipe import kind_of
from regard.sight.explorer.classifier_view import ClassifierView
from regard.sight.explorer.example import Example, Subject
from regard.sight.explorer.generation_view import GenerationView
from regard.sight.explorer.language_view import LanguageView


def example_of_run(
    loaded: Any,  # a `Loaded`
    given: Any,  # a text, or the file or tensor of a picture or a recording, or two of them
    *,
    target: str | None = None,
    beam: int | None = None,
    more: int = 0,
    name: str = "",
) -> Example:
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
    _check_reader(loaded, kind.view)
    match kind.view:
        case "translation" | "description":
            source = _text(given) if kind.view == "translation" else given
            view: Subject = GenerationView(loaded=loaded, given=source, target=target, beam=beam, about=about)
        case "continuation":
            view = LanguageView(generator=loaded, text=_text(given), more=more, about=about)
        case "text-class":
            view = ClassifierView(labeller=loaded, given=_text(given), about=about)
        case _:
            view = ClassifierView(labeller=loaded, given=given, about=about)
    return view.look({}, [])


def _check_reader(loaded: Any, view: View) -> None:
    """Raise unless a classifier reads what the view of its kind shows."""
    if view == "text-class" and not isinstance(loaded.reader, TextReader | DigitReader):
        raise RegardError(f"this classifier reads a {loaded.reader.what}, not a text")
    if view == "pair-class" and not isinstance(loaded.reader, PairReader):
        raise RegardError(f"this classifier reads one {loaded.reader.what}, not two senses")
    if view == "pair-class" and not isinstance(loaded.model, Fusion):
        raise RegardError(f"a {type(loaded.model).__name__} does not take two senses")


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
    sizes = ((10**9, "B"), (10**6, "M"), (10**3, "k"))
    short = next((f"{count / size:.3g} {letter}" for size, letter in sizes if count >= size), str(count))
    return f"{type(loaded.model).__name__} · {short} parameters"
