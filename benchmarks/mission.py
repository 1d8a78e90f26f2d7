"""Every idea that the teaching texts show, with the command that shows it here, its time and what came out.

    python benchmarks/mission.py                 # measures commands that are there and have not been measured
    python benchmarks/mission.py counter masks   # measures these again

Writes results/mission.md and results/mission.json. A figure that is not in `regard.figures.FIGURES`, and an item without
`found`, is "not yet".
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measuring import machine

from regard.figures import FIGURES

RESULTS = Path(__file__).parent / "results"
THREADS = 1  # on a crowded machine a second one only waits, and its waiting counts as CPU time
SECTIONS = ("1. Figures", "2. Parts", "3. Slips", "4. English to French with the install", "Shows")


@dataclass(frozen=True, kw_only=True)
class Item:
    """An idea or a part. Its `commands` are measured, one after another in one folder, unless `found` says what came out."""

    name: str
    section: int
    asked: str
    commands: tuple[str, ...] = ()
    found: str | None = None  # what came out, in Markdown; of a figure, what it prints

    @property
    def there(self) -> bool:
        """Whether it can be measured."""
        return self.name in FIGURES or self.found is not None


def figure(name: str, asked: str, section: int = 1) -> Item:
    """An item that is a figure."""
    return Item(name=name, section=section, asked=asked, commands=(f"regard figure {name}",))


ITEMS = (
    figure("counter", "more 4s than 2s among ten digits: the loss, the weights, the message"),
    Item(
        name="counter-run",
        section=1,
        asked="the counter trained by its recipe, asked and explored",
        commands=(
            "regard train counter",
            "regard evaluate runs/counter",
            'regard classify runs/counter "1 7 2 0 2 1 3 4 8 6"',
            'regard look runs/counter "1 7 2 0 2 1 3 4 8 6" --export look.html',
        ),
        found="",
    ),
    figure("bottleneck", "exact match over length: recurrent without and with attention, Transformer"),
    figure("alignment", "one sentence under the six scores of the recurrent translator"),
    figure("four-words", "the lecture's NumPy example, every intermediate value"),
    figure("shuffle", "keys and values shuffled together, queries shuffled"),
    figure("positions", "dot products of naive, sinusoidal, Gaussian, learned and rotary positions"),
    figure("scale", "the variance of q·k with and without 1/√d; entropy and gradient of the softmax"),
    figure("masks", "padding, causal, cross and window masks; a mask multiplied in"),
    figure("heads", "heads with widths of their own; concatenated and projected = Σ_h V_h X A_h"),
    figure("columns", "the D × N form with columns normalised, equal to rows"),
    figure("cost", "complexity and parameters, formula beside what is measured and counted"),
    figure("patches", "224 × 224 at 16 → 196 × 768; the class token's attention over a digit"),
    figure("dynamic", "one pair of positions under convolution, dense layer and attention"),
    Item(
        name="scores",
        section=2,
        asked="any score in any Transformer, language model, classifier, ViT (`model.score`)",
        commands=("python benchmarks/scores.py",),
        found="numbers with each of the six scores, 70 to 94 % exact after 350 updates: [table](scores.md)",
    ),
    Item(
        name="scale-argument",
        section=2,
        asked="`scale=` on `MultiHeadAttention`",
        found="[there](../../docs/multi-head.md#scale); with `Dot()` and 1/√d equal to the default",
    ),
    Item(
        name="concatenated",
        section=2,
        asked="positions concatenated in models and recipes",
        commands=("regard train numbers --set model.position_width=32 --out runs/concatenated",),
        found="[`model.position_width`](../../docs/positions.md#added-or-concatenated) in every Transformer; not measured here",
    ),
    Item(
        name="state-widths",
        section=2,
        asked="encoder and decoder states of different widths (s ≠ h)",
        found="[`model.encoder_width`](../../docs/recurrent.md) of the recurrent translator; a score of equal widths is refused by name",
    ),
    Item(
        name="projections",
        section=2,
        asked="scores with and without learned projections",
        found="[`model.form`](../../docs/recurrent.md): `plain` or `projected`, each with the six scores",
    ),
    Item(
        name="audio-text",
        section=2,
        asked="sound asks text: trained, and at chance without the text",
        commands=("regard train spoken-place --set data.folder=FOLDER",),
        found="92.0, 94.8 and 95.5 % (three seeds) on a speaker never heard, 24 to 25 % with the words shuffled or without the text, "
        "where 25 % is chance: [table](spoken-place.md)",
    ),
    Item(
        name="recordings",
        section=2,
        asked="two senses: `recordings/` found as its data set ships it",
        found="[there](../../docs/fusion.md): a zip, a folder, or the repository of the data set",
    ),
    Item(
        name="encoder",
        section=2,
        asked="translator → classifier by one command, better at 100 labelled lines",
        commands=("regard train classify --from RUN --set data.train=FILE",),
        found="questions 85.5 % against 80.5 % from nothing, the article of the French noun 68.5 % against 56.4 %, five seeds each: "
        "[table](reuse-encoder.md)",
    ),
    figure("slips", "slips met in well-known texts, each with the right form, numbers and a test", section=3),
    Item(
        name="french", section=4, asked="a sentence in French, 2 s after the command was typed",
        found="`regard translate french \"Where is the station?\"`: the answer after 1.6 s (1.6 to 2.2), the end after 1.7, with files in the disk cache; "
        "2.5 s with an empty one: [times](french.md)",
    ),
    Item(
        name="french-quality", section=4, asked="BLEU ≥ 50 on a split by English sentence; chrF; the card",
        found="50.01 BLEU, 67.28 chrF in float32, 50.04 and 67.25 in int8, 56.7 BLEU against all references; "
        "[card](../../src/regard/shipped/french/README.md)",
    ),
    Item(
        name="french-sentences", section=4, asked="50 sentences of 1 to 25 words, without repeats or early ends",
        found="57 of them, read by a person: 41 without a mistake, none repeats or stops short: [all](french.md)",
    ),
    Item(
        name="french-look", section=4, asked="`--picture`, `regard look french`",
        found="both, on the [page](../../docs/french.md)",
    ),
    Item(
        name="french-demo", section=4, asked="`make demo` trains from nothing, then offers it",
        found="among what to try next",
    ),
    Item(
        name="readme", section=5, asked="README's first picture: a sentence translated by that model, aligned",
        found="[there](../../README.md), drawn by `docs/make_pictures.py`",
    ),
)  # fmt: skip


def measured(item: Item) -> dict[str, Any]:
    """CPU and wall seconds of the commands of an item, and the last lines that they print."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "COLUMNS": "500"}
    said: list[str] = []
    with TemporaryDirectory() as folder:
        before, start = _seconds(), time.perf_counter()
        for command in item.commands:
            arguments = [sys.executable, "-m", *shlex.split(command)]
            done = subprocess.run(
                arguments, cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            if item.name in FIGURES:
                said += lines[-3:]  # what to see
            elif lines:
                said.append(f"`{command.split()[1]}`: {lines[-1]}.")
        wall = time.perf_counter() - start
    return {"cpu_seconds": round(_seconds() - before, 1), "wall_seconds": round(wall, 1), "said": said}


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(record: dict[str, Any]) -> str:
    """The tables, as Markdown."""
    about = "; ".join(f"{name}: {value}" for name, value in record["machine"].items())
    lines = [
        "# The ideas of the texts, each by one command",
        "",
        f"Made by `python benchmarks/mission.py`. {about}. Times are CPU seconds (user and system, all threads, start of Python "
        f"included) with OMP_NUM_THREADS={THREADS}. Other work ran on the machine, so wall time says little, and a second thread adds time in "
        "which it only waits.",
    ]
    for number, section in enumerate(SECTIONS, 1):
        lines += ["", f"## {section}", "", "| item | command | CPU s | what came out |", "|---|---|---:|---|"]
        for item in (each for each in ITEMS if each.section == number):
            found = record["items"].get(item.name, {})
            commands = "<br>".join(f"`{command}`" for command in item.commands)
            came = item.found or " ".join(found.get("said", ())).replace("|", "\\|")
            seconds = f"{found['cpu_seconds']:.1f}" if "cpu_seconds" in found else ""
            lines.append(f"| {item.asked} | {commands} | {seconds} | {came if item.there else 'not yet'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is there, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="items to measure again; by default those not measured yet")
    names = parser.parse_args().names
    unknown = set(names) - {item.name for item in ITEMS}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: one of {', '.join(item.name for item in ITEMS)}")
    file = RESULTS / "mission.json"
    record = json.loads(file.read_text()) if file.exists() else {"items": {}}
    record["machine"] = {**machine(), "threads": THREADS}
    for item in ITEMS:
        wanted = item.name in names if names else item.name not in record["items"]
        if wanted and item.there and item.commands and not item.found:
            record["items"][item.name] = measured(item)
            print(item.name, record["items"][item.name])
        file.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        (RESULTS / "mission.md").write_text(report(record))


if __name__ == "__main__":
    main()
