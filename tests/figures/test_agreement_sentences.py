from collections import Counter

import torch

from regard.figures.agreement_sentences import LENGTH, NOUNS, encoded, every_sentence, vocabulary


def test_the_subject_alone_agrees_with_the_verb():
    for sentence in every_sentence():
        assert len(sentence.words) == LENGTH
        nouns = [place for place, word in enumerate(sentence.words) if word.removesuffix("s") in NOUNS]
        plural_verb = not sentence.words[-1].endswith("s")
        assert [place for place in nouns if sentence.words[place].endswith("s") == plural_verb] == [
            sentence.subject
        ]
        assert sentence.words[sentence.subject].removesuffix("s") == NOUNS[sentence.noun]


def test_no_place_says_which_noun_is_the_subject():
    nouns, subjects = Counter(), Counter()
    for sentence in every_sentence():
        nouns.update(p for p, word in enumerate(sentence.words) if word.removesuffix("s") in NOUNS)
        subjects[sentence.subject] += 1
    assert {place: 2 * count for place, count in subjects.items()} == nouns


def test_a_pair_of_nouns_is_held_out_both_ways_round():
    held = {}
    for sentence in every_sentence():
        pair = frozenset(word.removesuffix("s") for word in sentence.words) & set(NOUNS)
        held.setdefault(pair, set()).add(sentence.held_out)
    assert len(held) == 28
    assert all(len(found) == 1 for found in held.values())
    assert 0 < sum(found == {True} for found in held.values()) < 14


def test_words_are_encoded_by_their_number():
    sentences = every_sentence()[::100]
    words, nouns = encoded(sentences)
    names = {number: word for word, number in vocabulary().items()}
    assert [tuple(names[n] for n in row) for row in words.tolist()] == [each.words for each in sentences]
    assert torch.equal(nouns, torch.tensor([each.noun for each in sentences]))
