"""An experiment: from a recipe to a run folder, and on from where one was left."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.file_access import locked
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.decoding.decode import evaluating
from regard.errors import Interrupted, Interruption, RegardError
from regard.models.kind import Kind
from regard.runs.checkpoints import found
from regard.runs.folder import RunFolder
from regard.runs.load import build_model, check_size, chosen, chosen_device, run_of, set_threads
from regard.runs.recipe import Recipe, changed, plain, resolve
from regard.runs.results import Metric, changed_sources, keep_sources, known_metrics, write_card
from regard.runs.settings import Init
from regard.runs.tasks import TASKS
from regard.runs.tasks.prepared import Prepared, anchored, packing_refusal, packs, recorded, summary
from regard.training.distribution import World, joined
from regard.training.loop import train
from regard.training.observers import Observer, Outcome
from regard.training.planning import Plan, make_plan
from regard.training.state import weights_of
from regard.training.transfer import differing, transfer

# What says how training goes on. All else made the weights, the optimiser and the place in the data what they are.
MAY_CHANGE = (
    *(
        f"training.{name}"
        for name in (
            "steps", "learning_rate", "schedule", "warmup", "weight_decay", "betas", "clip", "accumulate", "precision", "cuda_graphs", "threads", "evaluate",
            "decode", "save", "keep", "patience", "averaging.last",
        )
    ),
    "decoding",
)  # fmt: skip

Watchers = Callable[[RunFolder], Sequence[Observer]]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What an experiment came to."""

    run: RunFolder
    outcome: Outcome
    metrics: Sequence[Metric]  # on the test set; nothing when it was asked to stop before the end
    already: bool = False  # it was finished before, and nothing was done


def begin(
    recipe: Recipe,
    path: Path,
    *,
    overwrite: bool = False,
    device: str | None = None,
    observers: Watchers = lambda run: (),
    say: Say = lambda message: None,
    interruption: Interruption | None = None,
    began: float | None = None,
) -> Finished:
    """Train a recipe into a new run folder.

    A recipe with a `plan` is completed first: `training/planning.py`; its minutes run from `began`, by `time.monotonic`. SIGTERM and SIGINT stop it wherever it is, with
    `outcome.stopped`. A caller may open the interruption earlier.
    """
    began = time.monotonic() if began is None else began
    with _open(interruption) as asked, ExitStack() as stack, joined(chosen_device(device)) as world:
        if world.first:
            stack.enter_context(RunFolder.claimed(path, overwrite=overwrite))
        world.share(True)  # the others go on once the folder is there
        run = RunFolder(path, kinds=recipe.kinds)
        tokenizers: Mapping[str, Tokenizer] = {}
        if recipe.plan is not None:
            try:
                recipe, tokenizers = _planned(recorded(recipe), world, say, asked, began)
            except Interrupted:
                return _stopped_before(run)
        recipe = _packing_settled(recorded(recipe), world.device, say)
        return _Experiment(run, recipe, world, say, asked, tokenizers=tokenizers).go(observers)


def plan(
    recipe: Recipe, *, device: str | None = None, say: Say = lambda message: None, began: float | None = None
) -> Recipe:
    """The recipe with everything that it leaves out, and `planned` in words. Nothing is trained."""
    began = time.monotonic() if began is None else began
    with Interruption() as asked:
        world = World(torch.device(chosen_device(device)))
        return _planned(recorded(recipe), world, say, asked, began)[0]


def _planned(
    recipe: Recipe, world: World, say: Say, interruption: Interruption, began: float
) -> tuple[Recipe, Mapping[str, Tokenizer]]:
    """The plan of the first process, for all of them."""
    lender = "" if recipe.init is None else recipe.init.run

    def make() -> Plan:
        say("planning …")
        return make_plan(
            recipe,
            world.device,
            began=began,
            processes=world.size,
            known=_lent(anchored(recipe), say, name=lender),
        )

    made = world.ask_first(make, interruption)
    values = world.share({} if made is None else plain(made.recipe))
    if made is None:
        return replace(resolve(values, recipe.kinds), given=recipe.given), {}
    for line in made.recipe.planned:
        say(f"plan: {line}")
    return made.recipe, made.tokenizers


def _packing_settled(recipe: Recipe, device: torch.device, say: Say) -> Recipe:
    """The recipe with `packing` decided for the device, where it is left to the machine."""
    if recipe.training.packing != "auto":
        return recipe
    refusal = packing_refusal(recipe)
    if device.type == "cuda" and recipe.kind.reads == ("text",) and refusal is not None:
        say(f"texts are not packed: {refusal}")
    packing = device.type == "cuda" and refusal is None
    return replace(recipe, training=replace(recipe.training, packing=packing))


