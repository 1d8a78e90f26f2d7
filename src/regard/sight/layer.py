"""One watched attention call, and everything that can be asked of it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.biases import TensorBias
from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight import evidence
from regard.sight.selection import Choice, positions, select

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """The attention of one call of a model. Asking computes, in linear memory; an answer is kept.

    `name` is the path of the module that made the call, `call` what it asked, or None when only answers were kept.
    """

    name: str
    call: Call | None
    shape: tuple[int, ...]  # of the weights, [batch …, heads, queries, keys]
    _versions: tuple[tuple[str, Tensor, int], ...] = ()
    _known: dict[Hashable, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, call: Call) -> "Layer":
        """A layer that notices when what it holds is overwritten."""
        bias = call.bias.tensor if isinstance(call.bias, TensorBias) else None
        held = {"query": call.query, "key": call.key, "bias": bias}
        versions = tuple(
            (part, tensor, _version(tensor)) for part, tensor in held.items() if tensor is not None
        )
        shape = (*call.query.shape[:-1], call.key.shape[-2])
        return cls(name=name, call=call, shape=shape, _versions=versions)

    @property
    def entropy(self) -> Float[Tensor, "*batch q"]:
        """How widely each query looks, in nats: 0 at one key, log k at k keys alike."""
        return self._summary.entropy

    @property
    def received(self) -> Float[Tensor, "*batch k"]:
        """The mass each key got from all queries together."""
        return self._summary.received

    @property
    def logsumexp(self) -> Float[Tensor, "*batch q"]:
        """log Σ exp(score) of each query; −∞ when it may look at nothing."""
        return self._summary.logsumexp

    @property
    def peak(self) -> tuple[Int[Tensor, "*batch q"], Float[Tensor, "*batch q"]]:
        """The heaviest key of each query and its weight; −1 and 0 when it may look at nothing."""
        keys, weights = self.top(1)
        return keys[..., 0], weights[..., 0]

    def top(self, count: int) -> tuple[Int[Tensor, "*batch q n"], Float[Tensor, "*batch q n"]]:
        """The heaviest keys of each query and their weights, heaviest first."""
        return self._ask(("top", count), lambda call: evidence.top(call, count))

    def map(self, height: int, width: int) -> Float[Tensor, "*batch h w"]:
        """The weights pooled, exactly, into at most so many rows and columns."""
        return self._ask(("map", height, width), lambda call: evidence.pooled(call, height, width))

    def weights(
        self, *, queries: Choice = None, keys: Choice = None, heads: Choice = None, batch: Choice = None
    ) -> Float[Tensor, "*batch q k"]:
        """The exact weights of a rectangle: of these queries on these keys, heads and batch entries."""
        rows, columns = positions(queries, self.shape[-2], "query"), positions(keys, self.shape[-1], "key")

        def cut(call: Call) -> Tensor:
            where = call.query.device
            part = select(call, batch=batch, heads=heads)
            return evidence.rectangle(
                part, torch.tensor(rows, device=where), torch.tensor(columns, device=where)
            )

        return cut(self.intact())

    def select(self, *, batch: Choice = None, heads: Choice = None) -> "Layer":
        """The same of some batch entries and heads."""
        return Layer.of(self.name, select(self.intact(), batch=batch, heads=heads))

    @property
    def _summary(self) -> evidence.Summary:
        return self._ask(("summary",), evidence.summarise)

    def _ask(self, question: Hashable, answer: Callable[[Call], Answer]) -> Answer:
        if question not in self._known:
            self._known[question] = answer(self.intact())
        found: Answer = self._known[question]
        return found

    def intact(self) -> Call:
        """The call, if it is still what it was when it was seen."""
        if self.call is None:
            kept = ", ".join(
                sorted(str(question[0]) for question in self._known if isinstance(question, tuple))
            )
            raise RegardError(
                f"{self.name} was watched with keep='evidence', which kept {kept or 'nothing'}: ask for more there"
            )
        for part, tensor, version in self._versions:
            if _version(tensor) != version:
                raise RegardError(
                    f"the {part} that {self.name} attended with was overwritten after it was seen: ask before that, "
                    "or watch with keep='evidence'"
                )
        return self.call

    def __repr__(self) -> str:
        return f"<{self.name}: {' × '.join(map(str, self.shape))}>"


def _version(tensor: Tensor) -> int:
    # A tensor made in inference mode does not count its changes; watching copies those instead of trusting them.
    return 0 if tensor.is_inference() else tensor._version
