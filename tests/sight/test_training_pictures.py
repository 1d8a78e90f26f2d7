"""The picture that a training leaves of where its model looks: as the kind of the model asks, a user's own kind too."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from PIL import Image
from runs.small import MODEL, TRAINING, counter, numbers, trained, write_spoken
from torch import nn

from regard import RegardError
from regard.cli import main
from regard.data import Sequences
from regard.data.digit_counts import EXAMPLE, VOCABULARY, rows_of_digits
from regard.models import Kind, Labelling
from regard.models.fusion import KIND as FUSION
from regard.models.fusion import FusionConfig
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.recipe import resolve, written
from regard.sight.pictures.counter_picture import counting
from regard.sight.training_pictures import TrainingPicture, picture_of_training


@dataclass(frozen=True, kw_only=True)
class TallyConfig:
    KIND: ClassVar[str] = "tally"
    vocabulary: int = VOCABULARY
    classes: int = 2


class Tally(Labelling[Sequences]):
    """A counter without attention: every digit has a tenth of the weight."""

    def __init__(self, config: TallyConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, 3)
        self.output = nn.Linear(3, config.classes)

    def scores(self, inputs: Sequences) -> torch.Tensor:
        return self.output(self.values(inputs).mean(1))

    def values(self, batch: Sequences) -> torch.Tensor:
        return self.embedding(batch.tokens)

    def weights(self, batch: Sequences) -> torch.Tensor:
        return torch.full(batch.tokens.shape, 1 / batch.tokens.shape[1])


class Mute(Tally):
    """A counter that does not tell how much it looks at each digit."""

    weights = None  # type: ignore[assignment]


TALLY = Kind(
    config=TallyConfig,
    model=Tally,
    reads=("digits",),
    gives="class",
    task="counting",
    verbs=("classify",),
    pictures={"counting": "counting"},
)


def drawn_of(run: RunFolder) -> TrainingPicture | None:
    """The picture that the kind of a run asks for with the data of the run."""
    recipe = run.load_recipe()
    which = recipe.kind.pictures.get(recipe.data.KIND)
    return None if which is None else picture_of_training(run, which)


def run_of(folder: Path, kind: Kind) -> RunFolder:
    values = {
        "data": {"kind": "counting", "train": 500, "valid": 100, "test": 100},
        "model": {"kind": kind.name},
        "training": TRAINING,
    }
    return RunFolder.existing(trained(resolve(values, [kind]), folder), kinds=[kind])


def test_a_counter_is_drawn_on_the_example_with_its_loss(tmp_path):
    run = RunFolder.existing(trained(counter(), tmp_path / "run"))
    drawn = drawn_of(run)
    assert drawn is not None
    assert (drawn.file, drawn.shows) == (
        "counting.png",
        f"where it looks in {EXAMPLE}, what the digits send, and the loss",
    )
    model = load(run.path, device="cpu").model
    counting(model, rows_of_digits([EXAMPLE]), log=run.log).png(tmp_path / "expected.png")
    drawn.drawing.png(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes() == (tmp_path / "expected.png").read_bytes()


def test_a_kind_of_the_users_own_asks_for_the_picture_of_counting(tmp_path):
    drawn = drawn_of(run_of(tmp_path / "run", TALLY))
    assert drawn is not None
    assert drawn.file == "counting.png"
    assert drawn.drawing.parts[0].weights == pytest.approx(0.1)


def test_a_kind_that_asks_for_nothing_gets_nothing(tmp_path):
    assert drawn_of(run_of(tmp_path / "tally", dataclasses.replace(TALLY, pictures={}))) is None
    assert drawn_of(RunFolder.existing(trained(numbers(), tmp_path / "numbers"))) is None


def test_a_model_that_cannot_be_drawn_is_named(tmp_path):
    with pytest.raises(RegardError, match=r"a Mute has no picture 'counting'.*its kind asks.*`weights`"):
        drawn_of(run_of(tmp_path / "run", dataclasses.replace(TALLY, model=Mute)))


@pytest.mark.usefixtures("as_a_user")
def test_a_picture_that_there_is_not_is_refused_before_training():
    with pytest.raises(RegardError, match="'attention' is none of counting, spoken-place"):
        dataclasses.replace(TALLY, pictures={"counting": "attention"})


@dataclass(frozen=True, kw_only=True)
class OwnFusionConfig(FusionConfig):
    KIND: ClassVar[str] = "own-fusion"


@pytest.mark.parametrize("own", [False, True])
def test_the_picture_of_one_model_depends_on_its_data(tmp_path, own):
    kind = dataclasses.replace(FUSION, config=OwnFusionConfig) if own else FUSION
    spoken = write_spoken(tmp_path)
    small = {"train": str(spoken), "speaker": "bo", "samples": 16, "valid": 8, "test": 8}
    training = {**TRAINING, "batch": 8}
    asking = {"first": "sound", "second": "text", "asks": "first"}
    model = {"kind": kind.name, "bands": 8, "patch": [4, 4], "fusion_depth": 1, **MODEL}
    found = {}
    for data, senses in (("same", {}), ("spoken-place", asking)):
        values = {"data": {"kind": data, **small}, "model": {**model, **senses}, "training": training}
        recipe = resolve({**values, "tokens": {"kind": "word"}}, [kind])
        found[data] = RunFolder.existing(trained(recipe, tmp_path / data), kinds=[kind])
    assert drawn_of(found["same"]) is None
    drawn = drawn_of(found["spoken-place"])
    assert drawn is not None
    assert (drawn.file, drawn.shows) == ("attention.png", "where a recording of the test looked in its text")
    assert len(drawn.drawing.words) == 5  # four words and the end


FILE = """
from dataclasses import dataclass, replace
from typing import ClassVar
from regard.models.counter import KIND as COUNTER, CounterConfig

@dataclass(frozen=True, kw_only=True)
class Config(CounterConfig):
    KIND: ClassVar[str] = "mine"

KIND = replace(COUNTER, config=Config)
"""


def test_the_command_writes_the_picture_of_a_users_own_kind(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    recipe = written(counter()).replace("kind: counter", "kind: mine")
    (tmp_path / "mine.yaml").write_text(recipe)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("train", str(tmp_path / "mine.yaml"), "--kind", str(tmp_path / "mine.py")),
                *("--out", str(tmp_path / "run"), "--device", "cpu"),
            ]
        )
    said = capsys.readouterr().err
    assert ended.value.code == 0, said
    assert f"{tmp_path / 'run' / 'counting.png'}  where it looks in {EXAMPLE}" in said
    assert Image.open(tmp_path / "run" / "counting.png").width > 400
