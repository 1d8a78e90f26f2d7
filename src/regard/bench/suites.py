"""The suites of `regard bench`, by name."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from regard.bench.contest import Row, bars, table
from regard.bench.measuring import load
from regard.bench.peers import PEERS, version
from regard.bench.record import Record, Setting
from regard.bench.tables import Table
from regard.errors import RegardError

SUITES = {
    "attention": "attend beside torch's kernel, the equation written out and x-transformers",
    "training": "updates of a Transformer beside torch.nn.Transformer and x-transformers",
    "decoding": "greedy and beam beside CTranslate2 and Hugging Face's Marian, on the same weights",
}
NOTES = (
    "Padded causal: `torch` has its causal flag alone, which knows no padding; `torch, masked` a matrix that was made "
    "before. Only regard keeps NaN in the padding from reaching an answer.",
    "Interleaved: in a round each contender runs once, in a shuffled order. ms is the median of the rounds, ± half of "
    "what lies between their tenth and ninetieth percentile; × regard is the time over that of regard (decoding: of its "
    "first row), the median of the ratios within rounds (tenth to ninetieth percentile).",
    "Peak MB: what tensors held at most beyond inputs and weights; decoding on the CPU: the resident set of the "
    "process, weights and libraries included.",
    "Answer: attention, the farthest from float64; training, the loss of one batch before the first update, on the "
    "same weights; decoding, texts token for token those of the first row (drawn weights decide by thin margins).",
)


def check_suites(names: Sequence[str]) -> list[str]:
    """The suites asked for; none: all."""
    unknown = next((name for name in names if name not in SUITES), None)
    if unknown is not None:
        raise RegardError(f"suite {unknown!r}: choose from {', '.join(SUITES)}")
    return list(dict.fromkeys(names)) or list(SUITES)


def run_suite(name: str, setting: Setting) -> list[Row]:
    """Everything of a suite."""
    return list(getattr(importlib.import_module(f"regard.bench.{name}"), name)(setting))


def table_of(name: str, rows: Sequence[Row]) -> Table:
    """The rows of a suite."""
    return table(f"{name.capitalize()}: {SUITES[name]}", rows)


def record_of(found: Mapping[str, Sequence[Row]], about: Mapping[str, object]) -> Record:
    """What was found, as it is written down."""
    return Record(
        name="bench",
        title="regard beside others",
        about={**about, **{PEERS[module]: version(module) for module in PEERS}, "load at end": load()},
        notes=NOTES,
        tables=[table_of(name, rows) for name, rows in found.items()],
        figures={"rows": [asdict(row) for rows in found.values() for row in rows]},
        pictures={f"bench-{name}": bars(name.capitalize(), rows) for name, rows in found.items()},
    )
