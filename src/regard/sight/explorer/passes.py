"""Passes over whole heads, made once and kept while there is room."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from regard.attention.call import Call
from regard.sight.explorer.tiles import CHEAP, cost
from regard.sight.explorer.whole import Whole, whole_of

_KEPT = 1 << 26  # numbers: a quarter of a gigabyte


class Head(NamedTuple):
    """Which head of which exhibit."""

    exhibit: int
    layer: int
    entry: int
    head: int


class Passes:
    """What is known of heads, the last used kept longest."""

    def __init__(self) -> None:
        self._found: OrderedDict[Head, Whole] = OrderedDict()
        self._door, self._one = threading.Lock(), threading.Lock()

    def known(self, head: Head) -> Whole | None:
        """The pass over a head, if it was made."""
        with self._door:
            found = self._found.get(head)
            if found is not None:
                self._found.move_to_end(head)
            return found

    def whole(self, head: Head, call: Call) -> Whole:
        """The pass over a head. Long ones are made one after another: short questions find a core free."""
        if cost(call) <= CHEAP:
            return self.known(head) or self._keep(head, whole_of(call))
        with self._one:
            return self.known(head) or self._keep(head, whole_of(call))

    def forget(self, exhibit: int) -> None:
        """Let go of an exhibit's heads."""
        with self._door:
            for head in [head for head in self._found if head.exhibit == exhibit]:
                del self._found[head]

    def _keep(self, head: Head, found: Whole) -> Whole:
        with self._door:
            self._found[head] = found
            while len(self._found) > 1 and sum(each.size for each in self._found.values()) > _KEPT:
                self._found.popitem(last=False)
        return found
