"""Trials of how long an update takes."""

import torch
from runs.small import numbers

from regard.data.text_lines import Report
from regard.training.experiment import prepare
from regard.training.trial import budget_of, on_threads, try_out


def test_a_trial_counts_the_weights_and_leaves_nothing_behind():
    recipe = numbers()
    prepared = prepare(recipe, Report())
    speed = try_out(recipe, prepared.config, prepared.train, torch.device("cpu"), seconds=0.05)
    assert speed.seconds > 0
    vocabulary, width = prepared.config.source_vocabulary, prepared.config.width
    tables = speed.weights - speed.products
    assert tables >= vocabulary * width  # embeddings do not multiply
    assert budget_of(prepared.train) == recipe.training.batch


def test_threads_are_put_back():
    before = torch.get_num_threads()
    with on_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
