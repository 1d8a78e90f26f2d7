"""A run in the form of another library, or as a smaller run."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.interop.ctranslate2 import save_ctranslate2
from regard.interop.marian import save_marian
from regard.models.kind import Kind
from regard.models.transformer import Transformer
from regard.runs.answering import Translator
from regard.runs.checkpoints import compressed
from regard.runs.folder import RunFolder
from regard.runs.load import chosen, decoding_of, load, run_of


def export_run(
    run: str | os.PathLike[str], *, to: str, out: str | os.PathLike[str], kinds: Sequence[Kind] = ()
) -> None:
    """Write a run for `to`: "ctranslate2" or "marian", with its tokenizers beside it; or "int8", a run of any model whose
    matrices are bytes, a quarter as large. `kinds` are those of the user's own models.
    """
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RegardError(f"{target} is not empty: choose another folder with --out")
    if to == "int8":
        _as_int8(run, target, kinds)
        return
    loaded = load(run, device="cpu", optimise=False, kinds=kinds)
    if not isinstance(loaded, Translator) or not isinstance(loaded.model, Transformer):
        kind = run_of(run, kinds=kinds).load_recipe().kind
        raise RegardError(
            f"{run} is a {kind.name} model: only Transformers that translate are exported to {to}"
        )
    if to == "marian":
        save_marian(loaded.model, target)
    elif to == "ctranslate2":
        save_ctranslate2(loaded.model, target, source=_names(loaded.source), target=_names(loaded.target))
    else:
        raise RegardError(f"to={to!r}: give 'ctranslate2', 'marian' or 'int8'")
    loaded.source.save(target / "tokenizer.json")
    if loaded.target is not loaded.source:
        loaded.target.save(target / "tokenizer.target.json")


def _as_int8(run: str | os.PathLike[str], target: Path, kinds: Sequence[Kind]) -> None:
    """The files that using a run takes, with matrices in int8. Paths of its data are those of this machine: left out."""
    source = chosen(run, kinds=kinds)
    given = source.run
    # All is read before the folder is made: a run that cannot be exported leaves none behind.
    recipe, config, tokenizers = given.load_recipe(), given.load_config(), given.load_tokenizers()
    decoding, weights = decoding_of(given, recipe.decoding), compressed(source.weights())
    with RunFolder.claimed(target) as smaller:
        smaller.save_recipe(replace(recipe, base=""))
        smaller.digests.write(smaller.config, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        smaller.save_generation(decoding)
        smaller.save_tokenizers(tokenizers)
        smaller.save_weights(weights)
        for name in (given.card.name, given.metrics.name):
            if (given.path / name).exists():
                shutil.copyfile(given.path / name, target / name)
        shutil.rmtree(smaller.checkpoints)


def _names(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.name(token) for token in range(tokenizer.size)]
