"""A run folder, loaded: something that translates, writes, classifies, captions, transcribes or counts.

The weights are the final ones of a run, those of a checkpoint that is named, or the best ones of a run not finished yet.

Whether weights fit a config is found from the header of their file, before either is built: a config of a few bytes may
ask for more than any memory holds, and one of a billion blocks would never be built. So the numbers of blocks are
bounded first, then an outline of the model is built, whose tensors have a shape and no contents, and its names, shapes
and dtypes are compared with the header.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.data.given import instance
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, warn
from regard.models.kind import Input, Kind
from regard.models.kinds import KINDS
from regard.models.optimise import built
from regard.models.optimise import optimise as optimised
from regard.runs.answering import (
    ImageCaptioner,
    Labeller,
    Loaded,
    SpeechTranscriber,
    TextGenerator,
    Translator,
)
from regard.runs.checkpoints import Checkpoint, CheckpointKind, Header, called, found
from regard.runs.folder import RunFolder
from regard.runs.inputs import DigitReader, PairReader, PictureReader, Reader, SoundReader, TextReader
from regard.runs.recipe import build, config_of, kind_of
from regard.runs.settings import Decoding, TextData

MAX_BLOCKS = 1000  # of one kind, in a model that is to be trained
LARGEST = 1 << 24  # of any other number in a config

_MAKING = {f"aten::{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn")}
_ELEMENTWISE = {f"aten::{name}" for name in ("add", "sub", "mul", "div")}
_COUNTS = ("depth", "decoder_depth", "fusion_depth", "units")  # settings that say how many modules there are
MAX_THREADS = 1024  # each has a stack of its own


@dataclass(frozen=True)
class Chosen:
    """A run, and where its weights are taken from."""

    run: RunFolder
    checkpoint: Checkpoint | None  # None: model.safetensors

    @property
    def path(self) -> Path:
        """Where the weights are."""
        return self.run.weights if self.checkpoint is None else self.checkpoint.path

    def header(self) -> Header:
        """What the file says that it holds of the model."""
        return self.run.weights_header() if self.checkpoint is None else self.checkpoint.weights_header()

    def weights(self) -> dict[str, Tensor]:
        """The tensors of the model."""
        return self.run.load_weights() if self.checkpoint is None else self.checkpoint.weights()


def chosen(
    path: str | os.PathLike[str], *, accept_changes: bool = False, kinds: Sequence[Kind] = ()
) -> Chosen:
    """The weights that a path means. Of a run without final ones a warning says which checkpoint is taken."""
    run, checkpoint = run_of(path, accept_changes=accept_changes, kinds=kinds), called(path)
    if checkpoint is None and not os.path.lexists(run.weights):
        checkpoint = _best(run)
    return Chosen(run, checkpoint)


def run_of(
    path: str | os.PathLike[str], *, accept_changes: bool = False, kinds: Sequence[Kind] = ()
) -> RunFolder:
    """The run that a path means, be it of the run or of one of its checkpoints."""
    checkpoint = called(path)
    folder = path if checkpoint is None else checkpoint.path.parent.parent
    return RunFolder.existing(folder, accept_changes=accept_changes, kinds=kinds)


def _best(run: RunFolder) -> Checkpoint | None:
    """The best checkpoint of a run that is not finished, else its newest; a broken one is passed over, and named."""
    broken: list[str] = []
    kinds: tuple[tuple[CheckpointKind, str], ...] = (("best", "best"), ("step", "newest"))
    for kind, word in kinds:
        for each in reversed(found(run.checkpoints, kind)):
            if each.intact():
                without = f" that is whole ({', '.join(broken)} is not)" if broken else ""
                warn(
                    f"{run.path} is not finished: taking its {word} checkpoint{without}, of step {each.step:,}; finish it "
                    f"with `regard resume {run.path}`"
                )
                return each
            broken.append(each.path.name)
    return None


def load(
    run: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    optimise: bool = True,
    precision: str | None = None,
    accept_changes: bool = False,
    kinds: Sequence[Kind] = (),
) -> Loaded:
    """The model of a run with its tokenizers: `.translate([…])`, `.generate([…])`, `.classify([…])`, `.caption([…])`,
    `.transcribe([…])`, `.score(…)`, whichever it can. Without a device, a GPU where there is one.

    Of a checkpoint, "runs/x/checkpoints/step-500", it is the model as it was then; of a run that is not finished, the
    one of its best checkpoint, with a warning that says so.

    The model is optimised for inference on its device (`regard.optimise`), in this precision: float32 unless you give
    another (bf16 or int8 on the CPU, fp16 or bf16 on a GPU). It then raises under gradients; with `optimise=False` it
    is as it was trained, for gradients and fine-tuning.

    Weights and tokenizers that are not those that training wrote are refused, unless you accept changes. A run of your
    own model needs its kind, `kinds=[KIND]`: nothing in a run folder is ever executed.
    """
    instance("run", run, (str, os.PathLike), "give the folder of a run")
    source = chosen(run, accept_changes=accept_changes, kinds=kinds)
    folder = source.run
    config = folder.load_config()
    described = {key: value for key, value in config.items() if key not in ("model_type", "id2label")}
    wanted = config_of(described, folder.kinds, where=f"{folder.config}.model")
    kind = kind_of(wanted, folder.kinds)
    check_fit(wanted, source.header(), weights=source.path, described=folder.config, kinds=folder.kinds)
    model = build_model(wanted, folder.kinds)
    model.load_state_dict(source.weights())
    place = chosen_device("cpu" if device is None and precision == "int8" else device)
    model = model.to(place).eval()
    if optimise:
        if place.type != "cpu" and precision in ("fp16", "bf16") and inputs_of(kind, wanted) != ("text",):
            raise RegardError(
                f"precision={precision!r} on a GPU is for models that read words; {folder.path} reads something else"
            )
        model = optimised(model, precision=precision or "float32").model
    elif precision is not None:
        raise RegardError(
            f"optimise=False with precision={precision!r}: a plain model is float32; give one of the two"
        )
    recipe, tokenizers = folder.load_recipe(), folder.load_tokenizers()
    decoding = decoding_of(folder, recipe.decoding)
    labels = folder.load_labels() or []
    _check_words(folder, kind, wanted, tokenizers)
    _check_labels(folder, kind, wanted, labels)
    loaded = _with_readers(kind, model, wanted, tokenizers, labels, decoding)
    if isinstance(loaded, TextGenerator):
        loaded.lines = isinstance(recipe.data, TextData) and recipe.data.unit == "lines"
    loaded.kind = kind
    return loaded


def _with_readers(
    kind: Kind,
    model: Any,
    config: Any,
    tokenizers: dict[str, Tokenizer],
    labels: list[str],
    decoding: Decoding,
) -> Loaded:
    """A model with what turns its inputs into batches and its outputs into answers, by the first of its verbs."""
    match kind.verbs[:1]:
        case ("translate",):
            return Translator(model, tokenizers, decoding)
        case ("generate",):
            return TextGenerator(model, tokenizers, decoding)
        case ("classify",):
            return Labeller(model, _reader(kind, config, tokenizers), labels)
        case ("caption",):
            return ImageCaptioner(model, _reader(kind, config, tokenizers), tokenizers["source"], decoding)
        case ("transcribe",):
            return SpeechTranscriber(model, _reader(kind, config, tokenizers), tokenizers["source"], decoding)
        case _:
            return Loaded(model)


def inputs_of(kind: Kind, config: object) -> tuple[Input, ...]:
    """What a model of this config reads: as its kind says, unless the config has an attribute `reads`."""
    found: tuple[Input, ...] = getattr(config, "reads", kind.reads)
    return found


def _reader(kind: Kind, config: Any, tokenizers: Mapping[str, Tokenizer]) -> Reader:
    """What turns the inputs of a model into batches: one reader, or a pair of them."""
    known: dict[str, Callable[[], Reader]] = {
        "text": lambda: TextReader(tokenizers["source"]),
        "picture": lambda: PictureReader(config.image_size, config.channels),
        "sound": lambda: SoundReader(config),
        "digits": DigitReader,
    }
    readers = [known[each]() for each in inputs_of(kind, config)]
    return readers[0] if len(readers) == 1 else PairReader(*readers)


def _check_words(folder: RunFolder, kind: Kind, config: Any, tokenizers: Mapping[str, Tokenizer]) -> None:
    """Refuse tokenizers whose tokens the model has no vectors for."""
    sides = {"vocabulary": "source", "source_vocabulary": "source", "target_vocabulary": "target"}
    if "text" not in (*inputs_of(kind, config), kind.gives):
        return
    for name, side in sides.items():
        size = getattr(config, name, 0)
        if not size:
            continue
        tokenizer = tokenizers.get(side, tokenizers.get("source"))
        if tokenizer is None:
            raise RegardError(f"{folder.path} has no {folder.tokenizer_path('source').name}")
        if tokenizer.size > size:
            raise RegardError(
                f"{folder.config} has {name}={size}, and its tokenizer {tokenizer.size} tokens: they belong to two runs"
            )


def _check_labels(folder: RunFolder, kind: Kind, config: Any, labels: Sequence[str]) -> None:
    """Refuse names of classes that the model does not have."""
    if "classify" in kind.verbs and len(labels) != config.classes:
        raise RegardError(f"{folder.config} has classes={config.classes}, and id2label names {len(labels)}")


def chosen_device(device: str | torch.device | None) -> torch.device:
    """This device, refused if torch does not see it; None: a GPU if there is one, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise RegardError(f"device {device}: say cpu, cuda or cuda:1") from None
    if chosen.type == "cuda" and (
        not torch.cuda.is_available() or (chosen.index or 0) >= torch.cuda.device_count()
    ):
        raise RegardError(f"device {device}: torch sees {torch.cuda.device_count()} GPUs here")
    return chosen


