"""The parts of a recipe that are not its model: plain values."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.data.augment import Jitter, SoundJitter
from regard.data.given import Limited, limited
from regard.data.text_lines import LONGEST, Parallel
from regard.errors import RegardError

MAX_STEPS = 1_000_000_000
MAX_MADE = 100_000_000  # samples that are made rather than read
MAX_TOKENS = 1_000_000  # of a vocabulary, or of a text
MAX_BEAM = 1000
LARGEST_SEED = 2**63 - 1

Files = str | tuple[str, ...]  # a file, a pattern such as part-*.tsv, or several of them


@dataclass(frozen=True, kw_only=True)
class NumberData(Limited):
    """Numbers in English words, to be said in French; made, not read. The test numbers are never trained on."""

    KIND: ClassVar[str] = "numbers"
    largest: int = limited(999_999_999, 1)
    train: int = limited(100_000, 1, MAX_MADE)  # pairs
    valid: int = limited(500, 1, MAX_MADE)
    test: int = limited(500, 1, MAX_MADE)


@dataclass(frozen=True, kw_only=True)
class CountingData(Limited):
    """Ten digits: are there more 4s than 2s? Made, not read, and never the same twice."""

    KIND: ClassVar[str] = "counting"
    train: int = limited(40_000, 1, MAX_MADE)  # samples an epoch
    valid: int = limited(2000, 1, MAX_MADE)
    test: int = limited(10_000, 1, MAX_MADE)


@dataclass(frozen=True, kw_only=True)
class _FileData(Limited):
    """What all data read from files has."""

    folder: str = ""  # where relative paths start; empty: the folder the command runs in
    # Of the training data, for valid and for test each, where these are not given.
    held_out: float = limited(0.02, 0, 1)
    policy: Literal["error", "skip"] = "error"  # what to do about a line that cannot be used
    longest: int = limited(LONGEST, 1, MAX_TOKENS)  # characters of a line; a longer one is against the policy


@dataclass(frozen=True, kw_only=True)
class PairData(_FileData):
    """Sources and targets from files: two parallel ones, or some with both in columns (.tsv, .csv, .txt, .jsonl,
    .parquet).
    """

    KIND: ClassVar[str] = "pairs"
    train: Parallel | Files
    valid: Parallel | Files | None = None
    test: Parallel | Files | None = None
    columns: tuple[str | int, str | int] | None = None  # of source and target; see data/records
    # Training pairs made for every one that is read: of two to four of those joined, which makes longer texts …
    joined: float = limited(0.0, 0, 10)
    # … and for every one of both, with a source typed in a hurry: in small letters or capitals, without full stop.
    hurried: float = limited(0.0, 0, 10)


@dataclass(frozen=True, kw_only=True)
class TextData(_FileData):
    """Text to continue: one stream, or one text a line. Held out is its end."""

    KIND: ClassVar[str] = "text"
    train: Files
    valid: Files | None = None
    test: Files | None = None
    unit: Literal["stream", "lines"] = "stream"
    column: str | int | None = None  # of a table, whose texts are read as lines
    context: int = limited(256, 1, MAX_TOKENS)  # tokens seen at once
    held_out: float = limited(0.1, 0, 1)
    longest: int = limited(100_000, 1, MAX_TOKENS)  # a paragraph of a stream may be one line

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.column is not None and self.unit != "lines":
            raise RegardError(f"column={self.column!r}: only with unit=lines; a stream is a file as it is")


@dataclass(frozen=True, kw_only=True)
class LabelledData(_FileData):
    """Texts and their classes, in two columns of files (.tsv, .csv, .txt, .jsonl, .parquet)."""

    KIND: ClassVar[str] = "labelled"
    train: Files
    valid: Files | None = None
    test: Files | None = None
    columns: tuple[str | int, str | int] | None = None  # of text and label; see data/records
    held_out: float = limited(0.05, 0, 1)


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
    columns: tuple[str | int, str | int] | None = None  # of file and label or caption; see data/records
    held_out: float = limited(0.05, 0, 1)
    jitter: Jitter = field(default_factory=Jitter)  # while training


@dataclass(frozen=True, kw_only=True)
class StripData(Limited):
    """Strips of one to six of the handwritten digits, to be read out in French; made, not read from files. The test
    strips are written with digits that are never trained on.
    """

    KIND: ClassVar[str] = "strips"
    train: int = limited(8192, 1, MAX_MADE)  # strips an epoch, none of which comes again
    valid: int = limited(500, 1, MAX_MADE)
    test: int = limited(1000, 1, MAX_MADE)
    jitter: Jitter = field(default_factory=lambda: Jitter(shift=1.0, turn=10.0, scale=0.1))  # of each digit


@dataclass(frozen=True, kw_only=True)
class SoundData(_FileData):
    """Recordings (WAV) and their classes, or for a transcriber what is said in them: a folder with one folder a class,
    or a table of file and label or of file and text (.csv, .tsv, .jsonl).
    """

    KIND: ClassVar[str] = "sounds"
    train: str
    valid: str | None = None
    test: str | None = None
    columns: tuple[str | int, str | int] | None = None  # of file and label or text; see data/records
    held_out: float = limited(0.05, 0, 1)
    jitter: SoundJitter = field(default_factory=SoundJitter)  # while training


@dataclass(frozen=True, kw_only=True)
class SpokenData(Limited):
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
    samples: int = limited(8192, 1, MAX_MADE)  # pairs an epoch, none of which comes again
    valid: int = limited(1000, 1, MAX_MADE)
    test: int = limited(2000, 1, MAX_MADE)
    without: Literal["nothing", "image", "sound"] = "nothing"  # a sense that is taken away: blank, or silent
    picture_jitter: Jitter = field(default_factory=lambda: Jitter(shift=1.0, turn=10.0, scale=0.1))


@dataclass(frozen=True, kw_only=True)
class PlaceData(SpokenData):
    """A spoken digit and a written row of different digit words: at which place is the word that is said?"""

    KIND: ClassVar[str] = "spoken-place"
    words: int = limited(4, 2, 10)  # of a text
    samples: int = limited(8192, 1, MAX_MADE)  # an epoch, none of which comes again
    valid: int = limited(1000, 1, MAX_MADE)
    test: int = limited(2000, 1, MAX_MADE)
    # What is taken away: the words, their order alone (they are shuffled, the label is not), or the sound.
    without: Literal["nothing", "text", "order", "sound"] = "nothing"


@dataclass(frozen=True, kw_only=True)
class Tokens(Limited):
    """How text becomes tokens."""

    kind: Literal["bpe", "word", "character"] = "bpe"
    size: int = limited(8000, 1, MAX_TOKENS)  # of the vocabulary, at most
    joint: bool = True  # one vocabulary for source and target
    least: int = limited(1, 1)  # times a word or character must occur
    longest: int = limited(512, 1, MAX_TOKENS)  # tokens; longer samples are left out of training, and counted


@dataclass(frozen=True, kw_only=True)
class Averaging(Limited):
    """Weights that are a mean over time rather than the last."""

    last: int = limited(0, 0, 10_000)  # the mean of this many checkpoints, the newest ones
    # A running mean that keeps this much of itself at every update, such as 0.999.
    ema: float = limited(0.0, 0, 1)


@dataclass(frozen=True, kw_only=True)
class Training(Limited):
    """How the weights are found."""

    RENAMED: ClassVar[dict[str, str]] = {
        "rate": "learning_rate",
        "decay": "weight_decay",
        "replay": "cuda_graphs",
        "replay=none": "never",
        "replay=recorded": "auto",
    }
    steps: int = limited(10_000, 1, MAX_STEPS)  # updates
    # Tokens (or pictures, or recordings) in an update, over all its parts and all processes.
    batch: int = limited(4096, 1, MAX_STEPS)
    # Parts of an update computed one after another, to save memory.
    accumulate: int = limited(1, 1, MAX_STEPS)
    learning_rate: float = limited(1e-3, 0)  # at its peak
    schedule: Literal["inverse-square-root", "cosine", "constant"] = "inverse-square-root"
    warmup: int = limited(400, 0, MAX_STEPS)  # updates until the peak
    weight_decay: float = limited(0.01, 0)  # of AdamW, on matrices
    betas: tuple[float, float] = limited((0.9, 0.98), 0, below=1)
    clip: float = limited(1.0, 0)  # largest norm of the gradient; 0: any
    precision: Literal["auto", "float32", "bfloat16"] = (
        "auto"  # of the products; auto: bfloat16 where it is faster
    )
    # Texts end to end in one row, instead of filled up to the longest; auto: on a GPU, where the model reads them so.
    packing: bool | Literal["auto"] = "auto"
    # Updates captured as CUDA graphs: auto where that can be (packed or recurrent texts on one GPU), always or an error,
    # compiled as auto with compiled blocks. Not "on" and "off", which are true and false in YAML.
    cuda_graphs: Literal["never", "auto", "always", "compiled"] = "auto"
    threads: int = limited(0, 0, 4096)  # of a CPU; 0: as many as torch takes by itself
    averaging: Averaging = field(default_factory=Averaging)
    evaluate: int = limited(500, 1, MAX_STEPS)  # updates between evaluations
    # Validation sources translated at each evaluation; 0: only the loss is looked at.
    decode: int = limited(0, 0)
    save: int = limited(500, 1, MAX_STEPS)  # updates between checkpoints
    keep: int = limited(2, 1, MAX_STEPS)  # checkpoints kept (averaging keeps as many as it needs)
    patience: int = limited(0, 0)  # evaluations without a better one before stopping; 0: never
    best: str = "loss"  # what patience looks at: a metric of the evaluation


@dataclass(frozen=True, kw_only=True)
class Decoding(Limited):
    """How a trained model decodes."""

    beam: int = limited(1, 1, MAX_BEAM)  # hypotheses kept; 1 is greedy
    penalty: float = limited(1.0, -100, 100)  # exponent of the length a score is divided by
    longest: float = limited(2.0, 0, 1000)  # most tokens of a translation, per token of its source …
    extra: int = limited(10, 0, MAX_TOKENS)  # … and this many more
    # Tokens of a source; a longer one is refused rather than waited for.
    most: int = limited(2048, 1, MAX_TOKENS)
    # Most tokens that a language model continues with, or of a caption or a transcript.
    tokens: int = limited(256, 1, MAX_TOKENS)
    temperature: float = limited(0.8, 0)  # of a language model; 0 is greedy
    top_k: int = limited(0, 0, MAX_TOKENS)  # likeliest tokens to draw from; 0: all
    top_p: float = limited(1.0, 0, 1)  # draw from the likeliest tokens that hold this much probability
    bleu: Literal["13a", "none", "intl", "char"] = "13a"  # sacrebleu's tokenisation when evaluating


@dataclass(frozen=True, kw_only=True)
class Planning(Limited):
    """What a recipe leaves out is chosen from the data and the machine before training starts: sizes, vocabulary, batch,
    learning rate, and as many updates as fit into the time.
    """

    minutes: float = limited(0.0, 0, 1_000_000)  # from start to end; 0: what suits the data and the machine


@dataclass(frozen=True, kw_only=True)
class Init:
    """Weights taken from an earlier run before training."""

    run: str
    parts: tuple[
        str, ...
    ] = ()  # such as encoder, decoder, source_embedding; none: everything that fits by name
    freeze: bool = False  # keep them as they are


Data = (
    NumberData
    | CountingData
    | PairData
    | TextData
    | LabelledData
    | DigitData
    | ImageData
    | StripData
    | SoundData
    | SpokenData
    | SameData
    | PlaceData
)
FromFiles = PairData | TextData | LabelledData | ImageData | SoundData | SpokenData
