"""An experiment: from a recipe to a run folder, and on from where one was left."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.data.lines import Report
from regard.data.tokenizer import Tokenizer
from regard.decoding.evaluating import evaluating
from regard.models.recurrent import RecurrentConfig
from regard.models.transformer import TransformerConfig
from regard.runs.anchoring import anchored, recorded
from regard.runs.building import build_model
from regard.runs.card import write_card
from regard.runs.chosen import chosen, run_of
from regard.runs.fitting import check_size
from regard.runs.folder import RunFolder
from regard.runs.load import chosen_device
from regard.runs.lock import locked
from regard.runs.metrics import Metric
from regard.runs.reading import plain
from regard.runs.recipe import Recipe
from regard.runs.settings import Init
from regard.runs.tasks import prepare
from regard.runs.tasks.prepared import Prepared
from regard.runs.tasks.summary import summary
from regard.training.distribution import World, joined
from regard.training.loop import train
from regard.training.observers import Observer, Outcome
from regard.training.transfer import differing, transfer
from regard.training.weights import weights_of

Watchers = Callable[[RunFolder], Sequence[Observer]]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What an experiment came to."""

    run: RunFolder
    outcome: Outcome
    metrics: Sequence[Metric]  # on the test set; nothing when it was asked to stop before the end


def begin(
    recipe: Recipe,
    path: Path,
    *,
    overwrite: bool = False,
    device: str | None = None,
    observers: Watchers = lambda run: (),
    say: Say = lambda message: None,
) -> Finished:
    """Train a recipe into a new run folder."""
    with ExitStack() as stack, joined(chosen_device(device)) as world:
        if world.first:
            stack.enter_context(RunFolder.claimed(path, overwrite=overwrite))
        world.share(True)  # the others go on once the folder is there
        return _go(RunFolder(path), recorded(recipe), world, observers, say, resume=False)


def resume(
    path: Path,
    *,
    device: str | None = None,
    observers: Watchers = lambda run: (),
    say: Say = lambda message: None,
) -> Finished:
    """Go on with a run that was killed, stopped or lost power."""
    run = RunFolder.existing(path)
    with (
        joined(chosen_device(device)) as world,
        locked(run.path) if world.first else nullcontext(),
    ):
        return _go(run, run.load_recipe(), world, observers, say, resume=True)


def _go(
    run: RunFolder, recipe: Recipe, world: World, observers: Watchers, say: Say, *, resume: bool
) -> Finished:
    if not world.first:
        say = _unheard
    kept, recipe = recipe, anchored(recipe)
    prepared = _prepared(run, recipe, kept, world, say, resume=resume)
    check_size(prepared.config)
    torch.manual_seed(recipe.seed)
    model = build_model(prepared.config)
    if recipe.init is not None and kept.init is not None:
        _transfer(model, recipe.init, prepared, say, name=kept.init.run)
    model = model.to(world.device)
    began = time.monotonic()
    outcome = train(
        model,
        prepared.train,
        recipe.training,
        folder=run.path,
        evaluate=lambda each: _numbers(prepared.validate(each)),
        observers=observers(run) if world.first else (),
        seed=recipe.seed,
        device=world.device,
        resume=resume,
    )
    if outcome.stopped:
        return Finished(run=run, outcome=outcome, metrics=())
    metrics: Sequence[Metric] = ()
    if world.first:
        run.save_weights(weights_of(model))
        say("evaluating on the test set …")
        with evaluating(model):
            metrics = prepared.test(model)
        seconds = time.monotonic() - began
        write_card(run, kept, {**prepared.facts, **_facts(model, outcome, seconds)}, metrics)
    world.share(True)
    return Finished(run=run, outcome=outcome, metrics=metrics)


def _transfer(model: nn.Module, init: Init, prepared: Prepared, say: Say, *, name: str) -> None:
    """Take over what the recipe asks for from an earlier run, and say what that is; `name` is what it is called there."""
    taken = transfer(model, chosen(init.run).weights(), parts=init.parts, freeze=init.freeze)
    for line in [
        *taken.lines(name),
        *differing(plain(prepared.config), run_of(init.run).load_config()),
    ]:
        say(line)


def _prepared(
    run: RunFolder, recipe: Recipe, kept: Recipe, world: World, say: Say, *, resume: bool
) -> Prepared:
    """Data read; the first process writes down what was made of it and the recipe to be kept, the others take that."""
    report = Report()
    begun = resume and run.config.exists()
    known = (
        run.load_tokenizers()
        if begun
        else _lent(recipe, say, name="" if kept.init is None else kept.init.run)
    )
    labels = run.load_labels() if begun else None
    say("reading the data …")
    if world.first:
        prepared = prepare(recipe, report, tokenizers=known, labels=labels)
        run.tidy()
        if not begun:  # the files of a run that goes on are read, and may have been changed by hand
            run.save_recipe(kept)  # not before: a folder without it is no run, and can be used again
            run.save_tokenizers(prepared.tokenizers)
            run.save_generation(recipe.decoding)
            run.save_config(prepared.config, prepared.labels)  # last: it says that the others are there
    world.share(True)
    if not world.first:
        prepared = prepare(recipe, report, tokenizers=run.load_tokenizers(), labels=run.load_labels())
    for line in summary(prepared, report):
        say(line)
    return prepared


def _lent(recipe: Recipe, say: Say, *, name: str) -> dict[str, Tokenizer]:
    """The tokenizers of the run that lends its embeddings, whose rows mean its tokens and no others."""
    if recipe.init is None or not (
        not recipe.init.parts or any("embedding" in part for part in recipe.init.parts)
    ):
        return {}
    found = run_of(recipe.init.run).load_tokenizers()
    if found:
        say(f"init: the tokenizer is that of {name}, whose embeddings are taken; `tokens` is not used")
    if isinstance(recipe.model, TransformerConfig | RecurrentConfig):
        return found
    side = "target" if "target_embedding" in recipe.init.parts and "target" in found else "source"
    return {"source": found[side]} if side in found else {}  # of one text there is one vocabulary


def _unheard(message: str) -> None:
    """Only the first process speaks."""


def _facts(model: nn.Module, outcome: Outcome, seconds: float) -> Mapping[str, object]:
    """What a reader of the model card wants to know about the training."""
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "updates": outcome.step,
        "weights": outcome.kind,
        "minutes": round(seconds / 60, 1),
    }


def _numbers(metrics: Sequence[Metric]) -> dict[str, float]:
    return {metric.name: metric.value for metric in metrics}
