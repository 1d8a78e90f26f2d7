"""A picture to be explored: the patches that a classifier of pictures looks at."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.decoding.evaluating import evaluating
from regard.errors import RegardError
from regard.models.vision import Vision
from regard.runs.viewer import Picture as Given
from regard.runs.viewer import Viewer
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import Change, Entry, Exhibit, Output, Panel, Picture, Plain
from regard.sight.explorer.texts import likeliest
from regard.sight.interventions import importance
from regard.sight.pictures.photo import photo
from regard.sight.watch import watch


@dataclass(frozen=True, kw_only=True, eq=False)
class Viewing:
    """A classifier of pictures and one of them."""

    viewer: Viewer
    picture: Given
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """A picture cannot be edited as text."""
        return {}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """The likeliest classes, and where the model looked for them."""
        model = self._attending()
        batch = self.viewer.images([self.picture])
        with evaluating(model), changed(model, changes), watch(model) as seen:
            likely = model.predict(batch)[0].exp()
        special = ("<class>",) if model.config.pooling == "class-token" else ()
        side = Picture(
            name="picture",
            pixels=(np.ascontiguousarray(photo(batch.pixels[0].clamp(0, 1))),),
            grid=(model.encoder.tokens.size[0], model.encoder.tokens.size[1]),
            special=special,
        )
        panels = []
        for layer in seen:
            queries, keys = layer.shape[-2:]
            asked = queries != side.length(0)
            panels.append(
                Panel(layer=layer, query_side=int(asked), key_side=0, sizes=((queries, keys),), cross=asked)
            )
        name = "picture" if isinstance(self.picture, Tensor) else os.path.basename(os.fspath(self.picture))
        return Exhibit(
            name=name,
            about=self.about,
            kind="image",
            sides=(side, Plain(name="questions")),
            panels=tuple(panels),
            entries=(Entry(name=name),),
            outputs=(Output(classes=likeliest(likely, self.viewer.labels)),),
            subject=self,
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the likeliest class gets without each head."""
        model, batch = self._attending(), self.viewer.images([self.picture])
        with evaluating(model):
            best = int(model.predict(batch)[0].argmax())

        def metric() -> float:
            with evaluating(model):
                return float(model.predict(batch)[0, best])

        return -importance(model, {panel.layer.name: panel.heads}, metric).change[panel.layer.name]

    def _attending(self) -> Vision:
        if not isinstance(self.viewer.model, Vision):
            raise RegardError(
                "this classifier of pictures is a convolutional network: it has no attention to look at"
            )
        return self.viewer.model
