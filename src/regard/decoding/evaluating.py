"""The model as it answers: no dropout, no graph; and afterwards as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from regard.data.given import instance
from regard.models.protocols import Generates


def check_model(model: object) -> None:
    """Refuse what cannot generate."""
    instance("model", model, Generates, "give a model that generates: it has `start` and `step`")


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode and no gradients inside; every module's own mode is restored behind it.

    Not `torch.inference_mode`: its tensors have no version, so a watch of a decode could not
    tell whether one was overwritten.
    """
    training = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    try:
        for part in training:
            part.training = False
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True
