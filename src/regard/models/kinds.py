"""All kinds of models that come with the library. A kind of your own is given beside them: `load(run, kinds=[KIND])`."""

from collections.abc import Sequence

from regard.errors import RegardError
from regard.models import (
    captioner,
    classifier,
    convolution,
    counter,
    fusion,
    hearing,
    language,
    recurrent,
    transcriber,
    transformer,
    vision,
)
from regard.models.kind import Kind

KINDS: tuple[Kind, ...] = (
    transformer.KIND,
    recurrent.KIND,
    language.KIND,
    classifier.KIND,
    counter.KIND,
    vision.KIND,
    convolution.KIND,
    captioner.KIND,
    captioner.RECURRENT_KIND,
    hearing.KIND,
    transcriber.KIND,
    fusion.KIND,
)


def known(own: Sequence[Kind]) -> tuple[Kind, ...]:
    """The kinds of the library and these, none of which may have the name of another."""
    kinds = (*KINDS, *(each for each in own if each not in KINDS))
    names = [each.name for each in kinds]
    for each in own:
        if names.count(each.name) > 1:
            raise RegardError(
                f"KIND {each.name!r} of {each.config.__qualname__}: there is one of this name already"
            )
    return kinds


def kind_of(config: object, kinds: Sequence[Kind] = KINDS) -> Kind:
    """The kind that a config is of."""
    found = next((each for each in kinds if type(config) is each.config), None)
    if found is None:
        raise RegardError(
            f"{type(config).__qualname__}: the config of no known kind; give its Kind with `kinds`"
        )
    return found