def decoding_of(folder: RunFolder, default: Decoding) -> Decoding:
    """The decoding settings of a run: generation_config.json, which may have been changed by hand."""
    given = folder.load_generation()
    names = {"num_beams": "beam", "length_penalty": "penalty", "max_new_tokens": "tokens"}
    known = {names.get(key, key): value for key, value in given.items()}
    fields = {key: value for key, value in known.items() if key in Decoding.__dataclass_fields__}
    checked = build(Decoding, fields, where=str(folder.generation))
    return replace(default, **{name: getattr(checked, name) for name in fields})


def ready(
    run: str | os.PathLike[str],
    *,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    kinds: Sequence[Kind] = (),
) -> Loaded:
    """The run loaded for inference, with so many threads."""
    set_threads(threads)
    return load(run, device=device, precision=precision, kinds=kinds)


def set_threads(threads: int | None) -> None:
    """Use so many threads of the CPU; None: as many as torch does by itself."""
    if threads is None:
        return
    if not 1 <= threads <= MAX_THREADS:
        raise RegardError(f"threads={threads}: from 1 to {MAX_THREADS}")
    torch.set_num_threads(threads)


def described(device: str | None = None) -> str:
    """The defaults of inference, in words."""
    place = chosen_device(device)
    if place.type != "cpu":
        return f"float32 on {place}, steps of Transformers captured as CUDA graphs; --precision fp16 or bf16 is quicker"
    return f"float32 on the CPU, {torch.get_num_threads()} threads, {built()}; --precision bf16 or int8 is quicker"


