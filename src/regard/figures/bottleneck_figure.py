"""What attention is for: exact translations of numbers against their length, at equal parameters."""

from typing import Annotated, Any

from regard.data.numbers import draw_numbers, english, french
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.figures.number_translators import NumberTranslator, number_translator
from regard.figures.short_training import check_options
from regard.sight.pictures.chart import Chart, Series

LARGEST = 999_999_999
ASKED = 900  # numbers that are in no training
WITHOUT, WITH, TRANSFORMER = "without attention", "with attention", "Transformer"
_RECURRENT = "model.embedding_width=32"
MODELS = {
    WITHOUT: ("numbers-recurrent", ["model.attention=none", "model.width=64", _RECURRENT]),
    WITH: ("numbers-recurrent", ["model.attention=additive", "model.width=56", _RECURRENT]),
    TRANSFORMER: (
        "numbers",
        [
            "model.width=44",
            "model.heads=4",
            "model.depth=1",
            "model.decoder_depth=1",
            "model.hidden_width=132",
        ],
    ),
}


def bottleneck(
    *,
    seed: Annotated[int, "Draws the first weights and all numbers."] = 1,
    steps: Annotated[int, "Updates of each model, of 1,024 words."] = 800,
    progress: Progress = silent,
) -> FigureResult:
    """Exact translations of numbers over their length: without attention, with it, and by a Transformer."""
    check_options(seed=seed, steps=steps)
    asked = draw_numbers(ASKED, seed=seed, part="test", largest=LARGEST)
    found = {
        name: number_translator(
            name, recipe, settings, largest=LARGEST, seed=seed, steps=steps, progress=progress
        )
        for name, (recipe, settings) in MODELS.items()
    }
    shares = {name: _by_digits(each, asked) for name, each in found.items()}
    longest = max(shares[WITHOUT])
    sizes = [each.parameters for each in found.values()]
    picture = Chart(
        title="The bottleneck",
        note=f"numbers in words, English to French, never trained on; recurrent translators and a Transformer of "
        f"about {round(sum(sizes) / len(sizes), -3):,.0f} parameters, {steps:,} updates",
        x="digits of the number",
        y="translated exactly",
        percent=True,
        series=[Series(name=name, points=[*each.items()]) for name, each in shares.items()],
    )
    told = {name: f"{100 * each[longest]:.0f} %" for name, each in shares.items()}
    return FigureResult(
        name="bottleneck",
        picture=picture,
        numbers={
            "seed": seed,
            "steps": steps,
            "numbers asked, by digits": _counts(asked),
            **{
                name: {
                    "parameters": each.parameters,
                    "translated exactly, by digits": {
                        str(digits): round(share, 6) for digits, share in shares[name].items()
                    },
                    "loss": [float(f"{loss:.4g}") for _, loss in each.losses],
                }
                for name, each in found.items()
            },
        },
        see=(
            f"Of numbers with {longest} digits, {told[WITHOUT]} are right without attention, {told[WITH]} with it, and "
            f"{told[TRANSFORMER]} by the Transformer.",
            _example(found, asked),
            "Without attention a number passes through one vector of 64 numbers, however long it is.",
        ),
    )


def _by_digits(model: NumberTranslator, numbers: list[int]) -> dict[int, float]:
    """The share that is translated exactly, by the number of digits."""
    found: dict[int, list[bool]] = {}
    for number, right in zip(numbers, model.right(numbers), strict=True):
        found.setdefault(len(str(number)), []).append(right)
    return {digits: sum(each) / len(each) for digits, each in sorted(found.items())}


def _counts(numbers: list[int]) -> dict[str, int]:
    lengths = [len(str(number)) for number in numbers]
    return {str(digits): lengths.count(digits) for digits in sorted({*lengths})}


def _example(found: dict[str, NumberTranslator], numbers: list[int]) -> str:
    """A long number that attention gets right and the bottleneck does not, if there is one."""
    long = [number for number in numbers if number > LARGEST // 10]
    without, with_ = (found[name].right(long) for name in (WITHOUT, WITH))
    for number, wrong, right in zip(long, without, with_, strict=True):
        if right and not wrong:
            answer: Any = found[WITHOUT].translator.translate([english(number)], beam=1)[0]
            return f"Without attention {number:,} becomes “{answer}”; right is “{french(number)}”."
    return "No number of nine digits is right with attention and wrong without it."
