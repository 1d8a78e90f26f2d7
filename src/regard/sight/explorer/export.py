"""The explorer as one file: the page, and everything it may ask, compressed inside it."""

from collections.abc import Sequence
from os import PathLike

from regard.data.atomic import write_atomically
from regard.sight.explorer.answers import PageAnswers
from regard.sight.explorer.built import filled
from regard.sight.explorer.embedded_layers import embedded
from regard.sight.explorer.exhibit import Exhibit, Picture
from regard.sight.explorer.hall import Hall
from regard.sight.explorer.packs import squeezed


def export(exhibits: Sequence[Exhibit], path: str | PathLike[str], *, title: str = "regard") -> None:
    """Write the explorer of some exhibits to an HTML file."""
    write_atomically(path, exported(exhibits, title=title))


def exported(exhibits: Sequence[Exhibit], *, title: str = "regard") -> str:
    """The file as text."""
    hall = Hall(exhibits, title=title)
    manifest, answers = hall.manifest() | {"mode": "exported"}, PageAnswers(hall)
    packs: dict[str, bytes] = {}
    for number, exhibit in enumerate(exhibits):
        told = manifest["exhibits"][number]
        told["can"] = {"touch": False, "input": [], "importance": False}  # a file has no model
        for place, panel in enumerate(exhibit.panels):
            forms = []
            for entry in range(len(exhibit.entries)):
                form = embedded(panel.call(entry), cross=panel.cross)
                packs[f"layer/{number}/{place}/{entry}"] = form.data
                forms.append(form)
            told["layers"][place]["form"] = [{"kind": form.kind, "why": form.why} for form in forms]
        for place, side in enumerate(exhibit.sides):
            if isinstance(side, Picture):
                for entry in range(len(exhibit.entries)):
                    packs[f"media/{number}/{place}/{entry}"] = squeezed(
                        answers.media(number, place, entry), level=6
                    )
    return filled(manifest, packs)
