"""A real browser, cut off from every network but this machine, that reports whatever a page does wrong."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.visiting import Visit

from regard.sight.explorer.example import Example

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 600_000  # milliseconds: a safety net, not a check; on a busy machine everything takes its time


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        if os.environ.get("REGARD_BROWSER") == "required":
            pytest.fail("no chromium is installed, and REGARD_BROWSER says that one is required")
        pytest.skip("no chromium is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visit]]:
    """Open an address; at the end nothing may have gone wrong on it, unless the test says it was meant to."""
    visits: list[Visit] = []

    def opened(url: str, *, width: int = 1280, height: int = 800, **options: Any) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **options
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        made = Visit(page)
        visits.append(made)
        here = url.split("/#")[0].split("#")[0]

        def guard(route: Any) -> None:
            if route.request.url.startswith((here, "blob:", "data:")):
                route.continue_()
            else:
                made.wrong.append(f"asked for {route.request.url}")
                route.abort()

        context.route("**/*", guard)
        page.on("pageerror", lambda error: made.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (made.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on(
            "console",
            lambda message: (
                made.wrong.append(f"console: {message.text}") if message.type == "error" else None
            ),
        )
        page.goto(url)
        page.get_by_role("tablist").wait_for()
        return made

    yield opened
    wrong = [each for made in visits for each in made.wrong]
    for made in visits:
        made.page.context.close()
    assert not wrong, wrong


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Serve examples; the address with a view chosen."""
    serving = pytest.importorskip("regard.sight.explorer.serving")
    showings: list[Any] = []

    def address(*examples: Example, at: str = "") -> str:
        showings.append(serving.serve(examples, browser=False))
        return showings[-1].url + (f"&{at}" if at else "")

    yield address
    for showing in showings:
        showing.close()


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., str]:
    """Export examples to a file; its address with a view chosen."""
    from regard.sight.explorer.export import export

    def address(*examples: Example, at: str = "") -> str:
        path = tmp_path / "page.html"
        export(examples, path)
        return path.as_uri() + (f"#{at}" if at else "")

    return address