def resume(
    path: Path,
    *,
    changes: Sequence[str] = (),
    device: str | None = None,
    observers: Watchers = lambda run: (),
    say: Say = lambda message: None,
    interruption: Interruption | None = None,
    kinds: Sequence[Kind] = (),
    threads: int = 0,
) -> Finished:
    """Go on with a run that was killed, stopped or lost power; with `a.b=c` changes, also with one that is finished.

    On the CPU with as many threads as before, unless `threads` says otherwise.
    """
    run = RunFolder.existing(path, kinds=kinds)
    if run.is_shipped:
        raise RegardError(
            f"{path} comes with regard and is not trained further; to begin with its weights, train a recipe with "
            f"--set init.run={path}"
        )
    with (
        _open(interruption) as asked,
        joined(chosen_device(device)) as world,
        locked(run.path) if world.first else nullcontext(),
    ):
        recipe, differ = resumed_recipe(run, changes)
        if world.share(not differ and is_finished(run, recipe)):
            if world.first:
                run.tidy()  # a picture may have been under way when it was killed
            made = max((each.step for each in found(run.checkpoints)), default=recipe.training.steps)
            outcome = Outcome(step=made, weights=run.load_weights(), kind="final", metrics={}, stopped=False)
            return Finished(run=run, outcome=outcome, metrics=known_metrics(run), already=True)
        if world.first:
            for name, (before, after) in differ.items():
                say(f"{name}: {before} → {after}")
        experiment = _Experiment(run, recipe, world, say, asked, changed=tuple(differ), threads=threads)
        return experiment.go(observers, resume=True)


def prepare(
    recipe: Recipe,
    report: Report,
    *,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    labels: list[str] | None = None,
) -> Prepared:
    """Read the data of a recipe. Tokenizers and labels of an earlier start are taken as they are."""
    packs(recipe)  # which refuses what cannot be packed
    return TASKS[recipe.kind.task].prepare(recipe, report, tokenizers or {}, labels)


def _stopped_before(run: RunFolder) -> Finished:
    """The result of a training that was stopped before its first update, or before it was resumed."""
    made = max((each.step for each in found(run.checkpoints)), default=0)
    outcome = Outcome(step=made, weights={}, kind="none", metrics={}, stopped=True)
    return Finished(run=run, outcome=outcome, metrics=())


def _open(interruption: Interruption | None) -> AbstractContextManager[Interruption]:
    return Interruption() if interruption is None else nullcontext(interruption)


class _Experiment:
    """A recipe on its way to a finished run folder."""

    def __init__(
        self,
        run: RunFolder,
        recipe: Recipe,
        world: World,
        say: Say,
        interruption: Interruption,
        *,
        changed: Sequence[str] = (),  # settings that are not those of recipe.yaml
        tokenizers: Mapping[str, Tokenizer] | None = None,  # made by a plan
        threads: int = 0,  # other ones than the recipe's
    ) -> None:
        self.kept = recipe  # as it is written down
        self.recipe = anchored(recipe)  # with paths that are found from here
        self.lender = "" if recipe.init is None else recipe.init.run  # as the recipe calls it
        self.run, self.world, self.interruption = run, world, interruption
        self.say: Say = say if world.first else lambda message: None  # the first process alone reports
        self.changed, self.tokenizers = changed, tokenizers or {}
        self.threads = threads or recipe.training.threads

    def go(self, observers: Watchers, *, resume: bool = False) -> Finished:
        """Read, build, train, test, write it all down."""
        run, recipe, world = self.run, self.recipe, self.world
        if self.threads and world.device.type == "cpu":
            set_threads(self.threads)
        try:
            prepared = self._prepared(resume=resume)
        except Interrupted:
            return _stopped_before(run)
        model = self._built(prepared)
        began = time.monotonic()
        outcome = train(
            model,
            prepared.train,
            recipe.training,
            folder=run.path,
            evaluate=lambda each: {metric.name: metric.value for metric in prepared.validate(each)},
            answer=prepared.answer,
            observers=observers(run) if world.first else (),
            seed=recipe.seed,
            device=world.device,
            resume=resume,
            interruption=self.interruption,
        )
        if outcome.stopped:
            return Finished(run=run, outcome=outcome, metrics=())
        if world.first:
            run.save_weights(weights_of(model))
        self.say("evaluating on the test set …")
        try:
            metrics = world.ask_first(lambda: self._tested(prepared, model), self.interruption) or ()
        except Interrupted:
            return Finished(run=run, outcome=replace(outcome, stopped=True), metrics=())
        if world.first:
            seconds = time.monotonic() - began
            write_card(run, self.kept, {**prepared.facts, **_facts(model, outcome, seconds)}, metrics)
        world.share(True)
        return Finished(run=run, outcome=outcome, metrics=metrics)

    def _prepared(self, *, resume: bool) -> Prepared:
        """Data read; the first process writes down what was made of it, and the others take that."""
        run, recipe, world = self.run, self.recipe, self.world
        report = Report()
        begun = resume and run.config.exists()
        known = run.load_tokenizers() if begun else self.tokenizers
        known = known or _lent(recipe, self.say, name=self.lender)
        labels = run.load_labels() if begun else None
        self.say("reading the data …")
        prepared = world.ask_first(
            lambda: prepare(recipe, report, tokenizers=known, labels=labels), self.interruption
        )
        if prepared is not None:  # in the first process
            self._write(prepared, begun=begun)
        world.share(True)
        if prepared is None:
            prepared = prepare(recipe, report, tokenizers=run.load_tokenizers(), labels=run.load_labels())
        for line in summary(prepared, report):
            self.say(line)
        return prepared

    def _write(self, prepared: Prepared, *, begun: bool) -> None:
        """What is known before training. Files of a run that goes on may have been changed by hand, and stay."""
        run, recipe = self.run, self.recipe
        run.tidy()
        if begun:
            for told in (run.card, run.metrics):  # which tell of the end, and are written there again
                told.unlink(missing_ok=True)
            if self.changed:
                run.save_recipe(self.kept)
            if any(name.startswith("decoding.") for name in self.changed):
                run.save_generation(recipe.decoding)
            notice = changed_sources(run, recipe)
            if notice is not None:
                self.say(notice)
            return
        run.save_recipe(self.kept)  # not before: a folder without it is no run, and can be used again
        run.save_tokenizers(prepared.tokenizers)
        run.save_generation(recipe.decoding)
        keep_sources(run, recipe)
        run.save_config(prepared.config, prepared.labels)  # last: it says that the others are there

    def _built(self, prepared: Prepared) -> nn.Module:
        kinds = self.recipe.kinds
        check_size(prepared.config, kinds=kinds)
        torch.manual_seed(self.recipe.seed)
        model, init = build_model(prepared.config, kinds), self.recipe.init
        if init is not None:
            _transfer(model, init, prepared, self.say, name=self.lender)
        return model.to(self.world.device)

    def _tested(self, prepared: Prepared, model: nn.Module) -> list[Metric]:
        with evaluating(model):
            return prepared.test(model)


