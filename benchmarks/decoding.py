"""Decoding on the CPU against CTranslate2 and Hugging Face's Marian, on one set of weights, side by side in one run.

    python benchmarks/decoding.py                    # all contenders that are installed
    python benchmarks/decoding.py --quick            # few rounds, nothing written
    python benchmarks/decoding.py --out results      # where decoding.json and decoding.md go
    python benchmarks/decoding.py --device cuda --batch 64   # on a GPU, in half precision: decoding-cuda.json and .md

The model is a base Transformer (6 + 6 blocks, 512, 8 heads, 2,048) with norm="after", which all three can express, a
vocabulary of 10,000 and drawn weights. The row of END in the output matrix is 0, so that no text ends before its
limit and every contender makes the same number of steps. Every contender has a process of its own; in a round each
runs once, in a shuffled order, while the others sleep, and ratios are taken within the round. Memory is how far the peak of the resident set rose above its level before the
run.
"""

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import random
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import calm_run, machine, once, spread
from safetensors.torch import load_file, save_file

from regard.data.batches import END, SPECIAL, Sequences
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.errors import RegardError
from regard.interop.ctranslate2 import save_ctranslate2
from regard.interop.marian import save_marian
from regard.layers.lowering import WHOLE, lower
from regard.models.transformer import Transformer, TransformerConfig

WORDS = 10_000
OURS = ("regard", "compiled", "stepwise")  # as it is, with kernels in C, and on a GPU without recording
Texts = list[list[int]]
Decode = Callable[[Texts, int, int], Texts]  # sources, beam size and steps to texts without END


@dataclass(frozen=True)
class Row:
    """One contender at one task."""

    task: str
    contender: str
    tokens_per_second: float
    spread: tuple[float, float]  # tenth and ninetieth percentile
    ratios: dict[
        str, tuple[float, float, float]
    ]  # regard over it: by our precision; median, tenth, ninetieth
    megabytes: float
    equal: float  # share of texts equal to those of regard in float32


def lively_base() -> Transformer:
    """A base Transformer whose texts differ and never end."""
    torch.manual_seed(0)
    model = Transformer(_config()).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight), alpha=0.05)
        output = model.get_parameter("output.weight")
        output.mul_(2)
        output[: len(SPECIAL)] = 0
    return model


def _config() -> TransformerConfig:
    return TransformerConfig(norm="after", tied="none", source_vocabulary=WORDS, target_vocabulary=WORDS)


def sources(count: int) -> Texts:
    """As long as captions are: 7 to 24 tokens."""
    generator = torch.Generator().manual_seed(1)
    sizes = torch.randint(6, 24, (count,), generator=generator).tolist()
    return [[*torch.randint(4, WORDS, (size,), generator=generator).tolist(), END] for size in sizes]


def regard_decoder(model: Any, device: str = "cpu") -> Decode:
    """Our own decoders."""

    def decode(texts: Texts, size: int, steps: int) -> Texts:
        source = Sequences.of(texts).to(device)
        if size == 1:
            return [each.tokens for each in greedy(model, source, limits=steps)]
        return [best[0].tokens for best in beam(model, source, size=size, limits=steps, penalty=0.0)]

    return decode


def ctranslate2_decoder(folder: Path, precision: str, threads: int) -> Decode:
    """CTranslate2, all sentences in one batch."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=threads
    )
    names = _names()
    numbers = {name: number for number, name in enumerate(names)}

    def decode(texts: Texts, size: int, steps: int) -> Texts:
        words = [[names[token] for token in row] for row in texts]
        found = translator.translate_batch(
            words, beam_size=size, max_decoding_length=steps, length_penalty=0.0, max_batch_size=0
        )
        return [[numbers[word] for word in each.hypotheses[0]] for each in found]

    return decode


def stepwise(model: Any) -> Any:
    """The model with a hook that does nothing: what needs Python at every step is not recorded."""
    model.register_forward_pre_hook(lambda *_: None)
    return model


def marian_decoder(folder: Path, device: str = "cpu", precision: str = "float32") -> Decode:
    """Hugging Face's generate."""
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.MarianMTModel.from_pretrained(folder).eval().to(device, WHOLE[precision])
    model.generation_config.suppress_tokens = None  # the model never wants them, and nobody else looks

    def decode(texts: Texts, size: int, steps: int) -> Texts:
        source = Sequences.of(texts).to(device)
        with torch.inference_mode():
            found = model.generate(
                input_ids=source.tokens,
                attention_mask=source.real.long(),
                num_beams=size,
                do_sample=False,
                max_new_tokens=steps,
                length_penalty=0.0,
            )
        return [row[1:] for row in found.tolist()]

    return decode


