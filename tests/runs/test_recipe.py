"""Recipes: found, changed, checked, and where their relative paths start."""

import shutil
import warnings
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from runs.small import classification, counter, language, numbers, trained, write_table, write_text

from regard import RegardError, RegardWarning
from regard.cli import main
from regard.models.recurrent import RecurrentConfig
from regard.models.transformer import base
from regard.runs.evaluation import evaluate_run
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.recipe import build, describe, find, parse, place, plain, resolve, shipped, written
from regard.runs.tasks.prepared import anchored, located, recorded
from regard.training.experiment import resume


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_recipe_is_whole_says_what_it_is_and_comes_back_from_its_own_yaml(name: str) -> None:
    recipe = find(name)
    assert 20 < len(recipe.about) < 160
    assert resolve(parse(written(recipe), name)) == recipe


def test_settings_are_changed_by_their_path() -> None:
    recipe = find(
        "numbers", ["model.width=256", "training.averaging.last=3", "training.learning_rate=1e-4", "seed=7"]
    )
    assert (
        recipe.model.width,
        recipe.training.averaging.last,
        recipe.training.learning_rate,
        recipe.seed,
    ) == (
        256,
        3,
        1e-4,
        7,
    )
    assert find("numbers").model.width != 256


def test_a_preset_gives_way_to_what_is_said_beside_it() -> None:
    recipe = resolve(
        {"data": {"kind": "numbers"}, "model": {"kind": "transformer", "preset": "base", "dropout": 0.25}}
    )
    assert recipe.model.width == base().width
    assert recipe.model.dropout == 0.25


