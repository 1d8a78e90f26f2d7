"""Which tokenizer.json are read: those that are made like the ones regard trains, whatever their vocabulary.

The format can say more than a run needs, and some of it harms: padding and truncation change every text, dropout
makes its tokens random, and a regular expression can take hours. So each part but the vocabulary is compared with
what training writes.
"""

from collections.abc import Mapping
from typing import Any

from regard.data.notation import parse_settings
from regard.errors import RegardError

MOST_BYTES = 32 << 20
MOST_TOKENS = 1_000_000
_LEARNED = ("vocab", "merges")  # of the model; the rest of it is compared


def check_tokenizer(text: str, name: object, templates: Mapping[str, str], special: tuple[str, ...]) -> None:
    """Refuse a tokenizer.json that differs from all templates, JSON by kind, in more than what was learned."""
    if len(text) > MOST_BYTES:
        raise RegardError(f"{name}: a tokenizer of {len(text):,} characters, more than {MOST_BYTES:,}")
    try:
        given = parse_settings(text, name)
    except RegardError as error:
        raise RegardError(f"{error}; this is not a tokenizer.json") from None
    model = given.get("model")
    if not isinstance(model, dict):
        raise RegardError(f"{name}: this is not a tokenizer.json (it has no model)")
    _check_vocabulary(name, model.get("vocab"), special)
    differences = [_difference(given, parse_settings(template, kind)) for kind, template in templates.items()]
    if None not in differences:
        kinds, parts = ", ".join(templates), " or ".join(dict.fromkeys(filter(None, differences)))
        raise RegardError(
            f"{name}: {parts} is not as in the tokenizers that are read here ({kinds}): train one with "
            "Tokenizer.train"
        )


def _check_vocabulary(name: object, vocabulary: object, special: tuple[str, ...]) -> None:
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise RegardError(f"{name}: this is not a tokenizer.json (its model has no vocab)")
    if len(vocabulary) > MOST_TOKENS:
        raise RegardError(f"{name}: {len(vocabulary):,} tokens, more than {MOST_TOKENS:,}")
    numbers = sorted(number for number in vocabulary.values() if type(number) is int)
    if numbers != list(range(len(vocabulary))):
        raise RegardError(f"{name}: the {len(vocabulary):,} tokens are not numbered from 0, each once")
    names = {number: token for token, number in vocabulary.items()}
    for number, token in enumerate(special):
        if names.get(number) != token:
            raise RegardError(f"{name}: token {number} is {names.get(number)!r}, not {token!r}")


def _difference(given: Mapping[str, Any], template: Mapping[str, Any]) -> str | None:
    """The first part that is not as in the template."""
    for part in sorted({*given, *template} - {"version", "model"}):
        if not _alike(given.get(part), template.get(part)):
            return part
    model = {key: value for key, value in given["model"].items() if key not in _LEARNED}
    for key, value in model.items():
        if not _alike(value, template["model"].get(key)):
            return f"model.{key}"
    return None if model.get("type") == template["model"]["type"] else "model.type"


def _alike(mine: Any, theirs: Any) -> bool:
    """Equal, but for settings that one of them leaves unsaid and the other has off: other versions write fewer."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return all(_alike(mine.get(key), theirs.get(key)) for key in {*mine, *theirs})
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    return (mine is None and theirs is False) or (mine is False and theirs is None) or _same(mine, theirs)


def _same(mine: Any, theirs: Any) -> bool:
    return type(mine) is type(theirs) and bool(mine == theirs)
