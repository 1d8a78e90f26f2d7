"""Tokenizers: text to numbers and back, over the `tokenizers` library. Text never becomes a special token.

Only a tokenizer.json made like those that regard trains is read. The format can express more than a run needs, and some
of it harms: padding and truncation change every text, dropout makes its tokens random, and a regular expression can
take hours. So each part but the vocabulary is compared with what training writes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from regard.data.batches import SPECIAL, UNKNOWN
from regard.data.file_access import read_text, write_atomically
from regard.data.given import parse_settings
from regard.errors import RegardError

Kind = Literal["bpe", "word", "character"]
_SPECIAL_WORDS = re.compile(rf"(?<!\S)(?:{'|'.join(SPECIAL)})(?!\S)")


class Tokenizer:
    """A vocabulary and how text is cut into it. Its first four tokens are PAD, START, END and UNKNOWN.

    `Tokenizer.train(lines)` learns byte-level BPE (Sennrich 2016; over bytes: Radford 2019), in which every text
    can be written and comes back exactly. Words are what stands between white space, and characters are single;
    of both, what training did not see is UNKNOWN.
    """

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # "</s>" in a text is four characters, not an end
        self._inner = inner
        self.kind = _kind_of(inner)

    @classmethod
    def train(
        cls, lines: Iterable[str], *, kind: Kind = "bpe", size: int = 8000, least: int = 1
    ) -> "Tokenizer":
        """Learn at most `size` tokens, of what occurs at least `least` times, from lines or longer texts."""
        inner, trainer = _untrained(kind, size, least)
        seen = [0]
        try:
            inner.train_from_iterator(_taken(lines, kind, seen), trainer)
        except UnicodeEncodeError as error:
            raise RegardError(_not_text([error.object])) from None
        if not seen[0]:
            raise RegardError("there are no lines to train a tokenizer on")
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path, *, within: str | Path | None = None) -> "Tokenizer":
        """The tokenizer of a `tokenizer.json`; `within` a folder that no link may lead out of."""
        return cls.of_json(read_text(path, most=MAX_BYTES, within=within), path)

    @classmethod
    def of_json(cls, text: str, name: str | Path = "this text") -> "Tokenizer":
        """The tokenizer that `to_json` wrote."""
        check_tokenizer(text, name, _templates(), SPECIAL)
        try:
            made = cls(tokenizers.Tokenizer.from_str(text))
        except (
            BaseException
        ) as error:  # a panic of Rust is no Exception, and the library raises no narrower one
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise RegardError(f"{name}: this is not a tokenizer.json ({_oneline(error)})") from None
        if made.kind == "bpe":
            vocabulary = made._inner.get_vocab(with_added_tokens=False)
            if odd := next(
                (each for each in vocabulary if not _BYTES.keys() >= {*each} and each not in SPECIAL), ""
            ):
                raise RegardError(f"{name}: the token {odd[:40]!r} is not spelled in the letters of bytes")
        return made

    def to_json(self) -> str:
        """What `tokenizer.json` holds; other libraries read it too."""
        return self._inner.to_str(pretty=True)

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`."""
        write_atomically(path, self.to_json())

    @property
    def size(self) -> int:
        """How many tokens there are, special ones included."""
        return self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, no special ones added."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of many texts, faster than one by one."""
        try:
            found = self._inner.encode_batch_fast(texts, add_special_tokens=False)
        except TypeError:
            raise RegardError(_not_text(texts)) from None
        if self.kind != "word":
            return [encoding.ids for encoding in found]
        # Alone among the three, words can be spelled like a special token; it is not in the vocabulary of words.
        return [[max(token, UNKNOWN) for token in encoding.ids] for encoding in found]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones left out."""
        return self._inner.decode(list(tokens), skip_special_tokens=True)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Every token as it is shown in a picture: no space before a word, and nothing invisible."""
        return [self._shown(token) for token in tokens]

    def name(self, token: int) -> str:
        """A token as tokenizer.json spells it: unlike the pieces of pictures, no two are alike."""
        name = self._inner.id_to_token(token)
        if name is None:
            raise RegardError(f"token {token}: the vocabulary has {self.size} tokens")
        return name

    def _shown(self, token: int) -> str:
        name = self.name(token)
        if token < len(SPECIAL):
            return SPECIAL[token]
        if self.kind == "bpe":
            raw = bytes(_BYTES[letter] for letter in name)
            try:
                name = raw.decode()
            except UnicodeDecodeError:  # a part of a character
                return raw.hex(" ")
        visible = name.strip(" ") or "␣" * len(name)
        return visible.replace("\n", "↵").replace("\t", "⇥").replace("\r", "␍")


def _untrained(kind: Kind, size: int, least: int) -> tuple[tokenizers.Tokenizer, trainers.Trainer]:
    smallest = len(SPECIAL) + (256 if kind == "bpe" else 1)
    if size < smallest:
        raise RegardError(f"size={size}: {kind} needs at least {smallest} tokens")
    special = list(SPECIAL)
    if kind == "bpe":
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        return inner, trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=least,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL[UNKNOWN]))
    if kind == "word":
        inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    elif kind == "character":
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        inner.decoder = decoders.Fuse()
    else:
        raise RegardError(f'kind={kind!r}: give "bpe", "word" or "character"')
    return inner, trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=least, special_tokens=special, show_progress=False
    )


def _kind_of(inner: tokenizers.Tokenizer) -> Kind:
    if isinstance(inner.model, models.BPE):
        return "bpe"
    return "character" if isinstance(inner.decoder, decoders.Fuse) else "word"


def _taken(lines: Iterable[str], kind: Kind, seen: list[int]) -> Iterator[str]:
    """The lines, counted. Words spelled like a special token are left out: counting them would move its number."""
    for line in lines:
        seen[0] += 1
        yield _SPECIAL_WORDS.sub(" ", line) if kind == "word" else line


def _not_text(texts: Sequence[str]) -> str:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"{text[:40]!r} cannot be tokenized: character {error.start + 1} is half of one (a lone surrogate)"
    return "only text can be tokenized"


@cache
def _templates() -> dict[str, str]:
    """A tokenizer of every kind, to compare those with that are read."""
    return {kind: Tokenizer.train(["a"], kind=kind, size=300).to_json() for kind in get_args(Kind)}


def _oneline(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _byte_letters() -> dict[str, int]:
    """The letters in which byte-level tokens are spelled, and their bytes: printable ones are themselves."""
    printable = {
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    }
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES = _byte_letters()


MAX_BYTES = 32 << 20
MAX_TOKENS = 1_000_000
_LEARNED = ("vocab", "merges")  # of the model; the rest of it is compared


def check_tokenizer(text: str, name: object, templates: Mapping[str, str], special: tuple[str, ...]) -> None:
    """Refuse a tokenizer.json that differs from all templates, JSON by kind, in more than what was learned."""
    if len(text) > MAX_BYTES:
        raise RegardError(f"{name}: a tokenizer of {len(text):,} characters, more than {MAX_BYTES:,}")
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
    if len(vocabulary) > MAX_TOKENS:
        raise RegardError(f"{name}: {len(vocabulary):,} tokens, more than {MAX_TOKENS:,}")
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
