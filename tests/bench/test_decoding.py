"""Decoding beside others: each in a process of its own, with texts that can be compared."""

import math
import mmap
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.bench import decoding as suite
from regard.bench.peers import peer
from regard.bench.record import Setting
from regard.decoding.decode import greedy
from regard.models.transformer import Transformer, TransformerConfig


@pytest.fixture
def small(monkeypatch):
    """A model of the suite's kind that is made in no time."""
    config = TransformerConfig(
        norm="after", tied="none", width=16, heads=2, depth=1, decoder_depth=1, hidden_width=32, source_vocabulary=40,
        target_vocabulary=40,
    )  # fmt: skip
    monkeypatch.setattr(suite, "WORDS", 40)
    monkeypatch.setattr(suite, "_config", lambda: config)
    return suite.lively_base()


def test_every_text_has_as_many_tokens_as_were_asked_for(small):
    texts = suite.sources(6)
    assert all(7 <= len(text) <= 24 for text in texts)
    for size in (1, 4):
        assert {len(text) for text in suite.regard_decoder(small)(texts, size, 9)} == {9}


def test_marian_and_ctranslate2_write_the_same_texts(small, tmp_path):
    if peer("transformers") is None:
        pytest.skip("transformers is not installed")
    names = suite.contenders(small, tmp_path, ["float32"])
    texts = suite.sources(5)
    ours = suite.regard_decoder(small)
    others = {"transformers float32": lambda: suite.marian_decoder(tmp_path / "marian")}
    others["ctranslate2 float32"] = lambda: suite.ctranslate2_decoder(tmp_path / "ctranslate2", "float32", 1)
    for who in set(names) & others.keys():
        for size in (1, 4):
            assert others[who]()(texts, size, 6) == ours(texts, size, 6), who


def test_the_resident_set_grows_by_what_is_touched():
    def touch():  # pages from the system itself: an allocator may have 64 MB left over from before
        with mmap.mmap(-1, 64 << 20) as pages:
            for start in range(0, len(pages), mmap.PAGESIZE):
                pages[start] = 1

    before, most = suite.resident(touch)
    assert math.isnan(most) or 60 < most - before < 70


@pytest.mark.slow
def test_a_contender_answers_from_its_own_process(tmp_path):
    """With the base model, since the other process knows of no other."""
    torch.manual_seed(0)
    model = Transformer(suite._config()).eval()
    save_file(model.state_dict(), Path(tmp_path, "model.safetensors"))
    texts = suite.sources(2)
    worker = suite.Worker("regard float32", tmp_path, 1)
    try:
        given = (texts, 1, 3, False, False)
        expected = [each.tokens for each in greedy(model, suite.Sequences.of(texts), limits=3)]
        assert worker.ask("texts", *given) == expected
        assert worker.ask("time", *given) > 0
        assert worker.ask("memory", *given) > 100
    finally:
        worker.end()
    with pytest.raises((EOFError, OSError)):
        worker.ask("texts", *given)


def test_rows_compare_texts_with_the_first_contender():
    class Fake:
        def __init__(self, text):
            self.text = text

        def ask(self, what, texts, *_):
            return [self.text] * len(texts) if what == "texts" else 5.0

    everyone = {"regard float32": Fake([7, 8]), "other": Fake([7, 9]), "short": Fake([7])}
    rows = suite._rows("greedy", everyone, ([[4]] * 3, 1, 2, False, False), Setting(rounds=2))
    assert [row.check for row in rows] == [
        "equal 3/3", "equal 0/3", "equal 0/3, 3 shorter",
    ]  # fmt: skip
    assert rows[0].tokens_per_second == pytest.approx(3 * 2 / 0.005)
