import pytest

from regard.data.corpus import Corpus
from regard.data.numbers import number_pairs
from regard.data.tokenized import tokenize, tokenize_pairs
from regard.data.tokenizer import Tokenizer

PAIRS = number_pairs(100, seed=0)


def rows(corpus: Corpus) -> list[list[int]]:
    return [corpus[n] for n in range(len(corpus))]


@pytest.mark.parametrize("piece", [1, 7, 100, 4096])
def test_corpora_hold_the_tokens_of_the_texts_in_their_order(piece, monkeypatch):
    monkeypatch.setattr("regard.data.tokenized._PIECE", piece)
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
