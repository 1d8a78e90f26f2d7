"""The plan of a training: what its recipe leaves out, chosen from the data and the machine before training starts.

A few short trials measure how long updates take here. From then on it is an ordinary recipe of fixed updates, whose
learning rate falls to zero at its end: the same recipe gives the same bits, resumed or not. What the recipe says itself
is never changed. The numbers of the rules were found with pairs of sentences, Shakespeare and handwritten digits
(benchmarks/results/defaults.md).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log2
from typing import Any, Literal

import torch

from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.runs.load import build_model
from regard.runs.recipe import Recipe, place, resolve
from regard.runs.tasks import TASKS
from regard.runs.tasks.prepared import Prepared, anchored, packing_refusal
from regard.runs.tasks.survey import survey
from regard.training.trial import Speed, budget_of, on_threads, try_out

_MINUTES = 10.0  # where nobody says how long
_TOKENS_A_WEIGHT = (
    1.2  # that a model sees at least: of sizes with more, the largest learns most in a given time
)
_WEIGHTS_A_TOKEN = {
    "translation": 6.0,
    "language": 10.0,
}  # of all the data, at most: a larger model learns them by heart
_TOKENS_A_SAMPLE = 16  # what a picture or a recording counts as, of which a model learns one class or text
_PASSES = {
    "translation": 90,
    "language": 40,
    "classification": 40,
    "description": 100,
}  # over the data, at most
_DROPOUT = ((13, 0.0), (30, 0.1), (60, 0.2), (10**9, 0.3))  # up to so many passes
_UPDATES = 2500  # at least, before batches grow
_BATCHES = 100  # of the data, before batches grow
_EVALUATIONS = 8  # at most …
_FOR_EVALUATIONS = 0.1  # … in this share of the time; with the test at the end …
_FOR_ALL = 0.4  # … in this one, or the training is longer than it was said to be
_DECODED = 64  # validation samples decoded at each
_END = 6.0  # seconds to begin and to write down
_SLOWER = (
    1.1  # than in a trial: a training shares its machine with others, and its memory with all that it keeps
)


@dataclass(frozen=True)
class Plan:
    """A recipe that says everything, and the tokenizers that were made on the way."""

    recipe: Recipe
    tokenizers: Mapping[str, Tokenizer]


@dataclass(frozen=True)
class _Way:
    """How updates are computed."""

    threads: int
    precision: Literal["float32", "bfloat16"]


class _Draft:
    """A recipe in the making: what it says itself stays."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._values: dict[str, Any] = dict(recipe.given)

    def says(self, name: str) -> bool:
        """Whether the recipe says this setting itself."""
        value: Any = self._recipe.given
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return False
            value = value[part]
        return True

    def set(self, name: str, value: object) -> None:
        """A setting, unless the recipe says it."""
        if not self.says(name):
            self._values = place(self._values, name, value)

    def recipe(self, **changes: object) -> Recipe:
        """As it is by now, with some changes to `training`."""
        values = self._values
        for name, value in changes.items():
            values = place(values, f"training.{name}", value)
        found = resolve({**values, "plan": None}, self._recipe.kinds)
        return replace(found, base=self._recipe.base)


def make_plan(
    recipe: Recipe,
    device: torch.device,
    *,
    began: float,
    processes: int = 1,
    known: Mapping[str, Tokenizer] | None = None,
) -> Plan:
    """Choose what a recipe leaves out. `began` is when its time began to run, by `time.monotonic`; `processes` train
    together; `known` are tokenizers that are lent.
    """
    if recipe.plan is None:
        raise RegardError("this recipe says everything: there is nothing to plan; add `plan: {}` to it")
    return _Planner(recipe, device, began, processes, known or {}).plan()


