"""`regard gallery`: attention itself, over one sentence, under each score and each mask."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from regard.sight.pictures.gallery import GalleryMap

EXAMPLES = """
regard gallery
regard gallery --sentence "she sells sea shells by the sea shore"
regard gallery --out my-pictures
"""
SENTENCE = "who watches the watchmen while the watchmen watch the watch"
_MOST = 120  # words: beyond, the pictures cannot be read
_BLOCK = 39  # columns that a small map and its words need


def gallery(
    sentence: Annotated[str, typer.Option(help="The words that look at one another.")] = SENTENCE,
    out: Annotated[Path, typer.Option(help="The folder the pictures are written to.", file_okay=True)] = Path(
        "pictures"
    ),
) -> None:
    """See attention: a sentence under every score and every mask, in the terminal and as PNG."""
    from rich.console import Console

    from regard.data.file_access import writable_folder

    words = _words(sentence)
    writable_folder(out)  # or refuse before anything is computed
    console = Console(highlight=False, markup=False)
    _introduce(console)
    show(console, words, out)


def show(console: "Console", words: list[str], out: Path) -> None:
    """Compute, print and write everything. What is heavy is imported here, after the first lines are on the screen."""
    from regard.attention.explain import explain
    from regard.sight.pictures.gallery import mask_maps, masks_over, score_maps
    from regard.sight.pictures.heatmap import heatmap, sheet
    from regard.sight.pictures.scene import plain

    scores, masks = score_maps(words), mask_maps(words)
    scaled = scores[1].picture
    note = "softmax(qᵀk / √d): each row is a word, and shows what it looks at"
    large = heatmap(scaled.weights, words, words, title=plain(" ".join(words), 60), note=note)

    console.print(large.terminal())
    _heading(console, "Six scores", "how well a key answers a query")
    _blocks(console, scores)
    _heading(console, "Eight masks", "who may look at whom (grey or ·: may not)")
    _blocks(console, masks)
    _heading(console, "The masks alone", "print(mask.picture(6, 6)): ■ query i may look at key j")
    _mask_pictures(
        console, [(name, mask.picture(6, 6)) for name, _, _, mask in masks_over(6) if mask is not None]
    )
    _heading(console, "What the library does with the last of these calls", "print(regard.explain(call))")
    console.print(str(explain(masks[-1].call)), soft_wrap=True)

    large.png(out / "attention.png")
    sheet([[each.picture for each in row] for row in (scores[:3], scores[3:])]).png(out / "scores.png")
    sheet([[each.picture for each in row] for row in (masks[:4], masks[4:])]).png(out / "masks.png")
    _heading(console, "Written", "the same, to look at closely")
    for name, what in (
        ("attention", "one map, large"),
        ("scores", "the six scores"),
        ("masks", "the eight masks"),
    ):
        console.print(f"{out / name}.png  {what}", soft_wrap=True)
    _heading(console, "What to try next")
    for line in NEXT:
        console.print(line, soft_wrap=True)


NEXT = (
    'regard gallery --sentence "she sells sea shells by the sea shore"',
    "python -c 'import regard; print((regard.causal() & regard.window(3)).picture(9, 9))'",
    "python -c 'import regard, torch; x = torch.randn(4, 8); print(regard.weigh(x, x, regard.causal()))'",
)


def _words(sentence: str) -> list[str]:
    from regard.errors import RegardError

    words = sentence.split()
    if not words:
        raise RegardError(f"--sentence {sentence!r} has no words: give at least one")
    if len(words) > _MOST:
        raise RegardError(
            f"--sentence has {len(words)} words, and the gallery shows at most {_MOST}: give fewer"
        )
    return words


def _introduce(console: "Console") -> None:
    from rich.text import Text

    from regard import __version__

    console.print(
        Text.assemble(("regard", "bold"), (f" {__version__} · attention models you can see", "dim"))
    )
    console.print()
    console.print(
        "Each word looks at the words of its own sentence and finds those spelled like it. Nothing here is "
        "trained: the vector of a word only counts its pieces of two and three letters."
    )
    console.print()


def _heading(console: "Console", title: str, rest: str = "") -> None:
    from rich.text import Text

    console.print()
    console.print(Text.assemble((title, "bold"), (f"  {rest}" if rest else "", "dim")))
    console.print()


def _blocks(console: "Console", maps: "list[GalleryMap]") -> None:
    """Small maps, as many side by side as fit, each with its name, equation and meaning to its right."""
    from rich.table import Table
    from rich.text import Text

    across = max(1, min(4, (console.width + 2) // _BLOCK))
    table = Table.grid(padding=(0, 2, 0, 0))
    width = min(console.width, 2 * _BLOCK if across == 1 else console.width // across)
    for _ in range(across):
        table.add_column(width=width - 2)
    cells: list[RenderableType] = []
    for each in maps:
        about = Text.assemble((each.name, "bold"), "\n", each.equation, "\n", (each.meaning, "dim"))
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_row(each.picture.terminal(compact=True), about)
        cells.append(block)
    for start in range(0, len(cells), across):
        if start:
            table.add_row()
        table.add_row(*cells[start : start + across])
    console.print(table)


def _mask_pictures(console: "Console", pictures: list[tuple[str, str]]) -> None:
    from rich.columns import Columns

    console.print(Columns([f"{name}\n{drawing}\n" for name, drawing in pictures], padding=(0, 3)))
