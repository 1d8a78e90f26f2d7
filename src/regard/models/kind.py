"""A kind of model, as plain data: what the rooms above need to train, load, use and explore models of this kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal

from torch import nn

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
