import math

import numpy as np
import pytest
import torch

from regard import ScaledDot
from regard.data.letter_vectors import spell
from regard.sight.pictures.gallery import mask_maps, masks_over, score_maps

WORDS = ["who", "watches", "the", "watchmen", "while", "the", "watchmen", "watch", "the", "watch"]


def test_all_six_scores_are_shown_once():
    shown = score_maps(WORDS)
    names = ["Dot", "ScaledDot", "Cosine", "Bilinear", "LowRank", "Additive"]
    assert [type(each.call.score).__name__ for each in shown] == [each.name for each in shown] == names
    assert len({each.picture.weights.tobytes() for each in shown}) == 6


def test_the_scaled_dot_map_is_the_softmax_written_in_numpy():
    vectors = spell(WORDS).double().numpy()
    scores = np.exp(vectors @ vectors.T / math.sqrt(vectors.shape[1]))
    expected = scores / scores.sum(1, keepdims=True)
    for picture in (score_maps(WORDS)[1].picture, mask_maps(WORDS)[0].picture):
        np.testing.assert_allclose(picture.weights, expected, atol=1e-6)


def test_rows_sum_to_one_or_to_nothing_where_nothing_may_be_seen():
    for each in [*score_maps(WORDS), *mask_maps(WORDS)]:
        some = each.picture.allowed.any(1)
        np.testing.assert_allclose(each.picture.weights.sum(1), some.astype(float), atol=1e-5)
        assert not each.picture.weights[~each.picture.allowed].any()


def test_under_every_score_the_same_words_find_one_another():
    for each in score_maps(WORDS):
        for row in (2, 3, 7):
            best = set(np.argsort(each.picture.weights[row])[-WORDS.count(WORDS[row]) :].tolist())
            assert {WORDS[key] for key in best} == {WORDS[row]}, each.name


@pytest.mark.parametrize("count", [1, 2, 3, 10, 60])
def test_each_mask_is_what_its_name_and_its_rule_say(count):
    from regard import causal, documents, lengths, prefix, window

    split = max(1, 2 * count // 5)
    ids = torch.arange(count) // split if count <= 1 else (torch.arange(count) >= split).long()
    known = {
        "causal": causal,
        "documents": documents,
        "lengths": lengths,
        "prefix": prefix,
        "window": window,
        "ids": ids,
    }
    i, j = np.ogrid[:count, :count]
    idᵢ = ids.numpy()[:, None]
    idⱼ = ids.numpy()[None, :]
    for name, rule, _, mask in masks_over(count):
        if mask is None:
            continue
        drawn = mask.dense(count, count).numpy()
        assert np.array_equal(drawn, eval(name, known).dense(count, count).numpy()), name
        sides = [_holds(part, i, j, idᵢ, idⱼ) for part in rule.split(" or ")]
        assert np.array_equal(
            drawn, np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*sides)), drawn.shape)
        ), rule


def _holds(rule, i, j, left, right):
    """A rule as the pictures write it, read by Python."""
    if rule == "idᵢ = idⱼ":
        return left == right
    if rule.startswith("i, j < "):
        return (i < int(rule[7:])) & (j < int(rule[7:]))
    text = rule.replace("≤", "<=").replace("−", "-").replace("|i - j|", "abs(i - j)")
    if text.startswith("0 <= i - j < "):
        return (i - j >= 0) & (i - j < int(text[13:]))
    return eval(text, {"i": i, "j": j})


def test_all_masks_differ_on_the_sentence_of_the_demo():
    drawings = [each.picture.allowed.tobytes() for each in mask_maps(WORDS)]
    assert len(set(drawings)) == len(drawings) == 8
    assert all(isinstance(each.call.score, ScaledDot) for each in mask_maps(WORDS))
