"""Plans: what a recipe says is kept, what it leaves out follows from the data and from how long updates take."""

import time
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest
import torch
from runs.small import numbers, write_table, write_text

from regard.data.numbers import number_pairs
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.recipe import Recipe, find, plain, resolve, written
from regard.training import experiment, planning
from regard.training.experiment import begin, plan
from regard.training.trial import Speed


def write_pairs(folder: Path, count: int = 300) -> Path:
    pairs = number_pairs(count, largest=99_999, seed=3, part="train")
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    return path


@pytest.fixture
def steady(monkeypatch):
    """A machine on which a weight takes so long for every thousand tokens, whatever else it does."""

    def set_speed(nanoseconds: float) -> None:
        def tried(recipe: Recipe, config, feed, device, *, seconds: float) -> Speed:
            width, depth = config.width, config.depth + getattr(config, "decoder_depth", 0)
            weights = 12 * width * width * depth
            batch = recipe.training.batch
            slower = 1.0 if torch.get_num_threads() == 2 else 1.5
            return Speed(1e-9 * nanoseconds * weights * batch / 1000 * slower, weights + 1000, weights)

        monkeypatch.setattr(planning, "try_out", tried)
        monkeypatch.setattr(planning._Planner, "_testing", lambda *_: (8, 10.0))
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        monkeypatch.setattr(planning, "on_threads", lambda count: Threads(monkeypatch, count))

    return set_speed


class Threads:
    def __init__(self, patch, count: int) -> None:
        self.patch, self.count = patch, count

    def __enter__(self) -> None:
        self.patch.setattr(torch, "get_num_threads", lambda: self.count)

    def __exit__(self, *_) -> None:
        self.patch.setattr(torch, "get_num_threads", lambda: 2)


def planned(*changes: str, name: str = "translate") -> Recipe:
    return plan(find(name, changes), device="cpu")


