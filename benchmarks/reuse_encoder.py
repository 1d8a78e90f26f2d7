"""The encoder of a translator in a classifier: is it better than beginning from nothing, with 100 labelled lines?

    python benchmarks/reuse_encoder.py --data ~/data/tatoeba-eng-fra     # about fifteen minutes of one core

Three tenths of the English sentences of Tatoeba, chosen by a checksum, are kept away from the translator: labelled lines,
for training and for the test, come from these alone. Two labels are derived from the data itself:

- `question`: the sentence ended in a question mark, or in a full stop; the mark is removed. As many of each.
- `gender`: of sentences that begin with "The", whether all their French translations begin with "Le" or all with "La".
  The classifier reads the English alone.

Each of five seeds draws 100 lines of its own and trains three classifiers on them with the same recipe, sizes and number
of updates: from nothing, and begun with `regard train classify --from TRANSLATOR`, all of it trained or the encoder frozen.
"""

import argparse
import gzip
import json
import random
import statistics
import time
import zlib
from collections import defaultdict
from pathlib import Path

from measuring import machine

from regard.runs.folder import RunFolder
from regard.runs.recipe import find
from regard.training.experiment import begin
from regard.training.observers import Log
from regard.training.reuse import reusing

LINES, TEST, SEEDS = 100, 400, (1, 2, 3, 4, 5)
TRANSLATOR = [
    "data.held_out=0.005",
    "tokens.size=4000",
    "model.width=128",
    "model.heads=4",
    "model.depth=2",
    "model.decoder_depth=1",
    "model.hidden_width=512",
    "model.dropout=0.1",
    "training.steps=1000",
    "training.batch=3072",
    "training.learning_rate=2e-3",
    "training.schedule=cosine",
    "training.warmup=150",
    "training.evaluate=500",
    "training.averaging.last=0",
    "decoding.beam=1",
]
BLOCKS = ["model.width=128", "model.heads=4", "model.depth=2", "model.hidden_width=512"]
CLASSIFIER = [
    "training.steps=150",
    "training.batch=400",
    "training.warmup=20",
    "training.schedule=cosine",
    "training.evaluate=150",
    "training.save=150",
    "training.patience=0",
]
BEGINNINGS = ("from nothing", "from the translator", "from the translator, frozen")


def split(data: Path, folder: Path) -> dict[str, list[str]]:
    """Write the pairs of the translator, and gather the translations of every sentence that is kept away from it."""
    kept: dict[str, list[str]] = defaultdict(list)
    with gzip.open(data / "eng-fra.tsv.gz", "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t")[:2] for line in lines]
    with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        for english, french in pairs:
            if zlib.crc32(english.encode()) % 10 < 3:
                kept[english].append(french)
            else:
                file.write(f"{english}\t{french}\n")
    return kept


def labelled(task: str, kept: dict[str, list[str]]) -> dict[str, list[str]]:
    """The texts of every label."""
    found: dict[str, list[str]] = defaultdict(list)
    for english, translations in kept.items():
        if task == "question" and english[-1] in ".?":
            found["question" if english[-1] == "?" else "statement"].append(english[:-1])
        if task == "gender" and english.startswith("The "):
            articles = {translation.split()[0] for translation in translations}
            if articles in ({"Le"}, {"La"}):
                found[articles.pop()].append(english)
    return found


