"""Decoding: greedy and by beam against CTranslate2 and Hugging Face's Marian, on one set of weights.

Every contender has a process of its own and sleeps while the others run: two libraries of threads in one process spin
on each other's cores.
"""

import math
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from regard.bench.contest import Contender, Row, contest
from regard.bench.measuring import calm_run, once, peak_megabytes
from regard.bench.peers import peer
from regard.bench.record import Setting
from regard.data.batches import END, SPECIAL, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.interop.ctranslate2 import save_ctranslate2
from regard.interop.marian import save_marian
from regard.models.optimise import GPU_DTYPES, optimise
from regard.models.transformer import Transformer, TransformerConfig

WORDS = 10_000
OURS = ("regard", "stepwise")  # as it is, and on a GPU without recording
Texts = list[list[int]]
Decode = Callable[[Texts, int, int], Texts]  # sources, beam size and steps to texts without END


def decoding(setting: Setting) -> Iterator[Row]:
    """A base Transformer writes texts of equal length, greedily and by a beam of 4; alone too, if there is time."""
    precisions = ["fp16"] if setting.gpu else ["float32", "int8"]
    count, steps = (8, 12) if setting.quick else (64 if setting.gpu else 32, 24)
    texts = sources(count)
    tasks = {"greedy": (1, texts, False), "beam 4": (4, texts, False)}
    if not setting.quick:
        tasks |= {"greedy, one by one": (1, texts[:2], True), "beam 4, one by one": (4, texts[:2], True)}
    with tempfile.TemporaryDirectory() as folder:
        names = contenders(lively_base(), Path(folder), precisions, setting.device)
        everyone = {who: Worker(who, Path(folder), setting.threads, setting.device) for who in names}
        try:
            for name, (size, some, alone) in tasks.items():
                yield from _rows(name, everyone, (some, size, steps, alone, False), setting)
        finally:
            for worker in everyone.values():
                worker.end()


def _rows(name: str, everyone: dict[str, "Worker"], given: tuple[Any, ...], setting: Setting) -> list[Row]:
    found = {who: worker.ask("texts", *given) for who, worker in everyone.items()}
    texts, _, steps, *_ = given
    ours = next(iter(everyone))
    timed = {}
    for who, worker in everyone.items():
        equal = sum(a == b for a, b in zip(found[who], found[ours], strict=True))
        short = sum(len(text) != steps for text in found[who])
        timed[who] = Contender(
            run=partial(worker.ask, "texts", *given),
            timed=partial(worker.ask, "time", *given),
            peak=partial(worker.ask, "memory", *given),
            check=f"equal {equal}/{len(texts)}" + (f", {short} shorter" if short else ""),
        )
    return contest("decoding", name, timed, setting, ours=ours, tokens=len(texts) * steps)


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


def stepwise(model: Any) -> Any:
    """The model with a hook that does nothing: what needs Python at every step is not captured."""
    model.register_forward_pre_hook(lambda *_: None)
    return model


def ctranslate2_decoder(folder: Path, precision: str, threads: int, device: str = "cpu") -> Decode:
    """CTranslate2, all sentences in one batch."""
    translator = peer("ctranslate2").Translator(
        str(folder),
        device=device.split(":")[0],
        compute_type=precision,
        inter_threads=1,
        intra_threads=threads,
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


def marian_decoder(folder: Path, precision: str = "float32", device: str = "cpu") -> Decode:
    """Hugging Face's generate."""
    transformers = peer("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.MarianMTModel.from_pretrained(folder).eval().to(device, GPU_DTYPES[precision])
    model.generation_config.suppress_tokens = (
        None  # the model never wants them, and the others do not suppress them
    )

    def decode(texts: Texts, size: int, steps: int) -> Texts:
        source = Sequences.of(texts).to(device)
        with torch.inference_mode():
            found = model.generate(
                input_ids=source.tokens,
                attention_mask=source.real().long(),
                num_beams=size,
                do_sample=False,
                max_new_tokens=steps,
                length_penalty=0.0,
            )
        return [row[1:] for row in found.tolist()]

    return decode


def _names() -> list[str]:
    return [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), WORDS))]


def contenders(
    model: Transformer, folder: Path, precisions: list[str], device: str = "cpu", *, every: bool = False
) -> list[str]:
    """The contenders that are installed, after writing the weights for them. `every`: also ours without CUDA graphs."""
    found = [f"regard {precision}" for precision in precisions]
    if device != "cpu" and every:
        found += [f"stepwise {precision}" for precision in precisions]
    save_file(model.state_dict(), folder / "model.safetensors")
    floating = "float32" if device == "cpu" else "fp16"
    library = peer("ctranslate2")
    if library is not None and (device == "cpu" or library.get_cuda_device_count()):
        save_ctranslate2(model, folder / "ctranslate2", source=_names(), target=_names())
        found += [f"ctranslate2 {floating.replace('fp', 'float')}", "ctranslate2 int8"]
    if peer("transformers") is not None:
        save_marian(model, folder / "marian")
        found.append(f"transformers {floating}")
    return found


class Worker:
    """A contender in a process of its own."""

    def __init__(self, who: str, folder: Path, threads: int, device: str = "cpu") -> None:
        context = multiprocessing.get_context("spawn")
        self._asking, answering = context.Pipe()
        given = (answering, who, folder, threads, device)
        self._process = context.Process(target=_serve, args=given, daemon=True)
        self._process.start()
        answering.close()  # so that asking one who died is an error, and does not wait

    def ask(self, what: str, *given: Any) -> Any:
        """Its "texts", the "time" of a run in milliseconds, or its "memory" or the "rise" of that in megabytes."""
        self._asking.send((what, *given))
        return self._asking.recv()

    def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.join()


def _serve(answering: Any, who: str, folder: Path, threads: int, device: str) -> None:
    torch.set_num_threads(threads)
    name, precision = who.split()
    if name in OURS:
        model = Transformer(_config()).eval()
        model.load_state_dict(load_file(folder / "model.safetensors"))
        fast = optimise(model.to(device), precision=precision).model
        decode = regard_decoder(stepwise(fast) if name == "stepwise" else fast, device)
    elif name == "ctranslate2":
        decode = ctranslate2_decoder(folder / "ctranslate2", precision, threads, device)
    else:
        decode = marian_decoder(folder / "marian", precision, device)
    while True:
        try:
            what, texts, size, steps, alone, calmly = answering.recv()
        except EOFError:  # the parent process is gone
            return
        run = _runner(decode, texts, size, steps, alone)
        if what == "texts":
            answering.send(run())
        elif what == "time":
            answering.send(calm_run(run) if calmly else once(run, device))
        else:
            before, most = resident(run) if device == "cpu" else (0.0, peak_megabytes(run, device))
            answering.send(most - before if what == "rise" else most)


def _runner(decode: Decode, texts: Texts, size: int, steps: int, alone: bool) -> Callable[[], Texts]:
    if alone:
        return lambda: [decode([text], size, steps)[0] for text in texts]
    return lambda: decode(texts, size, steps)


def resident(run: Callable[[], object]) -> tuple[float, float]:
    """Megabytes of the resident set before a run, and the most during it; Linux only, else NaN."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    except OSError:
        return math.nan, math.nan
    before = _status("VmRSS")
    run()
    return before / 1024, _status("VmHWM") / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
