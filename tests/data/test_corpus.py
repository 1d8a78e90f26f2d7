"""Corpora, and texts tokenised into them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import RegardError
from regard.data.batches import END, START, Sequences
from regard.data.corpus import Corpus, tokenize, tokenize_pairs
from regard.data.numbers import number_pairs
from regard.data.tokenizer import Tokenizer

rows_of_tokens = st.lists(st.lists(st.integers(0, 99), max_size=7), min_size=1, max_size=20)


@given(rows_of_tokens, st.sampled_from([0, 20, 1 << 20]))
def test_what_is_put_away_comes_back(rows, memory):
    corpus = Corpus.of(iter(rows), vocabulary=100, memory=memory)
    assert [corpus[n] for n in range(len(corpus))] == rows
    assert corpus.lengths.tolist() == [len(row) for row in rows]


@given(rows_of_tokens, st.data())
def test_a_batch_is_what_lists_would_make(rows, data):
    corpus = Corpus.of(rows, vocabulary=100)
    samples = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    before, after = data.draw(st.sampled_from([(None, None), (None, END), (START, END)]))
    found = corpus.sequences(samples, before=before, after=after)
    around = [[t for t in [before, *rows[n], after] if t is not None] for n in samples]
    expected = Sequences.of(around)
    assert torch.equal(found.tokens, expected.tokens)
    assert torch.equal(found.lengths, expected.lengths)


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_tokens_are_held_in_as_few_bytes_as_they_need(vocabulary, dtype):
    corpus = Corpus.of([[vocabulary - 1, 0]], vocabulary=vocabulary)
    assert corpus.tokens.dtype == dtype
    assert corpus[0] == [vocabulary - 1, 0]


def test_much_goes_to_a_file_and_little_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.corpus._PIECE", 10)
    rows = [[n % 90, n % 7] for n in range(1000)]
    large = Corpus.of(rows, vocabulary=100, memory=1000, folder=str(tmp_path))
    small = Corpus.of(rows, vocabulary=100, memory=4000)
    assert isinstance(large.tokens, np.memmap)
    assert not isinstance(small.tokens, np.memmap)
    assert [large[n] for n in range(1000)] == rows == [small[n] for n in range(1000)]
    assert not [*tmp_path.iterdir()]  # it has no name, so nothing is left behind


def test_rows_are_taken_as_they_come():
    """The iterator is never gathered: what it holds at once stays small."""
    import tracemalloc

    tracemalloc.start()
    try:
        corpus = Corpus.of(([n % 256] * 100 for n in range(30_000)), vocabulary=256, memory=0)
        assert (
            tracemalloc.get_traced_memory()[1] < 40e6
        )  # as lists they are 24 MB of pointers, as int64 24 MB
    finally:
        tracemalloc.stop()
    assert corpus.tokens.nbytes == 6_000_000
    assert corpus[29_999] == [29_999 % 256] * 100


@pytest.mark.parametrize("wrong", [-1, 100, 70_000])
def test_a_token_outside_the_vocabulary_is_named(wrong):
    with pytest.raises(RegardError, match=f"token {wrong} .* 100"):
        Corpus.of([[1, wrong, 2]], vocabulary=100)


def test_an_empty_corpus_has_no_samples(as_a_user):
    corpus = Corpus.of([], vocabulary=9)
    assert len(corpus) == 0
    with pytest.raises(IndexError):
        corpus[0]
    with pytest.raises(RegardError, match="no sequences"):
        corpus.sequences([])


def test_a_folder_without_room_is_named(tmp_path):
    with pytest.raises(RegardError, match="none"):
        Corpus.of([[1]], vocabulary=9, memory=0, folder=str(tmp_path / "none"))


PAIRS = number_pairs(100, seed=0)


def rows(corpus: Corpus) -> list[list[int]]:
    return [corpus[n] for n in range(len(corpus))]


@pytest.mark.parametrize("piece", [1, 7, 100, 4096])
def test_corpora_hold_the_tokens_of_the_texts_in_their_order(piece, monkeypatch):
    monkeypatch.setattr("regard.data.corpus._PIECE", piece)
    source = Tokenizer.train((a for a, _ in PAIRS), size=300)
    target = Tokenizer.train((b for _, b in PAIRS), kind="word")
    first, second = tokenize_pairs(iter(PAIRS), source, target)
    assert rows(first) == [source.encode(a) for a, _ in PAIRS]
    assert rows(second) == [target.encode(b) for _, b in PAIRS]
    assert rows(tokenize((b for _, b in PAIRS), target)) == rows(second)


def test_nothing_becomes_an_empty_corpus():
    tokenizer = Tokenizer.train(["a"], kind="word")
    assert len(tokenize([], tokenizer)) == 0
    assert [*map(len, tokenize_pairs([], tokenizer, tokenizer))] == [0, 0]