def write(texts: dict[str, list[str]], folder: Path, seed: int) -> list[str]:
    """Tables of 100 lines to train on and of 400 to be tested on, as many of each label; as changes of a recipe."""
    draw = random.Random(seed)
    chosen = {label: draw.sample(sorted(each), (LINES + TEST) // len(texts)) for label, each in texts.items()}
    for name, start, stop in (("train", 0, LINES), ("test", LINES, LINES + TEST)):
        part = slice(start // len(texts), stop // len(texts))
        rows = [f"{text}\t{label}\n" for label, each in chosen.items() for text in each[part]]
        (folder / f"{name}-{seed}.tsv").write_text("".join(rows), "utf-8")
    tables = {"train": "train", "valid": "test", "test": "test"}  # nothing is chosen by the validation
    return [
        f"data.folder={folder}",
        "data.columns=[1,2]",
        *(f"data.{split}={name}-{seed}.tsv" for split, name in tables.items()),
    ]


def accuracy(run: RunFolder) -> float:
    """The share of right answers on the test lines."""
    metrics = {each["name"]: each["value"] for each in json.loads(run.metrics.read_text("utf-8"))}
    return float(metrics["accuracy"])


def train(recipe: str, changes: list[str], folder: Path, device: str | None) -> RunFolder:
    """A run, unless it is there already."""
    run = RunFolder(folder)
    if not run.metrics.exists():
        chosen = find(recipe, changes)
        begin(chosen, folder, overwrite=True, device=device, observers=lambda run: [Log(run.log)])
    return run


def beginning(how: str, changes: list[str], translator: Path) -> list[str]:
    """The changes under which a classifier begins so. Of the learning rates, none was tuned."""
    if how == "from nothing":
        return [*BLOCKS, "training.learning_rate=1e-3", *changes]
    taken = reusing(find("classify", changes), translator)
    if how.endswith("frozen"):
        return [*taken, "init.freeze=true", "training.learning_rate=3e-3", *changes]
    return [*taken, "training.learning_rate=1e-3", *changes]


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data/tatoeba-eng-fra"))
    parser.add_argument("--runs", type=Path, default=Path("runs/reuse-encoder"), help="folder for the runs")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    kept = split(options.data, options.runs)
    folder = [f"data.folder={options.runs}", "data.train=pairs.tsv"]
    translator = train("tatoeba-en-fr", [*folder, *TRANSLATOR], options.runs / "translator", options.device)
    scores = {each["name"]: each["value"] for each in json.loads(translator.metrics.read_text("utf-8"))}
    rows = []
    for task in ("question", "gender"):
        texts = labelled(task, kept)
        tables = options.runs / task
        tables.mkdir(exist_ok=True)
        for seed in options.seeds:
            changes = [*CLASSIFIER, *write(texts, tables, seed), f"seed={seed}"]
            for how in BEGINNINGS:
                began = time.process_time()
                name = f"{how.replace(', ', '-').replace(' ', '-')}-{seed}"
                run = train(
                    "classify", beginning(how, changes, translator.path), tables / name, options.device
                )
                row = {"label": task, "beginning": how, "seed": seed, "accuracy": accuracy(run)}
                rows.append({**row, "seconds": round(time.process_time() - began, 1)})
                print(rows[-1], flush=True)
    about = {"machine": machine(), "translator": scores, "rows": rows}
    (options.out / "reuse-encoder.json").write_text(json.dumps(about, indent=1) + "\n")
    (options.out / "reuse-encoder.md").write_text(page(about))
    print(page(about))


def page(about: dict) -> str:  # type: ignore[type-arg]
    """The results as Markdown."""
    bleu = about["translator"].get("bleu", 0.0)
    lines = [
        "# The encoder of a translator in a classifier, with 100 labelled lines",
        "",
        f"Made by `python benchmarks/reuse_encoder.py`. {'; '.join(f'{k}: {v}' for k, v in about['machine'].items())}. "
        f"The translator (English to French, width 128, 2 + 1 blocks, 1,000 updates on 114,047 pairs of Tatoeba) has BLEU {bleu:.1f} "
        "on pairs held out.",
        "",
        "Right answers to 400 lines, as many of each label; chance is 50 %. Each seed has 100 training lines of its own. No line, for "
        "training or test, is one that the translator was trained on. Mean ± standard deviation over the seeds, and each seed:",
        "",
        "| label | beginning | accuracy | of each seed |",
        "|---|---|---:|---|",
    ]
    for task in dict.fromkeys(row["label"] for row in about["rows"]):
        for how in BEGINNINGS:
            found = [
                row["accuracy"] for row in about["rows"] if (row["label"], row["beginning"]) == (task, how)
            ]
            if not found:
                continue
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            each = ", ".join(f"{100 * value:.1f}" for value in found)
            lines.append(
                f"| {task} | {how} | {100 * statistics.mean(found):.1f} ± {100 * spread:.1f} % | {each} |"
            )
    lines += [
        "",
        "- `question`: the sentence ended in a question mark or a full stop, which is removed.",
        '- `gender`: of sentences that begin with "The", whether their French begins with "Le" or "La"; the English alone is read.',
        "- All have the same sizes, 150 updates and the same lines. The learning rate is 1e-3, of the frozen ones 3e-3; "
        "neither was tuned. What begins from nothing has a tokenizer of its 100 lines.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
