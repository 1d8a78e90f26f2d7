"""The parts of a recipe that are not its model: plain values."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.data.augment import Jitter, SoundJitter
from regard.data.records import Parallel
from regard.data.text_lines import LONGEST
from regard.errors import RegardError

MAX_STEPS = 1_000_000_000
MAX_MADE = 100_000_000  # samples that are made rather than read
MAX_TOKENS = 1_000_000  # of a vocabulary, or of a text
MAX_BEAM = 1000
LARGEST_SEED = 2**63 - 1

Files = str | tuple[str, ...]  # a file, a pattern such as part-*.tsv, or several of them


def _at_least(settings: object, least: float, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) >= least:
            raise RegardError(f"{name}={getattr(settings, name)}: at least {least:g}")


def _at_most(settings: object, most: float, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) <= most:
            raise RegardError(f"{name}={getattr(settings, name)}: at most {most:,}")


def _share(settings: object, name: str) -> None:
    if not 0 <= getattr(settings, name) <= 1:
        raise RegardError(f"{name}={getattr(settings, name)}: a share, from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class NumberData:
    """Numbers in English words, to be said in French; made, not read. The test numbers are never trained on."""

    KIND: ClassVar[str] = "numbers"
    largest: int = 999_999_999
    train: int = 100_000  # pairs
    valid: int = 500
    test: int = 500

    def __post_init__(self) -> None:
        _at_least(self, 1, "largest", "train", "valid", "test")
        _at_most(self, MAX_MADE, "train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class CountingData:
    """Ten digits: are there more 4s than 2s? Made, not read, and never the same twice."""

    KIND: ClassVar[str] = "counting"
    train: int = 40_000  # samples an epoch
    valid: int = 2000
    test: int = 10_000

    def __post_init__(self) -> None:
        _at_least(self, 1, "train", "valid", "test")
        _at_most(self, MAX_MADE, "train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class _FileData:
    """What all data read from files has."""

    folder: str = ""  # where relative paths start; empty: the folder the command runs in
    held_out: float = 0.02  # of the training data, for valid and for test each, where these are not given
    policy: Literal["error", "skip"] = "error"  # what to do about a line that cannot be used
    longest: int = LONGEST  # characters of a line; a longer one is against the policy

    def __post_init__(self) -> None:
        _share(self, "held_out")
        _at_least(self, 1, "longest")
        _at_most(self, MAX_TOKENS, "longest")


@dataclass(frozen=True, kw_only=True)
class PairData(_FileData):
    """Sources and targets from files: two parallel ones, or some with both in columns (.tsv, .csv, .txt, .jsonl,
    .parquet).
    """

    KIND: ClassVar[str] = "pairs"
    train: Parallel | Files
    valid: Parallel | Files | None = None
    test: Parallel | Files | None = None
    columns: tuple[str | int, str | int] | None = None  # of source and target; see data/delimited


@dataclass(frozen=True, kw_only=True)
class TextData(_FileData):
    """Text to continue: one stream, or one text a line. Held out is its end."""

    KIND: ClassVar[str] = "text"
    train: Files
    valid: Files | None = None
    test: Files | None = None
    unit: Literal["stream", "lines"] = "stream"
    column: str | int | None = None  # of a table, whose texts are read as lines
    context: int = 256  # tokens seen at once
    held_out: float = 0.1
    longest: int = 100_000  # a paragraph of a stream may be one line

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least(self, 1, "context")
        if self.column is not None and self.unit != "lines":
            raise RegardError(f"column={self.column!r}: only with unit=lines; a stream is a file as it is")
        _at_most(self, MAX_TOKENS, "context")


@dataclass(frozen=True, kw_only=True)
class LabelledData(_FileData):
    """Texts and their classes, in two columns of files (.tsv, .csv, .txt, .jsonl, .parquet)."""

    KIND: ClassVar[str] = "labelled"
    train: Files
    valid: Files | None = None
    test: Files | None = None
    columns: tuple[str | int, str | int] | None = None  # of text and label; see data/delimited
    held_out: float = 0.05


@dataclass(frozen=True, kw_only=True)
class DigitData:
    """The 1,797 handwritten digits that come with the library, 8 × 8 pixels. A fifth is never trained on."""

    KIND: ClassVar[str] = "digits"
    jitter: Jitter = field(default_factory=lambda: Jitter(shift=1.0, turn=10.0, scale=0.1))


@dataclass(frozen=True, kw_only=True)
class ImageData(_FileData):
    """Pictures and their classes, or for a captioner their captions: a folder with one folder a class, a table of file
    and label or of file and caption (.csv, .tsv, .jsonl), a .parquet with the pictures inside, or a folder with the
    four files of the MNIST family.
    """

    KIND: ClassVar[str] = "images"
    train: str
    valid: str | None = None
    test: str | None = None
    size: tuple[int, int] = (32, 32)  # height and width that pictures are brought to
    channels: Literal[1, 3] = 3  # grey or RGB
    columns: tuple[str | int, str | int] | None = None  # of file and label or caption; see data/delimited
    held_out: float = 0.05
    jitter: Jitter = field(default_factory=Jitter)  # while training


@dataclass(frozen=True, kw_only=True)
class StripData:
    """Strips of one to six of the handwritten digits, to be read out in French; made, not read from files. The test
    strips are written with digits that are never trained on.
    """

    KIND: ClassVar[str] = "strips"
    train: int = 8192  # strips an epoch, none of which comes again
    valid: int = 500
    test: int = 1000
    jitter: Jitter = field(default_factory=lambda: Jitter(shift=1.0, turn=10.0, scale=0.1))  # of each digit

    def __post_init__(self) -> None:
        _at_least(self, 1, "train", "valid", "test")
        _at_most(self, MAX_MADE, "train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class SoundData(_FileData):
    """Recordings (WAV) and their classes, or for a transcriber what is said in them: a folder with one folder a class,
    or a table of file and label or of file and text (.csv, .tsv, .jsonl).
    """

    KIND: ClassVar[str] = "sounds"
    train: str
    valid: str | None = None
    test: str | None = None
    columns: tuple[str | int, str | int] | None = None  # of file and label or text; see data/delimited
    held_out: float = 0.05
    jitter: SoundJitter = field(default_factory=SoundJitter)  # while training


@dataclass(frozen=True, kw_only=True)
class SpokenData:
    """Spoken digits, in files named {digit}_{speaker}_{number}.wav, in a folder or a zip. One speaker is never trained on."""

    KIND: ClassVar[str] = "spoken-digits"
    folder: str = ""  # where a relative path starts; empty: the folder the command runs in
    train: str = "recordings.zip"
    speaker: str = "theo"  # who is tested on; of the others, every tenth recording is for validation
    jitter: SoundJitter = field(default_factory=SoundJitter)  # while training


@dataclass(frozen=True, kw_only=True)
class SameData(SpokenData):
    """A handwritten digit and a spoken one: are they the same? Half of them are, whatever either sense brings."""

    KIND: ClassVar[str] = "same"
    samples: int = 8192  # pairs an epoch, none of which comes again
    valid: int = 1000
    test: int = 2000
    without: Literal["nothing", "image", "sound"] = "nothing"  # a sense that is taken away: blank, or silent
    picture_jitter: Jitter = field(default_factory=lambda: Jitter(shift=1.0, turn=10.0, scale=0.1))

    def __post_init__(self) -> None:
        _at_least(self, 1, "samples", "valid", "test")
        _at_most(self, MAX_MADE, "samples", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """How text becomes tokens."""

    kind: Literal["bpe", "word", "character"] = "bpe"
    size: int = 8000  # of the vocabulary, at most
    joint: bool = True  # one vocabulary for source and target
    least: int = 1  # times a word or character must occur
    longest: int = 512  # tokens; longer samples are left out of training, and counted

    def __post_init__(self) -> None:
        _at_least(self, 1, "size", "least", "longest")
        _at_most(self, MAX_TOKENS, "size", "longest")


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Weights that are a mean over time rather than the last."""

    last: int = 0  # the mean of this many checkpoints, the newest ones
    ema: float = 0.0  # a running mean that keeps this much of itself at every update, such as 0.999

    def __post_init__(self) -> None:
        _at_least(self, 0, "last")
        _at_most(self, 10_000, "last")
        _share(self, "ema")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How the weights are found."""

    RENAMED: ClassVar[dict[str, str]] = {
        "rate": "learning_rate",
        "decay": "weight_decay",
        "replay": "cuda_graphs",
        "replay=none": "never",
        "replay=recorded": "auto",
    }
    steps: int = 10_000  # updates
    batch: int = (
        4096  # tokens (or pictures, or recordings) in an update, over all its parts and all processes
    )
    accumulate: int = 1  # parts of an update computed one after another, to save memory
    learning_rate: float = 1e-3  # at its peak
    schedule: Literal["inverse-square-root", "cosine", "constant"] = "inverse-square-root"
    warmup: int = 400  # updates until the peak
    weight_decay: float = 0.01  # of AdamW, on matrices
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0  # largest norm of the gradient; 0: any
    precision: Literal["auto", "float32", "bfloat16"] = (
        "auto"  # of the products; auto: bfloat16 where it is faster
    )
    packing: bool = False  # texts end to end in one row, instead of filled up to the longest
    # Updates captured as CUDA graphs: auto where that can be (packed or recurrent texts on one GPU), always or an error,
    # compiled as auto with compiled blocks. Not "on" and "off", which are true and false in YAML.
    cuda_graphs: Literal["never", "auto", "always", "compiled"] = "never"
    averaging: Averaging = field(default_factory=Averaging)
    evaluate: int = 500  # updates between evaluations
    decode: int = 0  # validation sources translated at each evaluation; 0: only the loss is looked at
    save: int = 500  # updates between checkpoints
    keep: int = 2  # checkpoints kept (averaging keeps as many as it needs)
    patience: int = 0  # evaluations without a better one before stopping; 0: never
    best: str = "loss"  # what patience looks at: a metric of the evaluation

    def __post_init__(self) -> None:
        _at_least(self, 1, "steps", "batch", "accumulate", "evaluate", "save", "keep")
        _at_least(self, 0, "learning_rate", "warmup", "weight_decay", "clip", "decode", "patience")
        _at_most(self, MAX_STEPS, "steps", "batch", "accumulate", "warmup", "evaluate", "save", "keep")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise RegardError(f"betas={list(self.betas)}: both from 0 to below 1")


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How a trained model is asked."""

    beam: int = 1  # hypotheses kept; 1 is greedy
    penalty: float = 1.0  # exponent of the length a score is divided by
    longest: float = 2.0  # most tokens of a translation, per token of its source …
    extra: int = 10  # … and this many more
    most: int = 2048  # tokens of a source; a longer one is refused rather than waited for
    tokens: int = 256  # most tokens that a language model continues with, or of a caption or a transcript
    temperature: float = 0.8  # of a language model; 0 is greedy
    top_k: int = 0  # likeliest tokens to draw from; 0: all
    top_p: float = 1.0  # draw from the likeliest tokens that hold this much probability
    bleu: Literal["13a", "none", "intl", "char"] = "13a"  # sacrebleu's tokenisation when evaluating

    def __post_init__(self) -> None:
        _at_least(self, 1, "beam", "tokens", "most")
        _at_least(self, 0, "longest", "extra", "temperature", "top_k")
        _at_most(self, MAX_BEAM, "beam")
        _at_most(self, MAX_TOKENS, "tokens", "most", "extra", "top_k")
        _at_most(self, 1000, "longest")
        _at_most(self, 100, "penalty")
        _at_least(self, -100, "penalty")
        _share(self, "top_p")


@dataclass(frozen=True, kw_only=True)
class Init:
    """Weights taken from an earlier run before training."""

    run: str
    parts: tuple[
        str, ...
    ] = ()  # such as encoder, decoder, source_embedding; none: everything that fits by name
    freeze: bool = False  # keep them as they are
