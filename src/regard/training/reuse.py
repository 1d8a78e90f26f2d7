"""Reuse: a classifier of texts that begins with what reads the text in an earlier run."""

import json
import os
from dataclasses import fields

from regard.errors import RegardError
from regard.models.classifier import ClassifierConfig
from regard.models.stack import StackConfig
from regard.models.transformer import TransformerConfig
from regard.runs.load import run_of
from regard.runs.recipe import Recipe

# What reads a text, as a run of each kind calls it: `transfer` finds it under the other's name.
_READING = {
    TransformerConfig.KIND: ("source_embedding", "encoder", "encoder_norm"),
    ClassifierConfig.KIND: ("embedding", "encoder", "norm"),
}
_OWN = ("dropout", "attention_dropout", "stochastic_depth")  # how it is trained, not what it computes


def reusing(recipe: Recipe, run: str | os.PathLike[str]) -> list[str]:
    """The `a.b=c` changes under which a recipe begins with the embedding and the encoder of a run, and its tokenizer.

    The settings of the blocks become those of the run, without which the weights would not fit or would compute something
    else; dropout stays the recipe's. Changes that come after these win.
    """
    if recipe.kind.name != ClassifierConfig.KIND:
        raise RegardError(
            f"--from {run} with model.kind {recipe.kind.name}: it is for a classifier of texts; others take parts of a run by "
            "--set init.run=RUN and init.parts"
        )
    theirs = run_of(run).load_config()
    kind = theirs.get("kind")
    if kind not in _READING:
        raise RegardError(
            f"--from {run}: its model.kind is {kind}, whose encoder a classifier cannot take over; give a run of a "
            f"{' or a '.join(_READING)}"
        )
    taken = [each.name for each in fields(StackConfig) if each.name not in _OWN and each.name in theirs]
    # With the norm after each block there is none at the end, and nothing to take.
    parts = [part for part in _READING[kind] if theirs.get("norm") != "after" or not part.endswith("norm")]
    init = {"run": os.fspath(run), "parts": parts}
    return [f"model.{name}={json.dumps(theirs[name])}" for name in taken] + [
        f"init={json.dumps(init, ensure_ascii=False)}"
    ]
