"""A picture as a sequence: cut into patches, and what the class token of a trained Vision Transformer looks at."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from regard.data.batches import Images
from regard.data.digits import digit_split, digits
from regard.data.media_feeds import HeldPictures, MediaLabelFeed
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.figures.landscape import landscape
from regard.figures.short_training import check_options, learn
from regard.layers.patches import Patches
from regard.models.vision import Vision, pico
from regard.runs.settings import DigitData, Training
from regard.sight.pictures.bars import Bar, Bars
from regard.sight.pictures.drawable import photo
from regard.sight.pictures.overlay import overlay
from regard.sight.pictures.pixel_image import PixelImage, pixel_image
from regard.sight.pictures.scene import Panels, PictureGrid
from regard.sight.watch import watch

SIDE, CHANNELS = 224, 3
GRID = 4  # rows and columns of patches of a digit: 8 × 8 pixels at 2 × 2
ERASED = 4  # patches of a digit that are painted over
MOST_SHOWN = 6
_PAPER, _INK = np.array([255, 224, 130]), np.array([0, 70, 150])
_NOTE = "where the class token looks in the last block; numbers: its largest weight on a patch"
_BATCH, _GAP = 96, 3  # digits of an update; pixels between patches


@dataclass(frozen=True, kw_only=True, eq=False)
class _Looked:
    """Held-out digits, the probabilities of their classes, and how the class token looks at them."""

    pixels: Float[Tensor, "n 1 8 8"]
    labels: Tensor
    likely: Float[Tensor, "n classes"]
    weights: Float[Tensor, "n heads tokens"]  # of the class token in the last block: itself, then the patches


def patches(
    *,
    seed: Annotated[int, "Draws the first weights and the order of the digits."] = 0,
    image: Annotated[str | None, "A picture of your own to cut up, in place of the drawn one."] = None,
    patch: Annotated[int, "Pixels along a side of a patch; divides 224."] = 16,
    shown: Annotated[str, "Which digits are shown with the attention over them, such as 047."] = "047",
    steps: Annotated[int, f"Updates of the Vision Transformer, of {_BATCH} digits."] = 400,
    progress: Progress = silent,
) -> FigureResult:
    """224 × 224 pixels at 16 are 196 patches of 768 numbers; a small Vision Transformer, and where its class token looks."""
    check_options(seed=seed, steps=steps)
    chosen = _digits_of(shown)
    pixels = _pixels(image)
    cut = cut_up(pixels, patch)
    model = _trained(seed, steps, progress)
    looked = _looked(model)
    accuracy = _erased(model, looked, seed)
    seen = [_typical(looked, digit) for digit in chosen]
    mean = looked.weights.mean(1)
    inked = _inked(looked)
    tokens, features = cut.shape
    rows = SIDE // patch
    return FigureResult(
        name="patches",
        picture=Panels(
            title="A picture as a sequence of patches",
            parts=[
                PictureGrid(rows=[_cut_pictures(pixels, cut, rows)]),
                *(_over(looked, number) for number in seen),
                _bars(accuracy, len(looked.labels)),
            ],
        ),
        numbers={
            "seed": seed, "steps": steps, "patch": patch,
            "picture": [SIDE, SIDE, CHANNELS], "patches": [tokens, features],
            "parameters of the projection to 768": sum(each.numel() for each in Patches(768, patch=(patch, patch)).parameters()),
            "held-out digits": len(looked.labels),
            "share right": accuracy,
            "weight of the class token on patches with ink": round(float((mean[:, 1:] * inked).sum(1).mean()), 6),
            "share of patches with ink": round(float(inked.double().mean()), 6),
            "weight of the class token on itself": round(float(mean[:, 0].mean()), 6),
            "digits": [
                {
                    "digit": int(looked.labels[number]),
                    "answer": int(looked.likely[number].argmax()),
                    "probability": round(float(looked.likely[number].max()), 6),
                    "weights": [[round(weight, 6) for weight in head] for head in looked.weights[number].tolist()],
                }
                for number in seen
            ],
        },
        see=(
            f"{SIDE} × {SIDE} pixels of {CHANNELS} colours at {patch} are {rows} × {rows} = {tokens} patches of {patch}·{patch}·{CHANNELS} = {features} "
            "numbers: a sequence like any other.",
            f"A Vision Transformer of {steps} updates is right on {accuracy['as they are']:.1%} of {len(looked.labels)} held-out digits; its class token "
            f"has {float((mean[:, 1:] * inked).sum(1).mean()):.0%} of its weight on patches with ink, which are {float(inked.double().mean()):.0%} of all.",
            f"Without the {ERASED} patches it looks at most {accuracy['without those looked at most']:.0%} are right, without {ERASED} at random "
            f"{accuracy['without some at random']:.0%}, without the {ERASED} with most ink {accuracy['without those with most ink']:.0%}.",
        ),
    )  # fmt: skip


def cut_up(pixels: NDArray[np.uint8], patch: int) -> NDArray[np.uint8]:
    """The patches of a picture [height, width, channels], row by row, each flattened as `Patches` does (Dosovitskiy 2021, eq. 1)."""
    height, width, channels = pixels.shape
    rows, columns = Patches(1, channels=channels, patch=(patch, patch)).grid(height, width)
    return rearrange(pixels, "(r p) (s q) c -> (r s) (c p q)", r=rows, s=columns)


def _digits_of(shown: str) -> list[int]:
    found = [int(digit) for digit in shown if digit in "0123456789"]
    if not 1 <= len(found) <= MOST_SHOWN or len(found) != len(shown.replace(" ", "").replace(",", "")):
        raise RegardError(f"--shown {shown!r}: from 1 to {MOST_SHOWN} digits, such as 047")
    return found


def _pixels(image: str | None) -> NDArray[np.uint8]:
    if image is None:
        return np.asarray(landscape(SIDE))
    return np.asarray(ImageOps.fit(Image.fromarray(photo(image)), (SIDE, SIDE)))


def _trained(seed: int, steps: int, progress: Progress) -> Any:
    pixels, labels = digits()
    some = torch.tensor(digit_split().all_but_test)
    feed = MediaLabelFeed(
        HeldPictures(pixels[some]), labels[some].tolist(), rows=_BATCH, seed=seed, jitter=DigitData().jitter
    )
    settings = Training(
        steps=steps,
        learning_rate=3e-3,
        schedule="cosine",
        warmup=min(40, steps),
        weight_decay=0.05,
        save=steps,
    )
    config = replace(pico(), depth=2)
    return learn(lambda: Vision(config), feed, settings, seed=seed, name="digits", progress=progress)[0]


def _looked(model: Any) -> _Looked:
    pixels, labels = digits()
    held_out = torch.tensor(digit_split().test)
    with torch.no_grad(), watch(model) as seen:
        likely = model.predict(Images(pixels[held_out])).exp()
    weights = seen[-1].weights()[:, :, 0]
    return _Looked(pixels=pixels[held_out], labels=labels[held_out], likely=likely, weights=weights)


def _inked(looked: _Looked) -> Tensor:
    """Which patches have ink, a quarter of it or more on average."""
    return _ink(looked) >= 0.25


def _ink(looked: _Looked) -> Float[Tensor, "n patches"]:
    """How dark each patch is, from 0 to 1."""
    return rearrange(looked.pixels, "n 1 (r p) (s q) -> n (r s) (p q)", r=GRID, s=GRID).mean(-1)


def _erased(model: Any, looked: _Looked, seed: int) -> dict[str, float]:
    """The accuracy on held-out digits, as they are and with some patches painted over in paper."""
    order = looked.weights.mean(1)[:, 1:].argsort(1)
    random = torch.rand(order.shape, generator=torch.Generator().manual_seed(seed)).argsort(1)
    ways = {
        "as they are": order[:, :0],
        "without those looked at least": order[:, :ERASED],
        "without some at random": random[:, :ERASED],
        "without those with most ink": _ink(looked).argsort(1)[:, -ERASED:],
        "without those looked at most": order[:, -ERASED:],
    }
    found = {}
    for name, gone in ways.items():
        kept = torch.ones(order.shape).scatter(1, gone, 0.0)
        kept = rearrange(kept, "n (r s) -> n 1 r s", r=GRID).repeat_interleave(2, 2).repeat_interleave(2, 3)
        with torch.no_grad():
            answers = model.predict(Images(looked.pixels * kept)).argmax(-1)
        found[name] = round(float((answers == looked.labels).double().mean()), 6)
    return found


def _typical(looked: _Looked, digit: int) -> int:
    """The number of a digit of this class, the one most like the others."""
    some = (looked.labels == digit).nonzero().flatten()
    pixels = looked.pixels[some].double()
    return int(some[(pixels - pixels.mean(0)).square().sum((1, 2, 3)).argmin()])


def _cut_pictures(pixels: NDArray[np.uint8], cut: NDArray[np.uint8], rows: int) -> list[PixelImage]:
    patch = SIDE // rows
    apart = np.full((rows, patch + _GAP, rows, patch + _GAP, CHANNELS), 255, np.uint8)
    apart[:, :patch, :, :patch] = rearrange(cut, "(r s) (c p q) -> r p s q c", r=rows, p=patch, c=CHANNELS)
    laid = rearrange(apart, "r p s q c -> (r p) (s q) c")[:-_GAP, :-_GAP]
    tokens, features = cut.shape
    return [
        pixel_image(pixels, width=SIDE, title=f"{SIDE} × {SIDE} × {CHANNELS}", note="pixels"),
        pixel_image(laid, width=laid.shape[1] / laid.shape[0] * 263, title=f"{rows} × {rows} patches", note=f"of {patch} × {patch} × {CHANNELS}"),
        pixel_image(cut, width=400, title=f"{tokens} × {features}", note="a row a patch: red, then green, then blue"),
    ]  # fmt: skip


def _over(looked: _Looked, number: int) -> PictureGrid:
    weights = looked.weights[number]
    answer = looked.likely[number]
    heads = [f"head {head + 1}" for head in range(len(weights))]
    lit = overlay(
        _coloured(looked.pixels[number, 0]),
        torch.cat([weights, weights.mean(0, keepdim=True)]),
        words=[*heads, "mean"],
        grid=(GRID, GRID),
        special=1,
        smooth=False,
    )
    title = (
        f"A {int(looked.labels[number])}, taken for a {int(answer.argmax())} with {float(answer.max()):.1%}"
    )
    return PictureGrid(rows=[[lit]], title=title, note=_NOTE)


def _coloured(ink: Float[Tensor, "8 8"]) -> NDArray[np.uint8]:
    """Blue ink on yellow paper: so that ink differs from patches that are darkened because they are not looked at."""
    share = ink.double().numpy()[..., None]
    return np.rint(_PAPER * (1 - share) + _INK * share).astype(np.uint8)


def _bars(accuracy: dict[str, float], count: int) -> Bars:
    bars = [Bar(name=name, amount=share, said=f"{share:.1%}") for name, share in accuracy.items()]
    heading = f"Right of {count} held-out digits, {ERASED} of {GRID * GRID} patches painted over"
    return Bars(groups=[(heading, bars)], title="Does it matter where it looks?")
