"""The translator that comes with regard: how soon it answers, how good it is, and what it makes of ordinary sentences.

    python benchmarks/french.py                          # times, and the sentences of the tests
    python benchmarks/french.py --data data/tatoeba      # also BLEU and chrF on the held-out pairs

Writes results/french.md and results/french.json. The mistakes were found by a person who read the translations in
tests/runs/french_sentences.tsv; one that differs from what was read is marked.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sacrebleu
from measuring import machine

from regard import load
from regard.data.records import read_pairs
from regard.runs.folder import SHIPPED
from regard.runs.results import translation_metrics
from regard.runs.tasks.translation import split_of

HERE = Path(__file__).parent
SENTENCES = HERE.parent / "tests" / "runs" / "french_sentences.tsv"
FIRST = "Where is the station?"


def seconds(rounds: int) -> dict[str, list[float]]:
    """From the start of the command to its answer, and to its end; each in a process of its own."""
    found: dict[str, list[float]] = {"answer": [], "end": []}
    with TemporaryDirectory() as place:
        for _ in range(rounds + 1):
            began = time.perf_counter()
            with subprocess.Popen(
                [sys.executable, "-m", "regard", "translate", "french", FIRST],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=place,
            ) as command:
                assert command.stdout is not None
                assert command.stdout.readline()
                found["answer"].append(time.perf_counter() - began)
            found["end"].append(time.perf_counter() - began)
    return {name: times[1:] for name, times in found.items()}  # the first reads torch from the disk


def quality(folder: Path) -> dict[str, Any]:
    """Metrics on the held-out pairs, against the one target of each, and against all targets of a source."""
    read = read_pairs(str(folder / "eng-fra.tsv.gz"), columns=(1, 2))
    pairs = [pair for pair in read if split_of(pair[0], 0.02, ["valid", "test"]) == "test"]
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    most = max(map(len, references.values()))
    columns = [
        [some[place] if place < len(some) else None for some in references.values()] for place in range(most)
    ]
    found: dict[str, Any] = {"pairs": len(pairs), "sources": len(references), "most references": most}
    for precision in ("float32", "int8"):
        french = load("french", device="cpu", precision=precision)
        of_source = dict(zip(references, french.translate(list(references)), strict=True))
        metrics = translation_metrics(
            [of_source[source] for source, _ in pairs], [target for _, target in pairs], tokenize="13a"
        )
        found[precision] = {metric.name: metric.value for metric in metrics}
        several = sacrebleu.corpus_bleu(list(of_source.values()), columns)  # type: ignore[arg-type]
        found[precision]["bleu, all references"] = several.score
    return found


def sentences() -> list[dict[str, str]]:
    """The sentences of the tests, with what the model makes of them now."""
    with SENTENCES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    now = load("french", device="cpu").translate([row["english"] for row in rows])
    return [{**row, "now": text} for row, text in zip(rows, now, strict=True)]


def page(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    about = "; ".join(f"{name}: {value}" for name, value in found["machine"].items())
    times = found["seconds"]
    rows = found["sentences"]
    right = sum(not row["mistake"] for row in rows)
    lines = [
        "# The translator that comes with regard\n",
        f"Made by `python benchmarks/french.py --data data/tatoeba`. {about}.\n",
        f"`regard translate french {FIRST!r}`, a process of its own each time, files in the disk cache: the answer after "
        f"{_spread(times['answer'])}, the end after {_spread(times['end'])}. The folder has {found['megabytes']:.1f} MB.\n",
    ]
    if told := found.get("quality"):
        lines += [
            f"{told['pairs']:,} held-out pairs of {told['sources']:,} English sentences, none of them trained on; beam 5:\n",
            f"| computed in | BLEU | chrF | exact | BLEU, a translation a sentence against up to {told['most references']} |",
            "|---|---:|---:|---:|---:|",
            *(
                f"| {precision} | {told[precision]['bleu']:.2f} | {told[precision]['chrf']:.2f} | "
                f"{told[precision]['exact']:.2%} | {told[precision]['bleu, all references']:.2f} |"
                for precision in ("float32", "int8")
            ),
            "",
        ]
    lines += [
        f"{len(rows)} ordinary sentences of 1 to 25 words, read by a person: {right} without a mistake; none repeats itself or "
        "stops short. What is right instead is in the last column.\n",
        "| words | English | French | mistake |",
        "|---:|---|---|---|",
        *(
            f"| {len(row['english'].split())} | {row['english']} | {row['now']}"
            f"{'' if row['now'] == row['french'] else ' (not the one that was read)'} | {row['mistake']} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s ({min(times):.2f}–{max(times):.2f})"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of eng-fra.tsv.gz")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    found: dict[str, Any] = {
        "machine": machine(),
        "megabytes": sum(each.stat().st_size for each in (SHIPPED / "french").iterdir()) / 1e6,
        "seconds": seconds(options.rounds),
        "sentences": sentences(),
    }
    if options.data is not None:
        found["quality"] = quality(options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "french.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (options.out / "french.md").write_text(page(found), "utf-8")
    print(page(found))


if __name__ == "__main__":
    main()
