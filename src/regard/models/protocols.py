"""What the rest of the library asks of a model, and nothing more."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import Batch


@dataclass(frozen=True, eq=False)
class Loss:
    """What is to become small, summed over the tokens (or samples) it counts; so are the metrics beside it.

    Sums, because batches differ in size: who reports or trains divides by the count over everything it summed.
    """

    total: Float[Tensor, ""]
    count: Int[Tensor, ""]
    metrics: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)


AnyBatch = TypeVar("AnyBatch", bound=Batch, contravariant=True)
AnySource = TypeVar("AnySource", contravariant=True)


@runtime_checkable
class Trains(Protocol[AnyBatch]):
    """What can be trained (an `nn.Module`)."""

    def loss(self, batch: AnyBatch) -> Loss:
        """How wrong the model is about a batch."""


@runtime_checkable
class Answers(Protocol[AnyBatch]):
    """What answers at once: a classifier, the counter."""

    def predict(self, batch: AnyBatch) -> Float[Tensor, "b classes"]:
        """The log-probability of every class."""


@runtime_checkable
class State(Protocol):
    """The state of a generation. A row is one text; several rows may continue one source."""

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """The tokens to step with first: the start token, or the last of a prompt."""

    def pick(self, rows: Int[Tensor, " r"]) -> "State":
        """These rows, in this order. What they remember of their sources is shared, not copied."""


AnyState = TypeVar("AnyState", bound=State)


@runtime_checkable
class Generates(Protocol[AnySource, AnyState]):
    """What continues a text token by token."""

    def start(self, source: AnySource) -> AnyState:
        """Read the sources once; one row each."""

    def step(
        self, tokens: Int[Tensor, " rows"], state: AnyState
    ) -> tuple[Float[Tensor, "rows vocabulary"], AnyState]:
        """The logits of what follows these tokens, and the state after them. The old state is spent."""


@runtime_checkable
class StaticState(Protocol):
    """The state of a generation in tensors of fixed shape and place, changed by every step: for CUDA graphs."""

    @property
    def at(self) -> Int[Tensor, " 1"]:
        """How many tokens are written."""

    def take(self, state: Any) -> None:
        """Start over with what `start` returned, of the same shape or shorter sources."""

    def advance(self, parents: Int[Tensor, "sources group"] | None = None) -> None:
        """To the next position, each row from one of its source; None: each from itself."""


@runtime_checkable
class StepsStatically(Protocol):
    """What can generate so."""

    def static_state(self, state: Any, *, capacity: int, group: int) -> StaticState | None:
        """For `group` texts of each source of a started state, of `capacity` tokens at most; None if it cannot be."""

    def step_static(self, tokens: Int[Tensor, " rows"], state: Any) -> Float[Tensor, "rows vocabulary"]:
        """The logits of what follows these tokens. The state is changed in place."""


@runtime_checkable
class Checks(Protocol):
    """What can say of a source that it cannot read it, before anything is computed."""

    def check(self, source: Any) -> None:
        """Raise if a source cannot be read. A decode that replays a CUDA graph calls this every time."""


AnyModel = Generates[Any, Any]
