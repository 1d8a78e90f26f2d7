"""What a person sees of a training."""

import io

from rich.console import Console
from torch import nn

from regard.training.observers import Outcome, Update
from regard.training.progress import Progress


def update(step: int, total: float, count: int) -> Update:
    return Update(step=step, epoch=0, total=total, count=count, metrics={}, rate=1e-3, norm=1.0)


def shown(*, terminal: bool, every: float) -> str:
    out, now = io.StringIO(), [50.0]
    console = Console(file=out, force_terminal=terminal, width=200, legacy_windows=False)
    progress = Progress(console, every=every, clock=lambda: now[0])
    progress.started(nn.Identity(), step=4, steps=10)
    for step, total, count in [(5, 10.0, 10), (6, 90.0, 30), (7, 30.0, 10), (8, 30.0, 10)]:
        now[0] += 1.0
        progress.stepped(update(step, total, count))
    progress.evaluated(8, {"loss": 1.23456, "bleu": 31.4})
    progress.noticed("[step] is broken")
    progress.finished(Outcome(step=8, weights={}, kind="last", metrics={}, stopped=True))
    progress.close()
    return out.getvalue()


def test_elsewhere_a_plain_line_now_and_then_with_means_over_tokens() -> None:
    assert shown(terminal=False, every=2.0).splitlines() == [
        "step 6/10  loss 2.500  rate 1.0e-03  20 tokens/s  0:00:04 left",
        "step 8/10  loss 3.000  rate 1.0e-03  10 tokens/s  0:00:02 left",
        "step 8: loss 1.235  bleu 31.4",
        "[step] is broken",
        "stopped after step 8, saved: resume to go on",
    ]


def test_in_a_terminal_a_bar() -> None:
    text = shown(terminal=True, every=2.0)
    for part in ("8/10", "loss 3.000", "10 tokens/s", "step 8: loss 1.235", "━"):
        assert part in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor was hidden, and came back