def test_a_plan_says_everything_and_has_no_plan_any_more(tmp_path, steady):
    steady(100.0)
    recipe = planned(f"data.train={write_pairs(tmp_path)}", "plan.minutes=5")
    assert recipe.plan is None
    assert any("updates of" in line for line in recipe.planned)
    again = resolve(plain(recipe))
    assert plain(again) == plain(recipe)
    assert recipe.training.threads == 2  # one thread is slower here
    assert recipe.training.precision == "float32"
    assert recipe.training.schedule == "cosine"
    assert recipe.training.packing is True
    assert recipe.training.warmup == min(max(recipe.training.steps // 12, 10), 2000)
    assert -(-recipe.training.steps // recipe.training.evaluate) == 8


def test_settings_that_are_given_stay_and_the_rest_follows_from_them(tmp_path, steady):
    steady(100.0)
    data = f"data.train={write_pairs(tmp_path)}"
    recipe = planned(data, "training.learning_rate=7e-4", "tokens.size=333", "model.dropout=0.25")
    assert recipe.training.learning_rate == 7e-4
    assert recipe.tokens.size == 333
    assert recipe.model.dropout == 0.25
    fixed = planned(data, "model.width=48", "model.heads=3", "model.depth=1", "model.decoder_depth=1")
    assert (fixed.model.width, fixed.model.depth, fixed.model.decoder_depth) == (48, 1, 1)
    assert isclose(fixed.training.learning_rate, 4e-3)  # 0.5 / 48 is above the limit
    counted = planned(data, "training.steps=77", "training.batch=512")
    assert (counted.training.steps, counted.training.batch) == (77, 512)
    assert planned(data, "training.threads=1").training.threads == 1


def test_a_quicker_machine_gives_a_larger_model_up_to_what_the_data_bear(tmp_path, steady, monkeypatch):
    pairs = f"data.train={write_pairs(tmp_path, 3000)}"
    monkeypatch.setitem(planning._WEIGHTS_A_TOKEN, "translation", 100.0)
    widths = []
    for nanoseconds in (1e6, 3e3, 1.0):
        steady(nanoseconds)
        widths.append(planned(pairs, "plan.minutes=5").model.width)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    monkeypatch.setitem(planning._WEIGHTS_A_TOKEN, "translation", 12.0)
    smaller = planned(pairs, "plan.minutes=5")
    assert smaller.model.width < widths[-1]
    assert "learn so few data by heart" in " ".join(smaller.planned)


def test_updates_fill_the_minutes_and_no_more_passes_than_are_of_use(tmp_path, steady):
    steady(2e4)
    pairs = f"data.train={write_pairs(tmp_path, 3000)}"
    short, long = (
        planned(pairs, f"plan.minutes={minutes}", "model.width=64", "model.heads=2").training
        for minutes in (2, 4)
    )
    assert 1.9 < long.steps / short.steps < 2.5  # what is not training takes as long in both
    steady(1e-3)
    passes = planned(pairs, "plan.minutes=60")
    assert "90 passes are enough" in " ".join(passes.planned)


def test_updates_that_take_a_tenth_longer_than_in_the_trial_end_in_time(tmp_path, steady):
    steady(2e4)
    pairs = f"data.train={write_pairs(tmp_path, 3000)}"
    recipe = planned(pairs, "plan.minutes=2", "model.width=64", "model.heads=2")
    blocks, training = recipe.model.depth + recipe.model.decoder_depth, recipe.training
    update = 1e-9 * 2e4 * 12 * 64 * 64 * blocks * training.batch / 1000
    left = 120 - 10 - 6  # less evaluations, and the beginning and the end
    assert 0.8 * left < 1.1 * update * training.steps <= left


@pytest.mark.parametrize(
    ("seen", "dropout"), [(5.0, 0.0), (10.0, 0.0), (20.0, 0.1), (45.0, 0.2), (80.0, 0.3)]
)
def test_dropout_grows_with_the_passes_over_the_data(tmp_path, steady, seen, dropout):
    steady(100.0)
    pairs = f"data.train={write_pairs(tmp_path, 2000)}"
    recipe = planned(pairs, "training.batch=1000", "training.steps=100")
    an_epoch = 100 / float(
        next(line for line in recipe.planned if "passes over" in line).split(" passes over")[0].split()[-1]
    )
    found = planned(pairs, "training.batch=1000", f"training.steps={int(seen * an_epoch)}")
    assert found.model.dropout == dropout


def test_evaluations_take_a_small_share_of_the_time(tmp_path):
    recipe = find("translate", [f"data.train={write_pairs(tmp_path)}", "plan.minutes=0.1"])
    prepared = replace(
        experiment.prepare(replace(recipe, plan=None), Report()), validate=lambda model: time.sleep(0.4)
    )
    planner = planning._Planner(recipe, torch.device("cpu"), time.monotonic(), 1, {})
    small = {"width": 16, "heads": 2, "depth": 1, "decoder_depth": 1, "hidden_width": 16}
    evaluations, seconds = planner._testing(prepared, small, planning._Way(1, "float32"))
    assert evaluations == 1
    assert seconds <= 0.4 * 60 * 0.1


def test_steps_and_minutes_together_are_refused(tmp_path):
    with pytest.raises(RegardError, match=r"training\.steps=50 and plan\.minutes=5: .* not both"):
        planned(f"data.train={write_pairs(tmp_path)}", "training.steps=50", "plan.minutes=5")


def test_what_has_no_sizes_or_is_made_is_refused():
    with pytest.raises(RegardError, match="a counter is trained as its recipe says"):
        plan(find("counter", ["plan={}"]), device="cpu")
    with pytest.raises(RegardError, match=r"data\.kind numbers .* is not planned"):
        plan(find("numbers", ["plan={}"]), device="cpu")
    complete = find("numbers")
    with pytest.raises(RegardError, match="says everything"):
        planning.make_plan(complete, torch.device("cpu"), began=0.0)


@pytest.mark.slow
def test_a_planned_run_is_an_ordinary_one_and_made_again_by_its_recipe_to_the_bit(tmp_path):
    changes = [f"data.train={write_pairs(tmp_path)}", "plan.minutes=0.2"]
    first = begin(find("translate", changes), tmp_path / "first", device="cpu").run
    recipe = first.load_recipe()
    assert recipe.plan is None
    assert recipe.planned
    (tmp_path / "again.yaml").write_text(written(recipe), "utf-8")
    second = begin(find(str(tmp_path / "again.yaml")), tmp_path / "second", device="cpu").run
    for name, weight in first.load_weights().items():
        assert torch.equal(weight, second.load_weights()[name])
    assert load(first.path).translate(["twenty-one"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["language", "classify"])
def test_texts_of_other_kinds_are_planned_and_trained(tmp_path, name):
    data = write_text(tmp_path) if name == "language" else write_table(tmp_path)
    changes = [f"data.train={data}", "plan.minutes=0.15"]
    if name == "classify":
        changes.append("data.held_out=0.2")
    finished = begin(find(name, changes), tmp_path / "run", device="cpu")
    assert finished.outcome.step == finished.run.load_recipe().training.steps
    assert finished.metrics


def test_a_plan_that_is_interrupted_leaves_a_folder_that_can_be_used_again(tmp_path, monkeypatch):
    from regard.errors import Interrupted

    def interrupted(*_, **__):
        raise Interrupted

    monkeypatch.setattr(experiment, "make_plan", interrupted)
    recipe = find("translate", [f"data.train={write_pairs(tmp_path)}"])
    stopped = begin(recipe, tmp_path / "run", device="cpu")
    assert stopped.outcome.stopped
    assert not RunFolder(tmp_path / "run").recipe.exists()
    begin(numbers(), tmp_path / "run", device="cpu")


def test_packing_left_to_the_machine_is_written_down_as_decided(tmp_path):
    assert numbers().training.packing == "auto"
    run = begin(numbers(), tmp_path / "run", device="cpu").run
    assert run.load_recipe().training.packing is False


def test_packing_on_a_gpu_is_refused_in_words_where_the_model_cannot():
    said: list[str] = []
    gpu = torch.device("cuda")
    recipe = numbers()
    assert experiment._packing_settled(recipe, gpu, said.append).training.packing is True
    leaving = replace(recipe, model=replace(recipe.model, stochastic_depth=0.1))
    assert experiment._packing_settled(leaving, gpu, said.append).training.packing is False
    assert said == ["texts are not packed: stochastic_depth leaves samples out by the row"]