def _transfer(model: nn.Module, init: Init, prepared: Prepared, say: Say, *, name: str) -> None:
    """Take over what the recipe asks for from an earlier run, and say what that is; `name` is what it is called there."""
    taken = transfer(model, chosen(init.run).weights(), parts=init.parts, freeze=init.freeze)
    for line in [
        *taken.lines(name),
        *differing(plain(prepared.config), run_of(init.run).load_config()),
    ]:
        say(line)


def _lent(recipe: Recipe, say: Say, *, name: str) -> dict[str, Tokenizer]:
    """The tokenizers of the run that lends its embeddings, whose rows mean its tokens and no others."""
    if recipe.init is None or not (
        not recipe.init.parts or any("embedding" in part for part in recipe.init.parts)
    ):
        return {}
    found = run_of(recipe.init.run).load_tokenizers()
    if found:
        say(f"init: the tokenizer is that of {name}, whose embeddings are taken; `tokens` is not used")
    if recipe.kind.task == "translation":
        return found
    side = "target" if "target_embedding" in recipe.init.parts and "target" in found else "source"
    return {"source": found[side]} if side in found else {}  # of one text there is one vocabulary


def _facts(model: nn.Module, outcome: Outcome, seconds: float) -> Mapping[str, object]:
    """What a reader of the model card wants to know about the training."""
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "updates": outcome.step,
        "weights": outcome.kind,
        "minutes": round(seconds / 60, 1),
    }


def resumed_recipe(run: RunFolder, changes: Sequence[str]) -> tuple[Recipe, Mapping[str, tuple[Any, Any]]]:
    """The recipe of a run with `a.b=c` changes, and what they change: setting → before, after."""
    before = run.load_recipe()
    after = changed(before, changes)
    old, new = dict(_settings(plain(before))), dict(_settings(plain(after)))
    differ = {
        name: (old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)
    }
    for name in differ:
        if not any(name == each or name.startswith(each + ".") for each in MAY_CHANGE):
            raise RegardError(
                f"{name} cannot be changed on resuming: train a new run. These can: {', '.join(MAY_CHANGE)}"
            )
    made = max((each.step for each in found(run.checkpoints)), default=0)
    if after.training.steps < made:
        raise RegardError(
            f"training.steps={after.training.steps}: {run.path} has made {made} updates already"
        )
    if differ and run.weights.exists() and not made:
        raise RegardError(f"{run.path} is finished and has no checkpoint to go on from: train a new run")
    return after, differ


def is_finished(run: RunFolder, recipe: Recipe) -> bool:
    """Whether all updates are made and all is written; the card is written last.

    A run that was extended has no card until it is finished again, so it does not matter how it ended: after its
    updates, or sooner because patience did.
    """
    if not all(file.is_file() for file in (run.weights, run.metrics, run.card)):
        return False
    made = [each.step for each in found(run.checkpoints)]
    return not made or bool(recipe.training.patience) or max(made) >= recipe.training.steps


def _settings(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{above}{name}.")
        else:
            yield above + name, value
