"""A kind of model, as plain data: what the rooms above need to train, load, use and explore models of this kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Literal, get_args

from torch import nn

from regard.errors import RegardError

Input = Literal["text", "picture", "sound", "digits"]
Task = Literal["translation", "language", "classification", "description", "digit-match", "counting"]
Verb = Literal["translate", "generate", "classify", "caption", "transcribe", "score"]
View = Literal["translation", "continuation", "text-class", "media-class", "pair-class", "description"]
Picture = Literal["counting", "spoken-place"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of model. Names are interpreted above: the task by runs/, the verbs by cli/, the view by the explorer,
    the pictures by sight/.

    The task fills in what only the data tell, so the config has these fields: `vocabulary` for texts (translation:
    `source_vocabulary` and `target_vocabulary`; description: `target_vocabulary`), `classes` for classes, `image_size`
    and `channels` for pictures, `rate` for sounds.
    """

    config: type  # a frozen dataclass with defaults; its class attribute KIND is the name in recipes
    model: Callable[[Any], nn.Module]  # from a config
    reads: tuple[Input, ...]  # what goes in; a config with an attribute `reads` may say otherwise
    gives: Literal["text", "class"]  # what comes out
    task: Task  # how it is trained and evaluated
    verbs: tuple[Verb, ...] = ()  # of the command line and of `regard.load`; the first is what it is for
    view: View | None = None  # of the explorer; None: no attention to explore
    # Of where the model looks, left in the run folder by a training: kind of the data → picture. "counting" is of a model
    # with `weights` and `values` of a row of digits, "spoken-place" of one with the parts of a `Fusion`.
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    hub: str = "other"  # the task as model hubs call it
    presets: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # configs by name
    # Settings of its size, from small to large: what a plan of its training chooses from. None: its size is not planned.
    sizes: tuple[Mapping[str, int], ...] = ()
    packs: bool = False  # reads texts end to end in one row (training.packing)
    name: str = field(init=False)  # as in `model.kind` of a recipe

    @property
    def unit(self) -> Literal["tokens", "samples"]:
        """What an update of its training counts."""
        return "tokens" if self.gives == "text" else "samples"

    def __post_init__(self) -> None:
        if not is_dataclass(self.config) or not isinstance(getattr(self.config, "KIND", None), str):
            raise RegardError(
                f"{self.config!r} is no config: give a frozen dataclass with `KIND: ClassVar[str]`, the name of the kind"
            )
        object.__setattr__(self, "name", self.config.KIND)  # type: ignore[attr-defined]
        for each in self.pictures.values():
            if each not in get_args(Picture):
                there = ", ".join(get_args(Picture))
                raise RegardError(f"pictures of kind {self.name}: {each!r} is none of {there}")