class _Planner:
    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        began: float,
        processes: int,
        known: Mapping[str, Tokenizer],
    ) -> None:
        self.recipe, self.device, self.began, self.processes, self.known = (
            recipe,
            device,
            began,
            processes,
            known,
        )
        self.threads = recipe.training.threads
        self.draft = _Draft(recipe)
        self.minutes = recipe.plan.minutes if recipe.plan is not None and recipe.plan.minutes else _MINUTES
        if self.draft.says("training.steps") and recipe.plan is not None and recipe.plan.minutes:
            raise RegardError(
                f"training.steps={recipe.training.steps} and plan.minutes={recipe.plan.minutes:g}: say how many updates or how "
                "long, not both"
            )
        self.task = recipe.kind.task
        self.media = recipe.kind.reads != ("text",)

    def plan(self) -> Plan:
        """The recipe that says everything."""
        draft = self.draft
        found = survey(anchored(self.recipe))
        for name, value in found.settings.items():
            draft.set(name, value)
        packed = not self.media and packing_refusal(self.recipe) is None
        draft.set("training.packing", packed and (self.task != "language" or self.device.type == "cuda"))
        draft.set("training.schedule", "cosine")
        largest = 512 if self.media else 8192
        first = draft.recipe(batch=largest, decode=_DECODED, steps=1_000_000)
        quick = replace(first.decoding, beam=1, longest=1.0, extra=3, tokens=min(first.decoding.tokens, 40))
        first = anchored(replace(first, decoding=quick))
        reading = time.monotonic()
        prepared = TASKS[self.task].prepare(first, Report(), self.known, None)
        self.reading = time.monotonic() - reading  # the data are read again when training starts
        self.epoch = len(prepared.train.order(0)) * budget_of(prepared.train)
        size, reason = self._size(first, prepared)
        for name, value in size.items():
            draft.set(f"model.{name}", value)
        batch = self._batch(first, prepared, size)
        draft.set("training.batch", batch)
        way, speed = self._quickest(first, prepared, size, batch)
        draft.set("training.threads", way.threads if self.device.type == "cpu" else 0)
        draft.set("training.precision", way.precision)
        lines = self._length(prepared, size, way, speed, batch)
        told = (
            f"{found.told}, {self._where(way)}, {self.minutes:g} minutes",
            f"model: {reason}",
            *(f"data: {each}" for each in found.reasons),
            *lines,
        )
        made = replace(draft.recipe(), planned=told)
        return Plan(made, prepared.tokenizers)

    def _where(self, way: _Way) -> str:
        if self.device.type == "cpu":
            return f"{way.threads} thread{'s' * (way.threads > 1)} of the CPU in {way.precision}"
        return f"a GPU in {way.precision}"

    def _left(self) -> float:
        return max(60 * self.minutes - (time.monotonic() - self.began), 1.0)

    def _tried(
        self,
        first: Recipe,
        prepared: Prepared,
        size: Mapping[str, Any],
        way: _Way,
        batch: int,
        share: float = 0.005,
    ) -> Speed:
        training = replace(first.training, batch=batch, precision=way.precision)
        seconds = min(max(share * 60 * self.minutes, 0.5), 10.0)
        with on_threads(way.threads):
            return try_out(
                replace(first, training=training),
                replace(prepared.config, **size),
                prepared.train,
                self.device,
                seconds=seconds,
            )

    def _size(self, first: Recipe, prepared: Prepared) -> tuple[dict[str, Any], str]:
        """The settings of the size of the model, and the reason."""
        sizes, batch = self._sizes(), self._usual_batch(prepared)
        way = _Way(self.threads or torch.get_num_threads(), "float32")
        tried: list[Speed] = []
        while len(tried) < len(sizes) and (not tried or self._suits(tried[-1], batch)):
            tried.append(self._tried(first, prepared, sizes[len(tried)], way, batch))
        chosen = max((n for n, each in enumerate(tried) if self._suits(each, batch)), default=0)
        speed, size = tried[chosen], sizes[chosen]
        if not size:
            return size, f"{speed.weights:,} parameters, as the recipe says"
        depths = " + ".join(str(size[name]) for name in ("depth", "decoder_depth") if name in size)
        reason = f"{size['width']} wide, {depths} blocks, {speed.weights:,} parameters"
        if chosen + 1 < len(tried):
            reason += f"; {sizes[chosen + 1]['width']} wide would {self._obstacle(tried[chosen + 1], batch)}"
        return size, reason

    def _usual_batch(self, prepared: Prepared) -> int:
        """A batch to try sizes with."""
        if self.draft.says("training.batch"):
            return self.recipe.training.batch
        return min(64 if self.media else 1024, budget_of(prepared.train))

    def _batch(self, first: Recipe, prepared: Prepared, size: Mapping[str, Any]) -> int:
        """The batch: small, until there are many updates of many batches."""
        batch = self._usual_batch(prepared)
        if self.draft.says("training.batch"):
            return batch
        way = _Way(self.threads or torch.get_num_threads(), "float32")
        seen = self._tokens(self._tried(first, prepared, size, way, batch), batch)
        least, most = (16, 512) if self.media else (256, 16_384)
        return _power(min(seen / _UPDATES, self.epoch / _BATCHES), least, most)

    def _sizes(self) -> tuple[dict[str, Any], ...]:
        sizes = tuple(dict(each) for each in self.recipe.kind.sizes)
        said = any(self.draft.says(f"model.{name}") for name in ("preset", *sizes[0]))
        return ({},) if said else sizes

    def _quickest(
        self, first: Recipe, prepared: Prepared, size: Mapping[str, Any], batch: int
    ) -> tuple[_Way, Speed]:
        """Of the threads and precisions there are."""
        said = self.recipe.training.precision
        precisions: tuple[Literal["float32", "bfloat16"], ...] = ("float32",)
        if self.draft.says("training.precision") and said != "auto":
            precisions = (said,)
        elif self.device.type == "cuda" or torch.cpu._is_avx512_bf16_supported():
            precisions = ("float32", "bfloat16")
        every = torch.get_num_threads()
        threads = [self.threads] if self.threads else [every, 1] if every > 1 else [1]
        if self.device.type != "cpu":
            threads = [every]
        ways = [_Way(count, precision) for precision in precisions for count in threads]
        share = 0.02 / len(ways)
        found = {way: self._tried(first, prepared, size, way, batch, share) for way in ways}
        way = min(ways, key=lambda each: found[each].seconds)
        return way, found[way]

    def _tokens(self, speed: Speed, batch: int) -> float:
        """That training would see."""
        if self.draft.says("training.steps"):
            return self.recipe.training.steps * batch
        return min(0.85 * self._left() / speed.seconds * batch, _PASSES[self.task] * self.epoch)

    def _unit(self) -> int:
        return _TOKENS_A_SAMPLE if self.media else 1

    def _suits(self, speed: Speed, batch: int) -> bool:
        return self._obstacle(speed, batch) is None

    def _obstacle(self, speed: Speed, batch: int) -> str | None:
        """Why a model of this speed is too large, if it is."""
        seen = self._tokens(speed, batch) * self._unit() / speed.products
        most = _WEIGHTS_A_TOKEN.get(self.task)
        if most is not None and speed.products > most * self.epoch:
            return f"learn so few data by heart ({speed.products / self.epoch:.1f} weights a token)"
        if seen < _TOKENS_A_WEIGHT:
            return f"see too little in that time ({seen:.1f} tokens a weight)"
        return None

    def _length(
        self, prepared: Prepared, size: Mapping[str, Any], way: _Way, speed: Speed, batch: int
    ) -> tuple[str, ...]:
        """How many updates, and what follows from that; in words."""
        draft, width = self.draft, int(size.get("width", getattr(prepared.config, "width", 256)))
        evaluations, testing = self._testing(prepared, size, way)
        seconds = _SLOWER * speed.seconds
        seconds *= batch / min(batch, budget_of(prepared.train))  # where no such batch was at hand
        if self.processes > 1:  # each makes a part of every update, and they wait for one another
            seconds /= 0.8 * self.processes
        updates = int((self._left() - testing - self.reading - _END) / seconds)
        passes = _PASSES[self.task] * self.epoch / batch
        limit = "as many as the time allows"
        if updates > passes:
            updates, limit = int(passes), f"{_PASSES[self.task]} passes are enough"
        if draft.says("training.steps"):
            updates, limit = self.recipe.training.steps, "as the recipe says"
        updates = max(updates, 20)
        draft.set("training.steps", updates)
        rate = min((0.2 if self.media else 0.5) / width, 4e-3)
        draft.set("training.learning_rate", float(f"{rate:.2g}"))
        draft.set("training.warmup", min(max(updates // 12, 10), 2000))
        every = max(-(-updates // evaluations), 1)
        draft.set("training.evaluate", every)
        draft.set("training.save", max(1, min(every, int(120 / seconds))))
        if self.task in ("translation", "description"):
            draft.set("training.decode", _DECODED)
        seen = updates * batch / self.epoch
        dropout = next(share for passes, share in _DROPOUT if seen <= passes)
        draft.set("model.dropout", dropout)
        made = draft.recipe().training
        unit = "samples" if self.media else "tokens"
        return (
            f"training: {updates:,} updates of {made.batch:,} {unit} ({limit}), {seen:.1f} passes over the data, learning rate "
            f"{made.learning_rate:g} after {made.warmup} updates, dropout {draft.recipe().model.dropout:g}",
            f"forecast: {seconds:.3g} s an update, {_clock(updates * seconds)} of training, {_clock(testing)} of "
            f"evaluations, {_clock(time.monotonic() - self.began)} so far",
        )

    def _testing(self, prepared: Prepared, size: Mapping[str, Any], way: _Way) -> tuple[int, float]:
        """How many evaluations there are to be, and the seconds that they and the test will take.

        Two are made with a model that has learned nothing: the first of them prepares kernels.
        """
        model = build_model(replace(prepared.config, **size), self.recipe.kinds).to(self.device)
        with on_threads(way.threads), torch.no_grad(), evaluating(model):
            for _ in range(2):
                began = time.perf_counter()
                prepared.validate(model)
                seconds = time.perf_counter() - began
        tests = next((count for name, count in prepared.facts.items() if name.startswith("test ")), 0)
        last = seconds
        if self.task in ("translation", "description") and isinstance(tests, int):
            last *= max(1.0, tests / _DECODED)
        evaluations = min(max(int(_FOR_EVALUATIONS * self._left() / seconds), 1), _EVALUATIONS)
        return evaluations, min(evaluations * seconds + last, _FOR_ALL * self._left())


def _power(wanted: float, least: int, most: int) -> int:
    """The nearest power of two, within limits."""
    return min(max(1 << round(log2(max(wanted, 1.0))), least), most)


def _clock(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
