"""Weights in CTranslate2, held against our own decoding of the same model."""

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batches import END, SPECIAL, Pairs, Sequences
from regard.decoding.decode import greedy
from regard.decoding.forced import log_probabilities
from regard.errors import RegardError
from regard.interop.ctranslate2 import save_ctranslate2
from regard.models.transformer import Transformer, TransformerConfig

SOURCE, TARGET = ([*SPECIAL, *(f"{side}{n}" for n in range(4, 23))] for side in "st")
SOURCES = [[5, 7, 11, END], [4, END], [9, 6, 18, 3, 8, END]]
pytestmark = pytest.mark.usefixtures("as_a_user")


def small(**changes: Any) -> Transformer:
    settings: dict[str, Any] = {
        "width": 24,
        "heads": 2,
        "depth": 2,
        "decoder_depth": 3,
        "hidden_width": 31,
        "tied": "none",
        "source_vocabulary": 23,
        "target_vocabulary": 23,
        "longest": 40,
    }
    model = Transformer(TransformerConfig(**settings | changes)).eval()
    for weight in model.parameters():  # biases and norms too, so that none can be left out unnoticed
        weight.data += torch.randn_like(weight) * 0.3
    return model


def theirs(model: Transformer, folder: Path) -> Any:
    save_ctranslate2(model, folder, source=SOURCE, target=TARGET)
    library = pytest.importorskip("ctranslate2")
    return library.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)


def in_words(rows: list[list[int]], names: list[str]) -> list[list[str]]:
    return [[names[token] for token in row] for row in rows]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "after"},
        {"tied": "output"},
        {"tied": "all"},
        {"feedforward": "gelu"},
        {"feedforward": "swiglu"},
        {"positions": "learned"},
        {"positions": "rotary"},
    ],
    ids=str,
)
def test_ctranslate2_gives_our_probabilities_and_texts(tmp_path: Path, changes: dict[str, Any]) -> None:
    pytest.importorskip("ctranslate2")
    model = small(**changes)
    translator = theirs(model, tmp_path)
    source = Sequences.of(SOURCES)
    targets = [[6, 6, 21], [13, 5, 22, 4], [10]]
    scored = translator.score_batch(in_words(SOURCES, SOURCE), in_words(targets, TARGET))
    ours = log_probabilities(model, Pairs(source, Sequences.of([[*row, END] for row in targets])))
    for one, other in zip(scored, ours, strict=True):
        torch.testing.assert_close(one.log_probs, other.tokens, rtol=1e-3, atol=1e-3)
    never = [[SPECIAL[0]], [SPECIAL[1]]]
    common = {
        "min_decoding_length": 0,
        "max_decoding_length": 9,
        "suppress_sequences": never,
        "return_end_token": True,
    }
    found = translator.translate_batch(in_words(SOURCES, SOURCE), beam_size=1, **common)
    written = [[*each.tokens, *[END] * each.finished] for each in greedy(model, source, limits=9)]
    assert [each.hypotheses[0] for each in found] == in_words(written, TARGET)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"norm": "inside"}, "norm='inside'"),
        ({"positions": "alibi"}, "positions='alibi'"),
        ({"kv_heads": 1}, "kv_heads=1"),
        ({"score": "cosine"}, "score='cosine'"),
        ({"position_width": 4}, "position_width=4"),
    ],
    ids=str,
)
def test_settings_that_ctranslate2_lacks_are_named(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(RegardError, match=named):
        save_ctranslate2(small(**changes), tmp_path, source=SOURCE, target=TARGET)


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(RegardError, match="22 names for a target vocabulary of 23"):
        save_ctranslate2(small(), tmp_path, source=SOURCE, target=TARGET[:-1])


def test_without_the_library_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refusing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("ctranslate2"):
            raise ImportError(name)
        return original(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(RegardError, match="pip install ctranslate2"):
        save_ctranslate2(small(), tmp_path, source=SOURCE, target=TARGET)
