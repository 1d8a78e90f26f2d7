"""One number in words under the six scores of the recurrent translator, and how often each looks at the right word."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, SPECIAL
from regard.data.numbers import draw_numbers, english, french, number_links
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.figures.number_translators import NumberTranslator, number_translator
from regard.figures.short_training import check_options
from regard.sight.pictures.heatmap import Heatmap, heatmap, sheet
from regard.sight.watch import watch

SCORES = {
    "dot": "sᵀh",
    "scaled-dot": "sᵀh / √d",
    "cosine": "sᵀh / (‖s‖ ‖h‖ τ)",
    "bilinear": "sᵀWh",
    "low-rank": "(Us)ᵀ(Vh)",
    "additive": "vᵀ tanh(Wh + Vs)",
}
LARGEST = 999_999
ASKED = 400  # numbers that are in no training
_END = SPECIAL[END]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Looks:
    """What a translator under one score looks at."""

    model: NumberTranslator
    weights: Float[Tensor, "target source"]  # of the number that is shown, both ends included
    right: float  # share of target words whose largest weight is on a right word
    exact: float  # share of numbers that are translated exactly
    ends: float  # share of target words whose largest weight is on the end token


def alignment(
    *,
    seed: Annotated[int, "Draws the first weights and all numbers."] = 1,
    number: Annotated[int, "The number to translate, from 0 to 999,999."] = 271_430,
    steps: Annotated[int, "Updates under each score, of 1,024 words."] = 400,
    progress: Progress = silent,
) -> FigureResult:
    """A number in words, English to French, under the six scores of the recurrent translator."""
    check_options(seed=seed, steps=steps)
    if not 0 <= number <= LARGEST:
        raise RegardError(f"--number {number}: from 0 to {LARGEST:,}")
    asked = draw_numbers(ASKED, seed=seed, part="test", largest=LARGEST)
    found = {score: _looks(score, number, asked, seed, steps, progress) for score in SCORES}
    source, target = english(number), french(number)
    columns, rows = [*source.split(), _END], [*target.split(), _END]
    maps = [_map(score, looks, rows, columns) for score, looks in found.items()]
    words = sum(len(french(each).split()) for each in asked)
    best = max(found, key=lambda score: found[score].right)
    last = {score: columns[int(looks.weights[-1].argmax())] for score, looks in found.items()}
    ended = sum(word == _END for word in last.values())
    return FigureResult(
        name="alignment",
        picture=sheet([maps[:3], maps[3:]]),
        numbers={
            "seed": seed,
            "steps": steps,
            "number": number,
            "source": columns,
            "target": rows,
            "held-out numbers": len(asked),
            "words of them": words,
            **{
                score: {
                    "parameters": looks.model.parameters,
                    "largest weight on the right word": round(looks.right, 6),
                    "largest weight on the end token": round(looks.ends, 6),
                    "translated exactly": round(looks.exact, 6),
                    "weights": [[round(each, 6) for each in row] for row in looks.weights.tolist()],
                    "loss": [float(f"{loss:.4g}") for _, loss in looks.model.losses],
                }
                for score, looks in found.items()
            },
        },
        see=(
            f"Largest weight on the right word: {_list({score: looks.right for score, looks in found.items()})} "
            f"of {words:,} words in {len(asked)} held-out numbers; {best} most often.",
            f"Translated exactly: {_list({score: looks.exact for score, looks in found.items()})}. A score can look "
            "beside the right word and translate well: the states of the encoder carry their neighbours.",
            f"The last row is the end of the translation: it looks most at the end token under {ended} of 6 scores.",
        ),
    )


def _looks(score: str, number: int, asked: list[int], seed: int, steps: int, progress: Progress) -> _Looks:
    settings = [f"model.attention={score}", "model.width=64", "model.embedding_width=32"]
    model = number_translator(
        score, "numbers-recurrent", settings, largest=LARGEST, seed=seed, steps=steps, progress=progress
    )
    right = ends = words = 0
    for each, weights in zip(asked, _weights(model, asked), strict=True):
        for links, row in zip(number_links(each), weights, strict=False):  # the last row is of the end
            place = int(row.argmax())
            right, ends, words = right + (place in links), ends + (place == len(row) - 1), words + 1
    return _Looks(
        model=model,
        weights=_weights(model, [number])[0],
        right=right / words,
        exact=sum(model.right(asked)) / len(asked),
        ends=ends / words,
    )


def _weights(model: NumberTranslator, numbers: list[int]) -> list[Float[Tensor, "target source"]]:
    """Of each number, for every French word and the end, the weights on the English words and the end."""
    translator = model.translator
    pairs = translator.pairs([english(each) for each in numbers], [french(each) for each in numbers])
    with torch.no_grad(), watch(translator.model) as seen:
        translator.model.logits(pairs)
    every = seen.stitched("attention").weights()[:, 0]
    sizes = zip(pairs.target.lengths.tolist(), pairs.source.lengths.tolist(), strict=True)
    return [weights[:rows, :columns] for weights, (rows, columns) in zip(every, sizes, strict=True)]


def _map(score: str, looks: _Looks, rows: list[str], columns: list[str]) -> Heatmap:
    note = f"{SCORES[score]} · right word: {_percent(looks.right)}"
    return heatmap(looks.weights, rows, columns, title=score, note=note, top=1.0, aside=1)


def _list(shares: dict[str, float]) -> str:
    return ", ".join(f"{score} {_percent(share)}" for score, share in shares.items())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