def _names() -> list[str]:
    return [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), WORDS))]


def contenders(model: Transformer, folder: Path, precisions: list[str], device: str) -> list[str]:
    """Everybody who is installed; the weights are written where they find them."""
    found = [f"regard {precision}" for precision in precisions]
    if device == "cpu" and any(map(shutil.which, ("cc", "gcc", "clang"))):
        found += [f"compiled {precision}" for precision in precisions]
    save_file(model.state_dict(), folder / "model.safetensors")
    if device != "cpu":
        save_marian(model, folder / "marian")
        return [
            *found,
            *(f"stepwise {precision}" for precision in precisions),
            *(f"transformers {precision}" for precision in precisions),
        ]
    try:
        save_ctranslate2(model, folder / "ctranslate2", source=_names(), target=_names())
        found += ["ctranslate2 float32", "ctranslate2 int8"]
    except RegardError as error:
        print(f"left out: {error}")
    if importlib.util.find_spec("transformers") is not None:
        save_marian(model, folder / "marian")
        found.append("transformers float32")
    return found


class Worker:
    """A contender in a process of its own: two libraries of threads in one process spin on each other's cores."""

    def __init__(self, who: str, folder: Path, threads: int, device: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._asking, answering = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(answering, who, folder, threads, device), daemon=True
        )
        self._process.start()

    def ask(self, what: str, *given: Any) -> Any:
        """Its texts, the milliseconds of a run, or the megabytes it took."""
        self._asking.send((what, *given))
        return self._asking.recv()


def _serve(answering: Any, who: str, folder: Path, threads: int, device: str) -> None:
    torch.set_num_threads(threads)
    name, precision = who.split()
    if name in OURS:
        model = Transformer(_config()).eval()
        model.load_state_dict(load_file(folder / "model.safetensors"))
        lowered = lower(model.to(device), precision, compile=name == "compiled")
        decode = regard_decoder(stepwise(lowered) if name == "stepwise" else lowered, device)
    elif name == "ctranslate2":
        decode = ctranslate2_decoder(folder / "ctranslate2", precision, threads)
    else:
        decode = marian_decoder(folder / "marian", device, precision)
    while True:
        what, texts, size, steps, alone, calmly = answering.recv()
        run = _runner(decode, texts, size, steps, alone)
        if what == "texts":
            answering.send(run())
        elif what == "time":
            answering.send(calm_run(run) if calmly else once(run))
        else:
            answering.send(resident_rise(run) if device == "cpu" else device_peak(run))


def _runner(decode: Decode, texts: Texts, size: int, steps: int, alone: bool) -> Callable[[], Texts]:
    if alone:
        return lambda: [decode([text], size, steps)[0] for text in texts]
    return lambda: decode(texts, size, steps)


