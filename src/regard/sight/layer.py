"""One watched attention call, and the evidence and measures of it."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight import evidence, measures
from regard.sight.kernels.kernel_mask import Backend, choose_backend
from regard.sight.selection import Choice, positions, select


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """The attention of one call of a model. Asking computes, in linear memory; an answer is kept.

    `name` is the path of the module that made the call, `call` what it asked, or None when only answers were kept.
    A call that could not be understood has a `reason` instead, which asking raises.
    """

    name: str
    call: Call | None
    shape: tuple[int, ...]  # of the weights, [batch …, heads, queries, keys]
    reason: str = ""  # why the call was not understood
    _versions: tuple[tuple[str, Tensor, int], ...] = ()
    _logsumexp: Float[Tensor, "*batch q"] | None = None  # where the kernel of the forward pass returned it
    _known: dict[Hashable, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, call: Call, logsumexp: Tensor | None = None) -> "Layer":
        """A layer that notices when what it holds is overwritten."""
        versions = tuple((part, tensor, _version(tensor)) for part, tensor in _tensors(call))
        shape = (*call.query.shape[:-1], call.key.shape[-2])
        return cls(name=name, call=call, shape=shape, _versions=versions, _logsumexp=logsumexp)

    @classmethod
    def missed(cls, name: str, reason: str) -> "Layer":
        """A call that could not be understood."""
        return cls(name=name, call=None, shape=(), reason=reason)

    @property
    def understood(self) -> bool:
        """Whether the call could be expressed as a `Call`, so that questions have answers."""
        return not self.reason

    def entropy(self) -> Float[Tensor, "*batch q"]:
        """How widely each query looks, in nats: 0 at one key, log k at k keys alike."""
        return self._looks.entropy

    def received(self) -> Float[Tensor, "*batch k"]:
        """The mass each key got from all queries together."""
        return self._answer(("received",))

    def logsumexp(self) -> Float[Tensor, "*batch q"]:
        """log Σ exp(score) of each query; −∞ when it may look at nothing."""
        return self._looks.logsumexp

    def peak(self) -> tuple[Int[Tensor, "*batch q"], Float[Tensor, "*batch q"]]:
        """The heaviest key of each query and its weight; −1 and 0 when it may look at nothing."""
        keys, weights = self.top(1)
        return keys[..., 0], weights[..., 0]

    def top(self, count: int) -> evidence.Heaviest:
        """The heaviest keys of each query and their weights, heaviest first."""
        return self._answer(("top", count))

    def map(self, height: int, width: int) -> Float[Tensor, "*batch h w"]:
        """The weights pooled, exactly, into at most so many rows and columns."""
        return self._answer(("map", height, width))

    def distance(self) -> measures.Reading:
        """How far each query looks, in positions."""
        return measures.distance(self.intact())

    def previous_token(self) -> measures.Reading:
        """The weight of each query on the position before its own."""
        return measures.previous_token(self.intact())

    def similarity(self) -> Float[Tensor, "*batch h h"]:
        """How alike the heads look: 1 for the same weights, 0 where they share no key."""
        return measures.similarity(self.intact())

    def sinks(self, *, count: int = 1, above: float = 0.3) -> measures.Sinks:
        """The mass that the first keys, and keys with more than a share of all, receive."""
        return measures.sinks(self.intact(), count=count, above=above)

    def induction(self, tokens: Int[Tensor, "... k"]) -> measures.Reading:
        """The mass on what followed earlier occurrences of the token at each query."""
        return measures.induction(self.intact(), tokens)

    def ask(self, *questions: str | tuple[str, *tuple[int, ...]]) -> None:
        """Answer several questions in one pass: "entropy", "received", ("top", 5), ("map", 256, 256)."""
        for question in questions:
            check_question(question)
        plain = {question if isinstance(question, tuple) else (question,) for question in questions}
        new = {_SAME.get(question[0], question) for question in plain} - set(self._known)
        if new:
            call, logsumexp = self.intact(), self._found_logsumexp()
            sums: set[tuple[str, *tuple[int, ...]]] = {("entropy",), ("received",)}
            if choose_backend(call).way == "strips" and new & sums:
                new |= sums - set(self._known)  # over strips the second costs nothing
            elif logsumexp is None and any(question[0] in ("received", "map") for question in new):
                new |= {("entropy",)} - set(self._known)  # comes with the log-sum-exp, which these need
            made = {
                question: _QUESTIONS[question[0]](call, *question[1:]) for question in sorted(new, key=str)
            }
            evidence.ask(call, *made.values(), level=logsumexp)
            self._known.update({question: asked.answer() for question, asked in made.items()})

    def weights(
        self, *, queries: Choice = None, keys: Choice = None, heads: Choice = None, batch: Choice = None
    ) -> Float[Tensor, "*batch q k"]:
        """The exact weights of a rectangle: of these queries on these keys, heads and batch entries."""
        call = self.intact()
        rows, columns = positions(queries, self.shape[-2], "query"), positions(keys, self.shape[-1], "key")
        part, where = select(call, batch=batch, heads=heads), call.query.device
        return evidence.rectangle(part, torch.tensor(rows, device=where), torch.tensor(columns, device=where))

    def select(self, *, batch: Choice = None, heads: Choice = None) -> "Layer":
        """The same of some batch entries and heads."""
        return Layer.of(self.name, select(self.intact(), batch=batch, heads=heads))

    def explain(self) -> Backend:
        """Where asking is computed, and why: `print(layer.explain())`."""
        return choose_backend(self.intact())

    def _found_logsumexp(self) -> Tensor | None:
        """The log-sum-exp, if the forward pass or an earlier answer gave it."""
        looks: evidence.QuerySummary | None = self._known.get(("entropy",))
        return self._logsumexp if looks is None else looks.logsumexp

    @property
    def _looks(self) -> evidence.QuerySummary:
        return self._answer(("entropy",))

    def _answer(self, question: tuple[str, *tuple[int, ...]]) -> Any:
        self.ask(question)
        return self._known[question]

    def intact(self) -> Call:
        """The call, if it was understood and is still what it was when it was seen."""
        if self.reason:
            raise RegardError(f"{self.name} attended in a way that was not understood: {self.reason}")
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

    def _repr_html_(self) -> str:
        from regard.sight.pictures.atlas import html

        return html(self)

    def __repr__(self) -> str:
        if self.reason:
            return f"<{self.name}: not understood: {self.reason}>"
        return f"<{self.name}: {' × '.join(map(str, self.shape))}>"


_QUESTIONS: dict[str, Callable[..., evidence.Question[Any]]] = {
    "entropy": evidence.Looking,
    "received": evidence.Receiving,
    "top": evidence.Ranking,
    "map": evidence.Pooling,
}
_SAME: dict[str, tuple[str, *tuple[int, ...]]] = {"logsumexp": ("entropy",), "peak": ("top", 1)}


def check_question(question: object) -> None:
    """Raise unless this is a question that a call can answer."""
    match (question,) if isinstance(question, str) else question:
        case ("entropy" | "received" | "logsumexp" | "peak",):
            return
        case ("top", int() as count) if count > 0:
            return
        case ("map", int() as height, int() as width) if height > 0 and width > 0:
            return
    raise RegardError(
        f"ask={question!r}: ask for 'entropy', 'received', 'logsumexp', 'peak', ('top', n) or ('map', height, width)"
    )


def _tensors(call: Call) -> Iterator[tuple[str, Tensor]]:
    """Everything the answers depend on, down to the weights of a score and the tensor inside a mask."""
    yield from (("query", call.query), ("key", call.key))
    for word, part in (("mask", call.mask), ("bias", call.bias), ("score", call.score)):
        yield from ((word, tensor) for tensor in _inside(part))


def _inside(part: object) -> Iterator[Tensor]:
    """The tensors in a part, down to the last; parts may hold each other, as packed sequences that ask themselves do."""
    found: set[int] = set()
    parts = [part]
    while parts:
        one = parts.pop()
        if id(one) in found:
            continue
        found.add(id(one))
        if isinstance(one, Tensor):
            yield one
        elif isinstance(one, nn.Module):
            if one._parameters or one._modules:  # most scores have none, and asking a module takes its time
                yield from one.parameters()
        elif isinstance(one, tuple | list):
            parts.extend(one)
        elif hasattr(one, "__dict__") and type(one).__module__.startswith("regard."):
            parts.extend(vars(one).values())


def _version(tensor: Tensor) -> int:
    # A tensor made in inference mode does not count its changes; watching copies those instead of trusting them.
    return 0 if tensor.is_inference() else tensor._version