def build_model(config: Any, kinds: Sequence[Kind] = KINDS) -> nn.Module:
    """The model that a config describes, with fresh weights."""
    return kind_of(config, kinds).model(config)


def check_fit(
    config: Any, header: Header, *, weights: object, described: object, kinds: Sequence[Kind] = KINDS
) -> None:
    """Refuse weights that are not those of this model. `weights` and `described` name the two files."""
    if not header.tensors:
        raise RegardError(f"{weights} does not fit {described}: it holds no tensors")
    # Every block has tensors of its own, so there are no more blocks than tensors.
    wanted = _outline(config, kinds, described, most=len(header.tensors)).state_dict()
    missing = [name for name in wanted if name not in header.tensors]
    unknown = [name for name in header.tensors if name not in wanted]
    if missing or unknown:
        what = ", ".join(
            [*(f"without {name}" for name in missing[:3]), *(f"with {name[:80]}" for name in unknown[:3])]
        )
        raise RegardError(f"{weights} does not fit {described}: it is {what}")
    for name, mine in wanted.items():
        theirs = header.tensors[name]
        if tuple(mine.shape) != theirs.shape:
            raise RegardError(
                f"{weights} does not fit {described}: {name} is {list(theirs.shape)} in the one and {list(mine.shape)} by "
                "the other"
            )
        if mine.is_floating_point() != theirs.dtype.is_floating_point:
            raise RegardError(
                f"{weights} does not fit {described}: {name} is {theirs.dtype}, and {mine.dtype} is wanted"
            )
    _affordable(sum(each.count * each.dtype.itemsize for each in header.tensors.values()), weights)