def test_another_kind_of_model_has_other_settings() -> None:
    assert find("numbers", ["model.kind=recurrent", "model.width=64"]).model == RecurrentConfig(width=64)
    assert find("numbers", ["model.kind=transformer"]).model == find("numbers").model


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("numers", [], "did you mean numbers?"),
        ("qqq", [], "`regard recipes` lists"),
        ("missing.yaml", [], "missing.yaml: no such file"),
        ("numbers", ["model.wdth=3"], "model.wdth: no such setting; did you mean width (a whole number)?"),
        ("numbers", ["training.steps=many"], "training.steps: 'many' is not a whole number"),
        ("numbers", ["training.steps"], "say --set training.steps=500"),
        ("numbers", ["=3"], "say --set"),
        ("numbers", ["model.preset=huge"], "model.preset: 'huge' is not a preset of transformer; there are: tiny, base, big"),
        ("numbers", ["training.steps=[1"], "quote it"),
        ("numbers", ["data.kind=number"], "data.kind: 'number' is none of numbers"),
        ("numbers", ["training.steps=0"], "training.steps"),
        ("numbers", ["training.learning_rate=-1"], "training.learning_rate"),
        ("numbers", ["model.dropout=2"], "dropout=2"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(name: str, changes: list[str], said: str) -> None:
    with pytest.raises(RegardError) as error:
        find(name, changes)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"data: [1", "mine.yaml:1: not YAML"),
        (b"- a\n- b\n", "mine.yaml: a recipe has data, model, training"),
        (b"\xff\xfe\x00", "mine.yaml: not UTF-8 text"),
        (b"", "a recipe has data"),
        (b"data: {kind: numbers}\n", "model is missing"),
        (b"!!python/object/apply:os.system ['true']\n", "not YAML"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path, text: bytes, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(text)
    with pytest.raises(RegardError) as error:
        find(str(path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_no_shipped_recipe_flips_pictures_whose_texts_may_say_left_or_right(name: str) -> None:
    recipe = find(name)
    jitter = getattr(recipe.data, "jitter", None)
    assert not (recipe.kind.task == "description" and getattr(jitter, "flip", False))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("seed=-1", "seed=-1: from 0 to"),
        ("seed=9223372036854775808", "too large a number"),
        ("tokens.size=1000000000", "size=1000000000: at most 1,000,000"),
        ("decoding.beam=100000", "beam=100000: at most 1,000"),
        ("decoding.tokens=1000000000", "tokens=1000000000: at most 1,000,000"),
        ("decoding.longest=1e30", "longest=1e+30: at most 1,000"),
        ("decoding.penalty=1e300", "penalty=1e+300: at most 100"),
        ("training.betas=[0.9, 1.0]", "betas=[0.9, 1.0]: each from 0 to below 1"),
        ("training.betas=[-0.1, 0.9]", "betas=[-0.1, 0.9]: each from 0 to below 1"),
        ("training.steps=99999999999", "steps=99999999999: at most 1,000,000,000"),
        ("training.learning_rate=.inf", "not a finite number"),
        ("data.train=999999999999", "train=999999999999: at most 100,000,000"),
    ],
)
def test_counts_have_bounds_with_a_line_that_names_them(change: str, said: str) -> None:
    with pytest.raises(RegardError) as refused:
        find("numbers", [change])
    assert said in str(refused.value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data and runs beside each other, and the command runs there."""
    (tmp_path / "project" / "data").mkdir(parents=True)
    write_table(tmp_path / "project" / "data")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_run_is_evaluated_and_resumed_from_any_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = classification(
        Path("table.tsv"), data={"kind": "labelled", "train": "table.tsv", "folder": "data", "held_out": 0.2}
    )
    run = trained(recipe, Path("runs/x")).resolve()
    here = evaluate_run("runs/x", device="cpu")
    monkeypatch.chdir("/")
    assert evaluate_run(run, device="cpu") == here
    resume(run, device="cpu")
    monkeypatch.chdir(project)
    again = trained(find(str(run / "recipe.yaml")), project.parent / "again")  # as the card says
    moved = shutil.move(run, project.parent / "moved")
    monkeypatch.chdir("/")
    assert evaluate_run(moved, device="cpu") == here == evaluate_run(again, device="cpu")


def test_a_project_that_was_moved_is_read_from_where_the_command_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(classification(Path("data/table.tsv")), Path("runs/x"))
    here = evaluate_run("runs/x", device="cpu")
    moved = shutil.move(project, project.with_name("elsewhere"))
    monkeypatch.chdir(moved)
    with pytest.warns(
        RegardWarning, match=f"base: {project}, where the relative paths .* is gone: taking {moved} for it"
    ):
        assert evaluate_run("runs/x", device="cpu") == here


def test_the_words_of_the_user_stay_in_the_recipe(project: Path) -> None:
    kept = recorded(classification(Path("data/table.tsv")))
    assert (kept.base, kept.data.train, kept.data.folder) == (str(project), "data/table.tsv", "")
    assert recorded(kept) == kept
    used = anchored(kept)
    assert located(used.data.folder, used.data.train) == str(project / "data" / "table.tsv")


def test_a_recipe_without_relative_paths_keeps_no_folder(tmp_path: Path) -> None:
    absolute = language(write_text(tmp_path))
    inside = language(Path("text.txt"), data={"kind": "text", "train": "text.txt", "folder": str(tmp_path)})
    home = language(Path("text.txt"), data={"kind": "text", "train": "~/text.txt"})
    for recipe in (numbers(), absolute, inside, home):
        assert recorded(recipe) == recipe == anchored(recipe)


@pytest.mark.parametrize("train", ["a.tsv", {"source": "a.en", "target": "/b.de"}])
def test_two_files_and_an_earlier_run_are_found_too(train: object) -> None:
    data = {"kind": "pairs", "train": train}
    kept = recorded(numbers(data=data, init={"run": "runs/general"}))
    assert kept.base == str(Path.cwd())
    assert anchored(kept).init.run == str(Path.cwd() / "runs" / "general")
    assert recorded(numbers(data=data)).base == str(Path.cwd())


def test_an_earlier_run_lends_its_weights_from_any_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(numbers(), Path("runs/first"))
    second = trained(numbers(init={"run": "runs/first"}), Path("runs/second")).resolve()
    monkeypatch.chdir("/")
    assert RunFolder(second).load_recipe().init.run == "runs/first"
    resume(second, device="cpu")


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("training.rate", "training.learning_rate", 0.25),
        ("training.decay", "training.weight_decay", 0.125),
        ("model.inner", "model.hidden_width", 48),
        ("training.replay", "training.cuda_graphs", "compiled"),
    ],
)
def test_a_setting_is_read_under_its_old_name_and_one_line_names_the_new_one(
    old: str, new: str, value: float | str
) -> None:
    with pytest.warns(RegardWarning) as warned:
        recipe = find("numbers", [f"{old}={value}"])
    assert attrgetter(new)(recipe) == value
    assert [str(each.message) for each in warned] == [f"{old} is called {new} now"]
    assert f"  {old.split('.')[1]}:" not in written(recipe)


@pytest.mark.parametrize(("old", "new"), [("none", "never"), ("recorded", "auto"), ("compiled", "compiled")])
def test_a_value_is_read_under_its_old_name_too(old: str, new: str) -> None:
    with pytest.warns(RegardWarning, match=r"training.replay is called training.cuda_graphs now"):
        recipe = find("numbers", [f"training.replay={old}"])
    assert recipe.training.cuda_graphs == new


@pytest.fixture(scope="module")
def of_old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with settings under the names they once had: those of the model are in config.json too."""
    run = trained(counter(), tmp_path_factory.mktemp("old") / "run")
    for path in (run / "recipe.yaml", run / "config.json"):
        names = path.read_text().replace("learning_rate:", "rate:").replace("hidden_width", "inner")
        path.write_text(names)
    RunFolder(run).accept()
    return run


RENAMED = [
    "model.inner is called model.hidden_width now",
    "training.rate is called training.learning_rate now",
]


@pytest.mark.parametrize(
    "verb",
    [
        "classify {run} 1720213486",
        "evaluate {run}",
        "info {run}",
        "resume {run}",
        "export {run} --to int8 --out {new}",
    ],
)
def test_a_command_names_each_setting_of_old_that_a_run_has_once(
    capsys: pytest.CaptureFixture[str], of_old: Path, tmp_path: Path, verb: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(verb.format(run=of_old, new=tmp_path / "new").split())
    said = capsys.readouterr().err
    assert ended.value.code == 0, said
    assert [line for line in said.splitlines() if "is called" in line] == [
        f"regard: {each}" for each in RENAMED
    ]


def test_loading_a_run_names_each_setting_of_old_once(of_old: Path) -> None:
    for use in (load, evaluate_run):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("default")  # a text once a line of the caller's, as Python does by itself
            use(of_old, device="cpu")
        assert [str(each.message) for each in warned] == RENAMED


@dataclass(frozen=True, kw_only=True)
class Wheel:
    KIND: ClassVar[str] = "wheel"
    spokes: int = 3


@dataclass(frozen=True, kw_only=True)
class Sail:
    KIND: ClassVar[str] = "sail"
    area: float


@dataclass(frozen=True, kw_only=True)
class Cart:
    name: str
    moved: Wheel | Sail = field(default_factory=Wheel)
    colour: Literal["red", "green"] = "red"
    size: tuple[int, float] = (1, 2.0)
    load: str | int | None = None
    tags: tuple[str, ...] = ()
    open: bool = False


def test_settings_come_back_as_they_were_written() -> None:
    cart = Cart(name="a", moved=Sail(area=2.5), size=(3, 4.0), load=7, tags=("x", "y"), open=True)
    assert build(Cart, plain(cart)) == cart
    assert plain(cart)["moved"] == {"kind": "sail", "area": 2.5}


def test_what_is_left_out_is_the_default() -> None:
    assert build(Cart, {"name": "a"}) == Cart(name="a")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "name is missing: give text"),
        ({"name": 3}, "name: 3 is not text"),
        ({"name": "a", "colr": "red"}, "colr: no such setting; did you mean colour (one of red, green)?"),
        (
            {"name": "a", "zzz": 1},
            "zzz: no such setting; there are name, moved, colour, size, load, tags, open",
        ),
        ({"name": "a", "colour": "gren"}, "colour: 'gren' is none of red, green; did you mean green?"),
        (
            {"name": "a", "moved": {"kind": "whel"}},
            "moved.kind: 'whel' is none of wheel, sail; did you mean wheel?",
        ),
        ({"name": "a", "moved": {"spokes": 3}}, "moved.kind is missing: one of wheel, sail"),
        ({"name": "a", "moved": {"kind": "wheel", "spokes": 2.5}}, "moved.spokes: 2.5 is not a whole number"),
        (
            {"name": "a", "moved": {"kind": "wheel", "spokes": True}},
            "moved.spokes: True is not a whole number",
        ),
        ({"name": "a", "moved": {"kind": "sail"}}, "moved.area is missing: give a number"),
        ({"name": "a", "moved": {"kind": "sail", "area": "big"}}, "moved.area: 'big' is not a number"),
        ({"name": "a", "size": [1]}, "size: [1] is not a list of 2: a whole number, a number"),
        ({"name": "a", "size": [1, "x"]}, "size[1]: 'x' is not a number"),
        ({"name": "a", "load": 2.5}, "load: 2.5 is not text or a whole number"),
        ({"name": "a", "tags": "x"}, "tags: 'x' is not a list, each text"),
        ({"name": "a", "open": "yes"}, "open: 'yes' is not true or false"),
        (7, "the recipe: 7, but settings are wanted: name, moved, colour, size, load, tags, open"),
    ],
)
def test_a_mistake_is_named(values: object, said: str) -> None:
    with pytest.raises(RegardError) as error:
        build(Cart, values)
    assert str(error.value) == said


