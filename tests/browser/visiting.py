"""A page that is open in a browser."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Visit:
    """A page, and what went wrong on it."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def said(self) -> str:
        """What the page says about what is pointed at or chosen."""
        return str(self.page.locator("footer .said").inner_text())

    def until_said(self, part: str) -> str:
        """Wait until it says this."""
        self.page.locator("footer .said", has_text=part).wait_for()
        return self.said()

    def until_exact(self) -> None:
        """Wait until the map is as exact as it gets: a file holds half precision, or 256 levels."""
        best = re.compile("exact|half precision|256 levels")
        self.page.get_by_role("status").filter(has_text=best).filter(has_not_text="follows").wait_for()

    def state(self) -> dict[str, str]:
        """The view, as the address has it."""
        fragment = self.page.evaluate("location.hash.slice(1)")
        return dict(part.split("=", 1) for part in fragment.split("&"))

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something. (The page forbids the `eval` that the driver's own way of waiting needs.)"""
        for _ in range(6000):
            if happened():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError("it did not happen in ten minutes")

    def settle(self) -> None:
        """Let two frames be drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
