"""Changes that the page asks for, as interventions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.explorer.exhibit import Change
from regard.sight.interventions import Intervention, drop_heads, forbid, intervene, scale_head, uniform


@contextmanager
def changed(model: nn.Module, changes: Sequence[Change]) -> Iterator[None]:
    """The model with its attention changed, or as it is."""
    planned: dict[str, list[Intervention]] = {}
    for change in changes:
        planned.setdefault(change.layer, []).extend(_interventions(change))
    if not planned:
        yield
        return
    with intervene(model, planned):
        yield


def _interventions(change: Change) -> list[Intervention]:
    match change.kind:
        case "drop":
            return [drop_heads(*_some_heads(change))]
        case "scale":
            return [scale_head(head, change.factor) for head in _some_heads(change)]
        case "uniform":
            return [uniform(heads=change.heads)]
    return [Intervention(before=lambda call: _forbidden(call, change))]


def _some_heads(change: Change) -> tuple[int, ...]:
    if not change.heads:
        raise RegardError(f"{change.kind} in {change.layer}: name at least one head")
    return change.heads


def _forbidden(call: Call, change: Change) -> Call:
    """The pairs forbidden as far as they are there: a text that is still being written is shorter than it will be."""
    extent = call.extent
    queries = _inside(change.queries, extent.queries)
    keys = _inside(change.keys, extent.keys)
    if queries == [] or keys == []:
        return call
    return forbid(queries=queries, keys=keys, heads=change.heads).before(call)


def _inside(chosen: tuple[int, ...] | None, size: int) -> list[int] | None:
    return None if chosen is None else [each for each in chosen if each < size]