def resident_rise(run: Callable[[], object]) -> float:
    """Megabytes by which the peak of the resident set passes its level before the run; Linux only, else NaN."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    except OSError:
        return float("nan")
    before = _status("VmRSS")
    run()
    return (_status("VmHWM") - before) / 1024


def device_peak(run: Callable[[], object]) -> float:
    """The most megabytes that tensors held on the GPU during a run, weights included."""
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() / 2**20


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def task(
    name: str,
    everyone: dict[str, Worker],
    texts: Texts,
    *,
    size: int,
    alone: bool,
    steps: int,
    rounds: int,
    calmly: bool,
) -> list[Row]:
    """One task for everybody: all texts at once, or one after the other."""
    given = (texts, size, steps, alone, calmly)
    outputs = {who: worker.ask("texts", *given) for who, worker in everyone.items()}
    for who, found in outputs.items():
        if {len(text) for text in found} != {steps}:
            raise SystemExit(f"{who} did not make {steps} steps: the comparison would not be one")
    times: dict[str, list[float]] = {who: [] for who in everyone}
    for _ in range(rounds):
        for who in random.sample(list(everyone), len(everyone)):
            times[who].append(everyone[who].ask("time", *given))
    count = len(texts) * steps
    rows = []
    ours = [who for who in everyone if who.split()[0] in ("regard", "compiled")]
    for who in everyone:
        speeds = [count / milliseconds * 1e3 for milliseconds in times[who]]
        ratios = {}
        for mine in ours:
            within = [theirs / own for theirs, own in zip(times[who], times[mine], strict=True)]
            ratios[mine] = (statistics.median(within), *spread(within))
        same = sum(a == b for a, b in zip(outputs[who], outputs[ours[0]], strict=True))
        rows.append(
            Row(
                name,
                who,
                statistics.median(speeds),
                spread(speeds),
                ratios,
                everyone[who].ask("memory", *given),
                same / len(texts),
            )
        )
        print(f"{name:28s} {who:22s} {rows[-1].tokens_per_second:8.0f} tokens/s  equal {rows[-1].equal:.2f}  "
              + "  ".join(f"{mine} {ratio[0]:.2f}x" for mine, ratio in ratios.items()), flush=True)  # fmt: skip
    return rows


def table(rows: list[Row], facts: dict[str, object], given: argparse.Namespace) -> str:
    """The rows as Markdown."""
    ours, steps, on_cpu = list(rows[0].ratios), given.steps, given.device == "cpu"
    peers = "on the CPU: regard, CTranslate2" if on_cpu else "on a GPU: regard"
    held = "rise of the resident set during a run" if on_cpu else "most that tensors held on the GPU"
    lines = [
        f"# Decoding {peers}, Hugging Face Marian",
        "",
        f"Made by `python benchmarks/decoding.py {_asked()}`; each contender in a process of its own. "
        + "; ".join(f"{name}: {value}" for name, value in facts.items())
        + ".",
        "",
        "A base Transformer (6 + 6 blocks, width 512, 8 heads, inner 2,048, norm after) with a vocabulary of "
        f"{WORDS:,}, drawn weights, the same for all; {given.batch} sources of 7 to 24 tokens, of which two for "
        f"`alone`; {steps} steps for every text. "
        "`regard … ×` is the speed of regard over that of the contender, the median of ratios within interleaved "
        "rounds (tenth to ninetieth percentile). `equal` is the share of texts that are token for token those of "
        f"{ours[0]}; drawn weights decide by thin margins, so that rounding alone can part texts. MB is the {held}."
        + (
            " `compiled` is regard with kernels in C."
            if on_cpu
            else " `stepwise` is regard without recording: its ordinary loop."
        ),
        "",
        "| task | contender | tokens/s | spread | "
        + " | ".join(f"{mine} ×" for mine in ours)
        + " | equal | MB |",
        "|---|---|---:|---:|" + "---:|" * len(ours) + "---:|---:|",
    ]
    for row in rows:
        ratios = " | ".join(f"{m:.2f} ({low:.2f}–{high:.2f})" for m, low, high in row.ratios.values())
        lines.append(
            f"| {row.task} | {row.contender} | {row.tokens_per_second:.0f} | {row.spread[0]:.0f}–{row.spread[1]:.0f} "
            f"| {ratios} | {row.equal:.2f} | {row.megabytes:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _asked() -> str:
    """The command, but for the folder of the results."""
    words = sys.argv[1:]
    if "--out" in words:
        place = words.index("--out")
        words = words[:place] + words[place + 2 :]
    return shlex.join(words)


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three rounds, nothing written")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--precisions", nargs="*", help="default float32 bf16 int8; on a GPU fp16")
    parser.add_argument(
        "--calmly", action="store_true", help="only rounds in which others leave the cores alone"
    )
    parser.add_argument("--only", help="contenders whose names hold this, besides our own")
    parser.add_argument("--tasks", default="greedy,beam 4,greedy alone,beam 4 alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    facts = machine()
    texts = sources(given.batch)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        precisions = given.precisions or (["float32", "bf16", "int8"] if given.device == "cpu" else ["fp16"])
        names = contenders(lively_base(), Path(folder), precisions, given.device)
        everyone = {who: Worker(who, Path(folder), given.threads, given.device) for who in names}
        if given.only is not None:
            everyone = {
                who: run for who, run in everyone.items() if given.only in who or who.split()[0] in OURS
            }
        for name in given.tasks.split(","):
            alone, size = name.endswith("alone"), 4 if name.startswith("beam") else 1
            rows += task(
                name,
                everyone,
                texts[:2] if alone else texts,
                size=size,
                alone=alone,
                steps=given.steps,
                rounds=3 if given.quick else given.rounds,
                calmly=given.calmly,
            )
            if not given.quick:
                write(rows, facts, given)


def write(rows: list[Row], facts: dict[str, object], given: argparse.Namespace) -> None:
    """The rows so far as JSON and Markdown."""
    given.out.mkdir(exist_ok=True)
    settings = {name: value for name, value in vars(given).items() if name != "out"}
    record = {"machine": facts, "settings": settings, "rows": [asdict(row) for row in rows]}
    stem = "decoding" if given.device == "cpu" else f"decoding-{given.device}"
    (given.out / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.out / f"{stem}.md").write_text(table(rows, facts, given))


if __name__ == "__main__":
    main()
