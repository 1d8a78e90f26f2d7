"""A run in the form of another library."""

import os
from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.interop.ctranslate2 import save_ctranslate2
from regard.interop.marian import save_marian
from regard.models.transformer import Transformer
from regard.runs.answering import Translator
from regard.runs.load import load, run_of


def export_run(run: str | os.PathLike[str], *, to: str, out: str | os.PathLike[str]) -> None:
    """Write a run for `to`, "ctranslate2" or "marian", with its tokenizers beside it."""
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RegardError(f"{target} is not empty: choose another folder with --out")
    loaded = load(run, device="cpu", optimise=False)
    if not isinstance(loaded, Translator) or not isinstance(loaded.model, Transformer):
        kind = run_of(run).load_recipe().kind
        raise RegardError(f"{run} is a {kind.name} model: only Transformers that translate are exported")
    if to == "marian":
        save_marian(loaded.model, target)
    elif to == "ctranslate2":
        save_ctranslate2(loaded.model, target, source=_names(loaded.source), target=_names(loaded.target))
    else:
        raise RegardError(f"to={to!r}: give 'ctranslate2' or 'marian'")
    loaded.source.save(target / "tokenizer.json")
    if loaded.target is not loaded.source:
        loaded.target.save(target / "tokenizer.target.json")


def _names(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.name(token) for token in range(tokenizer.size)]
