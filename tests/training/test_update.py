"""Random numbers of an update, and updates of which little is left."""

from pathlib import Path

import torch
from training.toys import Notebook, Toy, Words, copied, plan, same, toy

from regard.data.batches import Sequences
from regard.models.protocols import Loss
from regard.training.loop import train
from regard.training.update import seed_of


def test_every_update_of_every_process_has_a_seed_of_its_own() -> None:
    seeds = {
        seed_of(seed, step, rank) % 2**32 for seed in range(5) for step in range(50) for rank in range(4)
    }
    assert len(seeds) == 1000
    assert seed_of(1, 2, 3) == seed_of(1, 2, 3)


def test_dropout_depends_on_the_seed_and_on_nothing_that_was_drawn_before(tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate([1, 1, 2]):
        model = toy(dropout=0.5)
        torch.rand(number)
        train(model, Words(), plan(steps=3), folder=tmp_path / str(number), seed=seed)
        found.append(copied(model))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_dropout_differs_between_updates(tmp_path: Path) -> None:
    drawn = []

    class Drawing(Toy):
        def loss(self, batch: Sequences) -> Loss:
            drawn.append(float(torch.rand(())))
            return super().loss(batch)

    train(Drawing(), Words(), plan(steps=6), folder=tmp_path, seed=1)
    assert len(set(drawn)) == 6


def test_an_update_that_counts_nothing_changes_nothing(tmp_path: Path) -> None:
    class Mute(Toy):
        def loss(self, batch: Sequences) -> Loss:
            loss = super().loss(batch)
            return Loss(loss.total * 0, loss.count * 0, {})

    model, notes = Mute(), Notebook()
    before = copied(model)
    train(model, Words(), plan(steps=2), folder=tmp_path, seed=1, observers=[notes])
    assert same(copied(model), before)
    assert [update.count for update in notes.updates] == [0, 0]
