"""Training: the loop, its schedules, its checkpoints, and several processes. `begin` trains a recipe, `train` any model."""

from regard.training.experiment import Finished, begin, resume
from regard.training.loop import train
from regard.training.observers import Log, Observer, Outcome, Update

__all__ = ["Finished", "Log", "Observer", "Outcome", "Update", "begin", "resume", "train"]
