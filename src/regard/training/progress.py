"""Progress: a bar in a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from torch import nn

from regard.training.observers import Means, Observer, Outcome, Update


class Progress(Observer):
    """Loss, learning rate, tokens a second and time left, averaged since the last report."""

    def __init__(
        self,
        console: Console | None = None,
        *,
        every: float | None = None,  # seconds between reports: 0.5 in a terminal, 10 elsewhere
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._every = every if every is not None else (0.5 if self._console.is_terminal else 10.0)
        self._clock = clock
        self._bar: Bar | None = None
        self._means, self._since, self._first, self._steps = Means(), 0.0, 0, 0
        self._began: float | None = None

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Show the bar."""
        self._first, self._steps = step, steps
        self._since = self._began = self._clock()
        self._means = Means()
        if self._console.is_terminal:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=self._console)
            self._bar.add_task("", total=steps, completed=step, text="")
            self._bar.start()

    def stepped(self, update: Update) -> None:
        """Report, if it is time again."""
        self._means.add(update)
        now = self._clock()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=update.step)
        if now - self._since >= self._every or update.step == self._steps:
            self._report(update, now)
            self._means, self._since = Means(), now

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """A line that stays."""
        self._line(f"step {step}: " + "  ".join(f"{name} {value:.4g}" for name, value in metrics.items()))

    def noticed(self, message: str) -> None:
        """A line that stays."""
        self._line(message)

    def finished(self, outcome: Outcome) -> None:
        """How it ended."""
        if outcome.stopped:
            self._line(f"stopped after step {outcome.step}, saved: resume to go on")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _report(self, update: Update, now: float) -> None:
        speed = self._means.count / max(now - self._since, 1e-9)
        means = self._means.per_token()
        if means.get("nll") == means["loss"]:  # without smoothing they are one thing
            del means["nll"]
        text = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        text += f"  rate {update.rate:.1e}  {speed:,.0f} tokens/s"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], text=text)
            return
        left = (now - (self._began or 0.0)) / (update.step - self._first) * (self._steps - update.step)
        self._line(f"step {update.step}/{self._steps}  {text}  {_clock_time(left)} left")

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _clock_time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
