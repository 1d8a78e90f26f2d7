"""Does the reader look at the digit it is saying? Measured on runs of `regard train read-digits`.

    python benchmarks/reading.py runs/reader-1 runs/reader-2 runs/reader-3

Every test strip is read out by the reference (forced, so that a misread digit counts too). For each word of the number
the grammar says which digit or digits it renders; the word is right if the heaviest patch of its cross-attention, heads
averaged in one layer, lies inside one of them. The layer is the best one on the validation strips.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
from measuring import machine

from regard.data.batches import END, Images, Pairs, Sequences
from regard.data.digits import SIDE, digit_split
from regard.data.reader import MAX_DIGITS, Hand, spoken
from regard.data.text_lines import Report
from regard.runs.answering import ImageCaptioner
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.tasks.description import splits_of
from regard.sight.media_pictures import picture_of_words
from regard.sight.watch import watch

GROUPS = {  # by the last two digits of the group of three that the word belongs to
    "70 … 79": range(70, 80),
    "90 … 99": range(90, 100),
}


def looks(reader: ImageCaptioner, run: Path, split: str) -> dict[int, list[tuple[int, int, bool]]]:
    """For each decoder block: (number, place of the word, whether its heaviest patch lies in the right digit)."""
    questions = splits_of(RunFolder(run).load_recipe(), Report())[split].questions()
    columns = getattr(reader.model.encoder, "tokens", reader.model.encoder).size[1]
    found: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for asked in questions:
        images = asked.source
        if not isinstance(images, Images):
            raise TypeError("strips are pictures")
        targets = [[*reader.tokenizer.encode(text), END] for text in asked.texts]
        with (
            torch.no_grad(),
            watch(reader.model, layers=lambda name: name.endswith(".cross") or name == "attention") as seen,
        ):
            reader.model.logits(Pairs(images, Sequences.of(targets)).to(reader.device))
        for layer, name in enumerate(seen.names):
            weights = seen.stitched(name).weights().double().mean(1).cpu()  # over heads
            for row, (number, tokens) in enumerate(zip(map(int, asked.names), targets, strict=True)):
                for place, (digits, pieces) in enumerate(words(reader, number, tokens[:-1])):
                    heaviest = int(weights[row, pieces].mean(0).argmax())
                    place_value = (
                        MAX_DIGITS - 1 - heaviest % columns * (images.pixels.shape[-1] // columns) // SIDE
                    )
                    digit = len(str(number)) - 1 - place_value
                    found[layer].append((number, place, digit in digits))
    return found


def words(reader: ImageCaptioner, number: int, tokens: list[int]) -> list[tuple[tuple[int, ...], list[int]]]:
    """The words of a number: the digits each renders, and the tokens whose first letter is in it; hyphens are in none."""
    firsts, before = [], ""
    for count in range(1, len(tokens) + 1):
        text = reader.tokenizer.decode(tokens[:count])
        piece, before, length = text[len(before) :], text, len(before)
        firsts.append(length + len(piece) - len(piece.lstrip()))
    return [
        (each.digits, [n for n, first in enumerate(firsts) if 0 <= first - each.start < len(each.word)])
        for each in spoken(number)
    ]


def share(found: list[tuple[int, int, bool]]) -> float:
    """The share of words that are right."""
    return sum(right for _, _, right in found) / max(1, len(found))


def report(run: Path) -> dict[str, object]:
    """What one run comes to."""
    reader = load(run, device="cpu")
    assert isinstance(reader, ImageCaptioner)
    valid, test = looks(reader, run, "valid"), looks(reader, run, "test")
    layer = max(valid, key=lambda each: share(valid[each]))
    groups = {
        name: share([each for each in test[layer] if any(each[0] // 1000**n % 100 in tens for n in (0, 1))])
        for name, tens in GROUPS.items()
    }
    exact = next(m["value"] for m in json.loads((run / "metrics.json").read_text()) if m["name"] == "exact")
    return {
        "run": run.name,
        "exact": exact,
        "layer": layer,
        "validation": share(valid[layer]),
        "test": share(test[layer]),
        "layers on test": [share(test[each]) for each in sorted(test)],
        **groups,
        "words": len(test[layer]),
    }


def draw(run: Path, path: Path) -> None:
    """Where each word looked, for a test strip with a seventy or a ninety at its end."""
    strips = Hand(digit_split().test).strips(range(100), seed=0)
    chosen = next(
        n for n, number in enumerate(strips.numbers) if number > 99_999 and number % 100 // 10 in (7, 9)
    )
    reader = load(run, device="cpu")
    assert isinstance(reader, ImageCaptioner)
    picture_of_words(reader, strips.pixels[chosen], title=reader.caption([strips.pixels[chosen]])[0]).png(
        path
    )


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="folder for reader-looks.json and .md")
    options = parser.parse_args()
    found = [report(run) for run in options.runs]
    names = ["run", "exact", "layer", "validation", "test", *GROUPS]
    lines = [
        "# The reader looks at the digit it says",
        "",
        "Made by `python benchmarks/reading.py` over the runs of `experiments.py reader`; on the CPU, forced to the "
        f"reference. {'; '.join(f'{k}: {v}' for k, v in machine().items())}.",
        "",
        "Of the words of the test strips, the share whose heaviest patch (heads averaged, in the decoder block that was "
        "best on validation strips) lies inside a digit that the word renders; and of the words of numbers with such "
        "tens or thousands' tens.",
        "",
        "| run | strips read exactly | decoder block | on validation | **on test** | "
        + " | ".join(GROUPS)
        + " |",
        "|---|---:|---:|---:|---:|" + "---:|" * len(GROUPS),
    ]
    for row in found:
        cells = [f"{row[n]:.1%}" if isinstance(row[n], float) else str(row[n]) for n in names]
        lines.append("| " + " | ".join(cells) + " |")
    means = [sum(row[name] for row in found) / len(found) for name in ("validation", "test", *GROUPS)]  # type: ignore[misc]
    lines.append("| **mean** | | | " + " | ".join(f"{mean:.1%}" for mean in means) + " |")
    lines += ["", "![Where the words of a test strip look](reader-looks.png)"]
    print("\n".join(lines))
    print(json.dumps(found, indent=1))
    if options.out:
        (options.out / "reader-looks.md").write_text("\n".join(lines) + "\n")
        (options.out / "reader-looks.json").write_text(json.dumps(found, indent=1) + "\n")
        draw(options.runs[0], options.out / "reader-looks.png")


if __name__ == "__main__":
    main()
