"""A kind of model, as plain data: what the rooms above need to train, load, use and explore models of this kind.

And what every config is checked for: a mistake in a setting is one line that names it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from torch import nn

from regard.data.given import told
from regard.errors import RegardError

Input = Literal["text", "picture", "sound", "digits"]
Task = Literal["translation", "language", "classification", "description", "digit-match", "counting"]
Verb = Literal["translate", "generate", "classify", "caption", "transcribe", "score"]
View = Literal["translation", "continuation", "text-class", "media-class", "pair-class", "description"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of model. Names are interpreted above: the task by runs/, the verbs by cli/, the view by the explorer.

    The task fills in what only the data tell, so the config has these fields: `vocabulary` for texts (translation:
    `source_vocabulary` and `target_vocabulary`; description: `target_vocabulary`), `classes` for classes, `image_size`
    and `channels` for pictures, `rate` for sounds.
    """

    config: type  # a frozen dataclass with defaults; its class attribute KIND is the name in recipes
    model: Callable[[Any], nn.Module]  # from a config
    reads: tuple[Input, ...]  # what goes in
    gives: Literal["text", "class"]  # what comes out
    task: Task  # how it is trained and evaluated
    verbs: tuple[Verb, ...] = ()  # of the command line and of `regard.load`; the first is what it is for
    view: View | None = None  # of the explorer; None: no attention to explore
    hub: str = "other"  # the task as model hubs call it
    presets: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # configs by name
    packs: bool = False  # reads texts end to end in one row (training.packing)

    def __post_init__(self) -> None:
        if not is_dataclass(self.config) or not isinstance(getattr(self.config, "KIND", None), str):
            raise RegardError(
                f"{self.config!r} is no config: give a frozen dataclass with `KIND: ClassVar[str]`, the name of the kind"
            )

    @property
    def name(self) -> str:
        """As in `model.kind` of a recipe."""
        return self.config.KIND  # type: ignore[attr-defined]


def joined(kinds: Sequence[Kind], own: Sequence[Kind]) -> tuple[Kind, ...]:
    """These kinds and the user's own, none of which may have the name of another."""
    every = (*kinds, *(each for each in own if each not in kinds))
    names = [each.name for each in every]
    for each in own:
        if names.count(each.name) > 1:
            raise RegardError(
                f"KIND {each.name!r} of {each.config.__qualname__}: there is one of this name already"
            )
    return every


def kind_of(config: object, kinds: Sequence[Kind]) -> Kind:
    """The kind that a config is of."""
    found = next((each for each in kinds if type(config) is each.config), None)
    if found is None:
        raise RegardError(
            f"{type(config).__qualname__}: the config of no known kind; give its Kind with `kinds`"
        )
    return found


def check_choices(config: Any) -> None:
    """Raise if a field of a config is of another type than it says, or none of the few words that it may be."""
    for setting in fields(config):
        words = get_args(setting.type) if get_origin(setting.type) is Literal else ()
        given = getattr(config, setting.name)
        if words and not (isinstance(given, str) and given in words):
            raise RegardError(f"{setting.name}={told(given)}: one of {', '.join(map(repr, words))}")
        if not words and not _fits(given, setting.type):
            raise RegardError(f"{setting.name}={told(given)}: give {_named(setting.type)}")


Config = TypeVar("Config")


def configured(config: Any, kind: type[Config]) -> Config:
    """The config of a model, if it is one of its kind."""
    if isinstance(config, kind):
        return config
    raise RegardError(f"config={told(config)}: give a {kind.__name__}(…)")


def _fits(given: Any, kind: Any) -> bool:
    if get_origin(kind) is UnionType:
        return any(_fits(given, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        sized = isinstance(given, tuple | list) and (inner[-1] is ... or len(given) == len(inner))
        return sized and all(_fits(each, inner[0]) for each in given)
    if kind is float:
        return isinstance(given, int | float) and not isinstance(given, bool)
    if kind is int:
        return isinstance(given, int) and not isinstance(given, bool)
    return not isinstance(kind, type) or isinstance(given, kind)


def _named(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "a word", NoneType: "None"}
    if get_origin(kind) is UnionType:
        return " or ".join(map(_named, get_args(kind)))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        return "whole numbers in a tuple" if inner[-1] is ... else f"{len(inner)} whole numbers in a tuple"
    return names.get(kind, str(kind))


def check_vocabulary(name: str, size: int) -> int:
    """The size of a vocabulary, which must be known by the time a model is built."""
    if not _fits(size, int) or size < 1:
        raise RegardError(f"{name}={size}: a model is built for a vocabulary of known size, its tokenizer's")
    return size
