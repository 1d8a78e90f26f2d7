"""Pictures and recordings to be explored: what is looked at for a class, or for each word that is said about them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Batch, Sounds
from regard.decoding.decode import evaluating
from regard.runs.answering import Answer, Labeller, MediaDescriber
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import Change, Entry, Exhibit, Output, Panel, Picture, Plain
from regard.sight.explorer.texts import importance_for_class, likeliest
from regard.sight.explorer.written_view import Best, WrittenView
from regard.sight.media_pictures import ground_of
from regard.sight.pictures.photo import photo
from regard.sight.watch import watch


@dataclass(frozen=True, kw_only=True, eq=False)
class Perceiving:
    """A classifier of pictures or of recordings, and one of them."""

    labeller: Labeller
    given: Any  # a file or a tensor
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """A picture cannot be edited as text."""
        return {}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """The likeliest classes, and where the model looked for them."""
        model, batch = self.labeller.model, self._batch()
        with evaluating(model), changed(model, changes), watch(model) as seen:
            likely = model.predict(batch)[0].exp()
        side = side_of(model.encoder, batch, rate=getattr(model.config, "rate", None))
        panels = []
        for layer in seen:
            queries, keys = layer.shape[-2:]
            asked = queries != side.length(0)
            panels.append(
                Panel(layer=layer, query_side=int(asked), key_side=0, sizes=((queries, keys),), cross=asked)
            )
        name = named(self.given)
        return Exhibit(
            name=name,
            about=self.about,
            kind="image" if side.seconds is None else "sound",
            sides=(side, Plain(name="questions")),
            panels=tuple(panels),
            entries=(Entry(name=name),),
            outputs=(Output(classes=likeliest(likely, self.labeller.labels)),),
            subject=self,
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the likeliest class gets without each head."""
        return importance_for_class(self.labeller.model, self._batch(), panel)

    def _batch(self) -> Any:
        return self.labeller.reader.batch([self.given]).to(self.labeller.device)


@dataclass(frozen=True, kw_only=True, eq=False)
class Telling:
    """A captioner or a transcriber and what it tells of. With a target, that is looked at instead of its own words."""

    describer: MediaDescriber
    given: Any  # a file or a tensor
    target: str | None = None
    beam: int | None = None  # texts to look at; None: as many as the run keeps
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The target, where one was given."""
        return {} if self.target is None else {"target": self.target}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """Say what it is, and show where each word was found."""
        given = replace(self, target=inputs.get("target", self.target))
        model = self.describer.model
        side = side_of(model.encoder, self._source(1), rate=getattr(model.config, "rate", None))
        return given._written().exhibit(
            given._best(changes),
            changes,
            side=lambda count: replace(side, pixels=side.pixels * count),
            subject=given,
            name=named(self.given),
            about=self.about,
            kind="image" if side.seconds is None else "sound",
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the best text gets without each head."""
        best = self._best(exhibit.touched.changes if exhibit.touched else ()).answers[0]
        return self._written().importance(best, panel)

    def _best(self, changes: Sequence[Change]) -> Best:
        if self.target is not None:
            return self._written().forced(self.target, changes)
        describer = self.describer
        count = self.beam or describer.decoding.beam

        def asked(model: Any) -> list[Answer]:
            asking = MediaDescriber(model, describer.reader, describer.tokenizer, describer.decoding)
            return asking.hypotheses([self.given], count=count)[0]

        return self._written().answered(asked, changes, size=max(count, describer.decoding.beam))

    def _source(self, count: int) -> Batch:
        return self.describer.reader.batch([self.given] * count)

    def _written(self) -> WrittenView:
        return WrittenView(
            model=self.describer.model, tokenizer=self.describer.tokenizer, source=self._source
        )


def side_of(encoder: Any, batch: Batch, *, rate: int | None) -> Picture:
    """A picture or a spectrogram along an axis, as an encoder cuts it into tokens; of sounds with their rate."""
    ground = ground_of(encoder, batch)
    special = () if getattr(encoder, "class_token", None) is None else ("<class>",)
    pixels = np.ascontiguousarray(photo(ground.photo))
    if not isinstance(batch, Sounds) or rate is None:
        return Picture(name="picture", pixels=(pixels,), grid=ground.grid, special=special)
    seconds = int(batch.lengths[0]) / rate
    return Picture(name="sound", pixels=(pixels,), grid=ground.grid, special=special, seconds=seconds)


def named(given: Any) -> str:
    """What a file is called."""
    return os.path.basename(os.fspath(given)) if isinstance(given, str | os.PathLike) else "input"