def check_size(config: Any, *, where: str = "model", kinds: Sequence[Kind] = KINDS) -> None:
    """Refuse a model to be trained whose weights alone would not fit into the memory of this machine."""
    outline = _outline(config, kinds, where, most=MAX_BLOCKS)
    _affordable(sum(each.numel() * each.element_size() for each in outline.parameters()), where)


def _outline(config: Any, kinds: Sequence[Kind], described: object, *, most: int) -> nn.Module:
    """The model, with shapes and no contents."""
    for each in fields(config):
        _check_number(each.name, getattr(config, each.name), described, most)
    try:
        with _WithoutContents():  # type: ignore[no-untyped-call]
            return build_model(config, kinds)
    except RegardError as error:
        raise RegardError(f"{described}: {error}") from None
    except (RuntimeError, ArithmeticError, ValueError, TypeError, MemoryError) as error:
        said = " ".join(str(error).split())[:200]
        raise RegardError(f"{described}: no model can be built like this ({said})") from None


class _WithoutContents(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tensors made inside are on the meta device and filling them does nothing.

    `torch.device("meta")` would do as well, but its arithmetic imports torch's compiler: two seconds for every run
    that is loaded.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and being skipped would import the compiler too

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, func._schema.name
        if name in _MAKING:
            return torch.empty(args[0], dtype=kwargs.get("dtype"), device="meta")
        tensors = [each for each in args if isinstance(each, Tensor)]
        if any(each.is_meta for each in tensors):
            if func._schema.is_mutable:
                return args[0]
            if name in _ELEMENTWISE:
                dtype = torch.result_type(*args[:2])
                shape = np.broadcast_shapes(*(each.shape for each in tensors))
                return torch.empty(shape, dtype=dtype, device="meta")
        return func(*args, **kwargs)


def _check_number(name: str, value: Any, described: object, most: int) -> None:
    if isinstance(value, tuple):
        if len(value) > most:
            raise RegardError(f"{described}: {len(value):,} {name}, more than {most:,}")
        for part in value:
            _check_number(name, part, described, LARGEST)
    elif isinstance(value, int) and value > (limit := most if name in _COUNTS else LARGEST):
        raise RegardError(f"{described}: {name}={value}, more than {limit:,}")


def _affordable(size: int, what: object) -> None:
    memory = _memory()
    if memory is not None and size > memory:
        raise RegardError(
            f"{what}: {size / 2**30:,.1f} GiB of weights, and this machine has {memory / 2**30:,.1f} GiB"
        )


def _memory() -> int | None:
    """Bytes of memory that this machine has, where a system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
