"""Corpora, and texts tokenised into them."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import RegardError
from regard.data.batches import END, START, Feed, Pairs, Sequences, each_once
from regard.data.feeds import Corpus, LabelledFeed, PairFeed, TextFeed, tokenize, tokenize_pairs
from regard.data.numbers import number_pairs
from regard.data.stream_feed import StreamFeed
from regard.data.tokenizer import Tokenizer


def corpus_of(lengths, *, vocabulary: int = 50) -> Corpus:
    rng = np.random.default_rng(5)
    return Corpus.of([rng.integers(4, vocabulary, n).tolist() for n in lengths], vocabulary=vocabulary)


def lengths_of(count: int, *, seed: int = 0) -> list[int]:
    return np.clip(np.random.default_rng(seed).lognormal(2.5, 0.6, count), 0, 90).astype(int).tolist()


SOURCES, TARGETS = corpus_of(lengths_of(900)), corpus_of(lengths_of(900, seed=1))


def feeds(budget: int = 200, seed: int = 3, longest: int | None = None) -> list[Feed]:
    return [
        PairFeed(SOURCES, TARGETS, budget=budget, seed=seed, longest=longest),
        TextFeed(SOURCES, budget=budget, seed=seed, longest=longest),
        LabelledFeed(SOURCES, [n % 3 for n in range(900)], budget=budget, seed=seed, longest=longest),
    ]


@pytest.mark.parametrize("feed", feeds(), ids=lambda feed: type(feed).__name__)
def test_every_sample_comes_once_in_every_epoch(feed):
    for epoch in range(3):
        assert sorted(chain(*feed.order(epoch))) == [*range(900)]
    assert sum(len(batch) for batch in each_once(feed)) == 900


@pytest.mark.parametrize("budget", [1, 30, 200, 5000])
def test_no_batch_of_several_is_over_the_budget(budget):
    for feed in feeds(budget):
        for samples in feed.order(1):
            batch = feed.batch(samples)
            sides = (
                [batch.source, batch.target]
                if isinstance(batch, Pairs)
                else [getattr(batch, "inputs", batch)]
            )
            assert len(samples) == 1 or max(side.tokens.numel() for side in sides) <= budget


def test_batches_are_as_full_as_the_budget_allows():
    """One more of the next length would not fit: checked by a walk over sorted lengths, one sample at a time."""
    feed = TextFeed(SOURCES, budget=200, seed=0)
    expected, rows = [], 0
    for length in sorted(SOURCES.lengths + 2):
        if rows and (rows + 1) * length > 200:
            expected.append(rows)
            rows = 0
        rows += 1
    assert sorted(map(len, feed.order(0))) == sorted([*expected, rows])


def test_little_is_filling():
    many = corpus_of(lengths_of(20_000)), corpus_of(lengths_of(20_000))  # the same lengths on both sides
    for feed, least in [
        (PairFeed(*many, budget=4096, seed=0), 0.96),
        (TextFeed(many[0], budget=4096, seed=0), 0.96),
    ]:
        real = filled = 0
        for batch in each_once(feed):
            side = batch.source if isinstance(batch, Pairs) else batch
            real, filled = real + int(side.lengths.sum()), filled + side.tokens.numel()
        assert real / filled > least


def test_the_order_is_a_pure_function_of_seed_and_epoch():
    for first, second, other in zip(feeds(), feeds(), feeds(seed=4), strict=True):
        torch.manual_seed(1)
        np.random.seed(1)
        expected = [*first.order(2)]
        state = torch.random.get_rng_state()
        first.order(7)
        second.order(0)
        assert [*second.order(2)] == expected  # whatever was asked before
        assert torch.equal(torch.random.get_rng_state(), state)
        assert [*first.order(3)] != expected
        assert [*other.order(2)] != expected


def test_epochs_mix_samples_as_well_as_batches():
    feed = TextFeed(corpus_of([10] * 500), budget=120, seed=0)
    first, second = ({frozenset(batch) for batch in feed.order(epoch)} for epoch in (0, 1))
    assert len(first & second) == 0
    lengths = [len(SOURCES[batch[0]]) for batch in TextFeed(SOURCES, budget=100, seed=0).order(0)]
    assert lengths != sorted(lengths)


def test_the_order_of_a_seed_does_not_change_with_versions():
    """A run resumed next year goes on in the same order: these are written down."""
    assert [*TextFeed(corpus_of([1, 2, 3, 4, 5, 6]), budget=14, seed=1).order(2)] == [
        [2, 3],
        [0, 1],
        [4],
        [5],
    ]


def test_both_sides_end_with_end_and_belong_together():
    feed = PairFeed(SOURCES, TARGETS, budget=200, seed=3)
    for samples in list(feed.order(0))[:20]:
        batch = feed.batch(samples)
        for row, sample in enumerate(samples):
            for side, corpus in [(batch.source, SOURCES), (batch.target, TARGETS)]:
                assert side.tokens[row, : side.lengths[row]].tolist() == [*corpus[sample], END]
                assert (side.tokens[row, side.lengths[row] :] == 0).all()


def test_texts_begin_with_start_and_labels_stay_with_their_texts():
    batch = TextFeed(SOURCES, budget=200, seed=0).batch([5, 8])
    assert batch.tokens[1, : batch.lengths[1]].tolist() == [START, *SOURCES[8], END]
    labelled = LabelledFeed(SOURCES, [7 * n for n in range(900)], budget=200, seed=0).batch([8, 5])
    assert labelled.labels.tolist() == [56, 35]
    assert labelled.inputs.tokens[1, : labelled.inputs.lengths[1]].tolist() == [*SOURCES[5], END]


def test_samples_that_are_too_long_are_left_out_and_counted():
    pairs, texts, _ = feeds(longest=20)
    kept = [n for n in range(900) if max(SOURCES.lengths[n], TARGETS.lengths[n]) + 1 <= 20]
    assert sorted(chain(*pairs.order(0))) == kept
    assert pairs.left_out == 900 - len(kept) > 0
    assert sorted(chain(*texts.order(0))) == [n for n in range(900) if SOURCES.lengths[n] + 2 <= 20]


def test_a_million_samples_are_put_in_order_without_walking_over_them(monkeypatch):
    """The loop goes over batches: it cuts a few thousand times, not a million."""
    lengths = np.clip(np.random.default_rng(0).lognormal(3, 0.6, 1_000_000), 1, 400).astype(np.int64)
    corpus = Corpus(np.zeros(1, np.uint16), np.cumsum(lengths))
    order = TextFeed(corpus, budget=8192, seed=0).order(0)
    assert len(order) < 5000
    samples = np.concatenate([np.array(batch) for batch in order])
    assert np.array_equal(np.sort(samples), np.arange(1_000_000))


def test_what_cannot_be_fed_is_refused_by_name():
    with pytest.raises(RegardError, match="900 sources and 3 targets"):
        PairFeed(SOURCES, corpus_of([1, 2, 3]), budget=10, seed=0)
    with pytest.raises(RegardError, match="900 texts and 2 labels"):
        LabelledFeed(SOURCES, [0, 1], budget=10, seed=0)
    with pytest.raises(RegardError, match="budget=0"):
        TextFeed(SOURCES, budget=0, seed=0)
    with pytest.raises(RegardError, match="context=0"):
        StreamFeed(np.zeros(5, np.uint16), context=0, budget=4, seed=0)
    with pytest.raises(RegardError, match="seed=-1"):
        TextFeed(SOURCES, budget=10, seed=-1).order(0)


def test_a_feed_of_nothing_has_no_batches():
    empty = Corpus.of([], vocabulary=9)
    assert [*TextFeed(empty, budget=10, seed=0).order(0)] == []


def packed_feeds(budget: int = 200, seed: int = 3) -> list[Feed]:
    return [
        PairFeed(SOURCES, TARGETS, budget=budget, seed=seed, packed=True),
        TextFeed(SOURCES, budget=budget, seed=seed, packed=True),
        LabelledFeed(SOURCES, [n % 3 for n in range(900)], budget=budget, seed=seed, packed=True),
    ]


@pytest.mark.parametrize("feed", packed_feeds(), ids=lambda feed: type(feed).__name__)
def test_packed_samples_come_once_in_every_epoch_and_in_an_order_of_its_own(feed):
    for epoch in range(3):
        assert sorted(chain(*feed.order(epoch))) == [*range(900)]
    assert list(feed.order(1)) == list(feed.order(1))
    assert list(feed.order(1)) != list(feed.order(2))


@pytest.mark.parametrize("budget", [1, 30, 200, 5000])
def test_packed_batches_hold_as_many_tokens_of_each_side_as_the_budget_allows(budget):
    feed = PairFeed(SOURCES, TARGETS, budget=budget, seed=3, packed=True)
    order = feed.order(0)
    for samples, following in zip(order, [*order[1:], []], strict=True):
        batch = feed.batch(samples)
        sizes = [len(side.tokens) for side in (batch.source, batch.target)]
        assert max(sizes) <= budget or len(samples) == 1
        if len(following):
            more = [int(side.lengths[following[0]]) + 1 for side in (SOURCES, TARGETS)]
            assert any(size + one > budget for size, one in zip(sizes, more, strict=True))


def test_packed_batches_hold_the_tokens_of_padded_ones():
    for padded, packed in zip(feeds(), packed_feeds(), strict=True):
        samples = [5, 0, 899, 17]
        one, other = padded.batch(samples), packed.batch(samples)
        sides = [(one, other)]
        if isinstance(one, Pairs):
            sides = [(one.source, other.source), (one.target, other.target)]
        elif hasattr(one, "inputs"):
            assert torch.equal(one.labels, other.labels)
            sides = [(one.inputs, other.inputs)]
        for rows, row in sides:
            assert torch.equal(rows.tokens[rows.real()], row.tokens)
            assert torch.equal(rows.lengths, row.lengths)
            assert (row.longest, row.shortest) == (int(rows.lengths.max()), int(rows.lengths.min()))


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
    monkeypatch.setattr("regard.data.feeds._PIECE", 10)
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
    monkeypatch.setattr("regard.data.feeds._PIECE", piece)
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
