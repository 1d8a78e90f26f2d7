"""What was seen of a model: its attention calls, by name and in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError
from regard.sight.callers import ending_in
from regard.sight.interventions import Importance, importance
from regard.sight.layer import Layer
from regard.sight.rollout import rollout
from regard.sight.selection import Choice
from regard.sight.stitching import follow, stitch
from regard.sight.storage import load_layers, save_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.sight.explorer.serving import Showing
    from regard.sight.explorer.watched import Tokens
    from regard.sight.pictures.drawable import Photo


@dataclass(frozen=True, eq=False)
class Seen:
    """The attention calls of a model, in the order they happened. `seen["decoder.3.cross"]`, `seen[3]`."""

    layers: list[Layer] = field(default_factory=list)
    model: nn.Module | None = None
    decodes: list[Tensor] = field(default_factory=list)  # of our own: rows of the texts, [texts, steps]

    @property
    def names(self) -> list[str]:
        """The modules that attended, in the order of their first call."""
        return list(dict.fromkeys(layer.name for layer in self.layers))

    def calls(self, name: str) -> list[Layer]:
        """Every call that a module made."""
        full = self._full(name)
        return [layer for layer in self.layers if layer.name == full]

    def stitched(self, name: str, *, beams: Tensor | None = None) -> Layer:
        """The steps of a decoder as one layer: every query of the finished text over all its keys.

        After a beam search, `beams[i, t]` is the row of the batch that text i came from at step t (Hugging Face's
        `generate` gives it as `beam_indices`). One decode of our own is known: its best texts are followed, and
        `beams(hypotheses)` follows others. Calls that are not the steps of one text are refused.
        """
        steps = self.calls(name)
        full = steps[0].name
        if beams is None and len(self.decodes) == 1 and self.decodes[0].shape[1] == len(steps) > 1:
            beams = self.decodes[0]
        if len(steps) == 1 and beams is None and steps[0].understood:
            return steps[0]
        stitched = stitch(full, [step.intact() for step in steps], beams)
        if beams is None:
            self._check_rows(full, steps)
        return Layer.of(full, stitched)

    def matters(self, metric: Callable[[], float | Tensor]) -> Importance:
        """How a metric changes when each head that was seen is dropped. `metric` runs the model and measures it.

            seen.matters(lambda: loss(model(x), y)).ranked()

        Attention says where a head looked, not whether that mattered; this says whether it did.
        """
        if self.model is None:
            raise RegardError("what was loaded from a file has no model to run: watch the model itself")
        if not self.layers:
            raise RegardError(
                "no attention call was seen, so there is no head to drop: run the model while it is watched"
            )
        for layer in self.layers:
            if len(layer.shape) < 3:
                raise RegardError(
                    f"{layer!r} has no heads to drop: choose other layers with watch(model, layers=…)"
                )
        heads = {layer.name: layer.shape[-3] for layer in self.layers}
        return importance(self.model, heads, metric)

    def rollout(self, *, residual: float = 0.5, queries: Choice = None) -> Float[Tensor, "*batch q tokens"]:
        """How much of each token reaches each position through all layers, residuals included (Abnar 2020).

        For the layers of one encoder or decoder: choose them with `watch(model, layers=…)`. A few `queries` cost
        linear memory.
        """
        return rollout([layer.intact() for layer in self.layers], residual=residual, queries=queries)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all calls to a safetensors file, to be looked at elsewhere."""
        save_layers(self.layers, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Seen":
        """What `save` wrote."""
        return cls(load_layers(path))

    def __getitem__(self, name: str | int) -> Layer:
        if isinstance(name, int):
            try:
                return self.layers[name]
            except IndexError:
                raise RegardError(f"seen[{name}], but {len(self.layers)} calls were seen") from None
        calls = self.calls(name)
        if len(calls) > 1:
            raise RegardError(
                f"{calls[0].name} attended {len(calls)} times: take one of seen.calls({name!r}), or all as one "
                f"with seen.stitched({name!r})"
            )
        return calls[0]

    def plot(self) -> "Figure":
        """An atlas of all layers and heads as a matplotlib figure (the extra `plot`)."""
        from regard.sight.pictures.figure import plot

        return plot(self)

    def show(
        self,
        tokens: "Tokens | None" = None,
        *,
        memory: "Tokens | None" = None,
        image: "Photo | None" = None,
        grid: tuple[int, int] | None = None,
        port: int = 0,
        browser: bool | None = None,
    ) -> "Showing":
        """The explorer in a browser, or in the cell of a notebook (the extra `explorer`).

            seen.show(["The", " cat", " sat"])

        `tokens` are written along the axes that are as long; `memory` along the keys of cross-attention; an `image`, cut
        into `grid` rows and columns of patches, along axes of as many positions. It is served from this process until
        `.close()`.
        """
        from regard.sight.explorer.serving import serve
        from regard.sight.explorer.watched import example_of

        shown = example_of(self, tokens, memory=memory, image=image, grid=grid)
        return serve([shown], port=port, browser=browser)

    def export(
        self,
        path: str | PathLike[str],
        tokens: "Tokens | None" = None,
        *,
        memory: "Tokens | None" = None,
        image: "Photo | None" = None,
        grid: tuple[int, int] | None = None,
    ) -> None:
        """The explorer as one file, to be opened in any browser without a network and without Python."""
        from regard.sight.explorer.export import export
        from regard.sight.explorer.watched import example_of

        export([example_of(self, tokens, memory=memory, image=image, grid=grid)], path)

    def _repr_html_(self) -> str:
        from regard.sight.pictures.atlas import html

        return html(self)

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def _check_rows(self, name: str, steps: list[Layer]) -> None:
        """Refuse if another module of as many steps shows that rows changed places.

        Rows of a beam that ask one memory have the same keys. In self-attention their keys differ.
        """
        for other in self.names:
            calls = [layer for layer in self.layers if layer.name == other]
            if other == name or len(calls) != len(steps) or any(call.call is None for call in calls):
                continue
            if calls[0].shape[-1] == calls[-1].shape[-1]:
                continue  # a memory, too
            if calls[-1].shape[0] != steps[-1].shape[0]:
                raise RegardError(
                    f"{name} asks a memory with {calls[-1].shape[0]} rows as queries of {steps[-1].shape[0]} entries, the rows "
                    "of a beam: give the beams they came from, or decode without a beam"
                )
            try:
                follow(other, [call.intact() for call in calls])
            except RegardError as error:
                raise RegardError(f"{name} was not asked by the same texts at every step: {error}") from None
            return

    def _full(self, name: str) -> str:
        """The whole path of a module from its path or the end of it."""
        names = self.names
        if name in names:
            return name
        ends = ending_in(name, names)
        if len(ends) == 1:
            return ends[0]
        if not names:
            raise RegardError(
                "no attention call was seen: the model ran outside `with watch(...)`, replayed a CUDA graph, or attends "
                "in a way that is not watched (see docs/watching.md)"
            )
        shown = ", ".join(ends or names[:8]) + ("" if ends or len(names) <= 8 else f" … {len(names)} in all")
        raise RegardError(
            f"{name!r} is {'not one' if ends else 'none'} of the modules that attended: {shown}"
        )

    def __repr__(self) -> str:
        count = len(self.layers)
        return f"Seen({count} call{'' if count == 1 else 's'})\n" + "\n".join(
            f"  {layer!r}" for layer in self.layers
        )
