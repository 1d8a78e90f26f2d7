"""What the tests of pictures share: text that means harm, a console, and the elements of a drawing."""

import io
from xml.etree import ElementTree

from rich.console import Console

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text><script>alert(1)</script>",
    '" onload="alert(1)',
    "&lt;b&gt;",
    "]]><!--",
    "\x00\x1b[31m",
    "\ud800",
    "[red]$x$",
]


def printed(renderable, *, width=80, system=None, **options):
    file = io.StringIO()
    console = Console(
        file=file, width=width, color_system=system, force_terminal=system is not None, **options
    )
    console.print(renderable)
    return file.getvalue()


def elements(markup):
    """Every element of a drawing with the names of its attributes: what must not depend on a text."""
    return [(each.tag, sorted(each.attrib)) for each in ElementTree.fromstring(markup).iter()]


def texts(markup):
    return [text.text or "" for text in ElementTree.fromstring(markup).iter(f"{SVG}text")]
