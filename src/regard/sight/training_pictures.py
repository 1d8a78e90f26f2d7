"""The pictures that a training may leave of where its model looks. Which one, if any, the kind of the model says."""

from dataclasses import dataclass

from regard.data.digit_counts import EXAMPLE, rows_of_digits
from regard.errors import RegardError
from regard.models.kind import Picture
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.sight.media_pictures import picture_of_place
from regard.sight.pictures.counter_picture import CountingModel, counting
from regard.sight.pictures.scene import Drawing


@dataclass(frozen=True)
class TrainingPicture:
    """A picture for the run folder."""

    file: str  # its name there
    shows: str  # in words
    drawing: Drawing


def picture_of_training(run: RunFolder, which: Picture) -> TrainingPicture:
    """Where the model of a run looks, as the picture of this name draws it."""
    match which:
        case "counting":
            shows = f"where it looks in {EXAMPLE}, what the digits send, and the loss"
            return TrainingPicture("counting.png", shows, _of_counting(run))
        case "spoken-place":
            shows = "where a recording of the test looked in its text"
            return TrainingPicture("attention.png", shows, picture_of_place(run.path, kinds=run.kinds))


def _of_counting(run: RunFolder) -> Drawing:
    model = load(run.path, device="cpu", kinds=run.kinds).model
    if not isinstance(model, CountingModel):
        raise RegardError(
            f"a {type(model).__name__} has no picture 'counting', for which its kind asks: that takes `predict`, `weights` and "
            "`values`"
        )
    return counting(model, rows_of_digits([EXAMPLE]), log=run.log)