def test_a_number_that_yaml_reads_as_text_is_a_number() -> None:
    assert build(Sail, {"area": "1e-3"}).area == 0.001
    assert build(Sail, {"area": 2}).area == 2.0


def test_one_value_is_placed_among_others_and_nothing_else_changes() -> None:
    values = {"a": {"b": 1, "c": 2}, "d": 3}
    assert place(values, "a.b", 9) == {"a": {"b": 9, "c": 2}, "d": 3}
    assert place(values, "e.f", 9) == {**values, "e": {"f": 9}}
    assert values == {"a": {"b": 1, "c": 2}, "d": 3}
    with pytest.raises(RegardError, match="nothing below a single value"):
        place(values, "d.x", 1)


def test_types_are_described_in_words() -> None:
    assert describe(int | None) == "a whole number"
    assert describe(Wheel) == "settings (kind, spokes)"


@pytest.mark.parametrize(
    "values",
    [
        {"model": {"kind": ["a"]}, "data": {"kind": "numbers"}},
        {"model": {"kind": {"a": 1}}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": float("nan")}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": "1e999"}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "dropout": 10**400}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "positions": ["x" * 10_000]}, "data": {"kind": "numbers"}},
        {"model": {"kind": "language", "x" * 10_000: 1}, "data": {"kind": "numbers"}},
        {"model": {"kind": "transformer", "preset": ["tiny"]}, "data": {"kind": "numbers"}},
        {"model": "x" * 10_000, "data": {"kind": "numbers"}},
    ],
    ids=range(9),
)
def test_values_that_nobody_means_are_refused_in_a_line_that_can_be_read(values) -> None:
    with pytest.raises(RegardError) as refused:
        resolve(values)
    assert len(str(refused.value)) < 1000
