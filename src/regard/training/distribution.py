"""Distribution: several processes that train one model, as `torchrun` starts them.

All processes see the same folder; the first one writes.
"""

import gc
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from regard.data.batches import Batch, Feed
from regard.errors import Interrupted, Interruption, RegardError
from regard.models.protocols import Loss, Trains

Value = TypeVar("Value")

# The others wait while the first process evaluates, which may mean to decode a whole test set.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class World:
    """The processes that train together, seen from one of them."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes and reports."""
        return self.rank == 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            distributed.all_reduce(tensor)
        return tensor

    def share(self, value: Value) -> Value:
        """The first process's value, for all: something that JSON can say (torch would send a pickle)."""
        if self.size == 1:
            return value
        said = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8, device=self.device)
        size = torch.tensor([len(said)], device=self.device)
        distributed.broadcast(size, src=0)
        heard = said if self.first else torch.zeros(int(size), dtype=torch.uint8, device=self.device)
        distributed.broadcast(heard, src=0)
        return json.loads(bytes(heard.tolist()))

    def ask_first(self, work: Callable[[], Value], interruption: Interruption) -> Value | None:
        """What the first process makes of work that can be left anywhere; None in the others, which wait for it.

        If the first process receives a signal to stop meanwhile, all processes raise `Interrupted`.
        """
        made, stopped = None, False
        if self.first:
            try:
                with interruption.at_once():
                    made = work()
            except Interrupted:
                stopped = True
        if self.share(stopped):
            raise Interrupted
        return made

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's tensors, in place."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)


@contextmanager
def joined(device: torch.device | str) -> Iterator[World]:
    """The processes of this training: one, or as many as torchrun says in WORLD_SIZE (gloo on CPU, nccl on GPU)."""
    device = torch.device(device)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World(device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    ours = not distributed.is_initialized()
    if ours:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
    yield World(device, distributed.get_rank(), distributed.get_world_size())
    # After an error the group is left to the end of the process: an error holds on to the frames it came through, and
    # so to what must be gone before the group is. A wrapped model freed later than its group can hang in there.
    if ours:
        gc.collect()
        distributed.destroy_process_group()


class LossModule(nn.Module):
    """A model whose `forward` is its loss, which is what DistributedDataParallel needs to see.

    An idle process, for which an update has no rows, scores another's row and counts it as nothing: it has to take
    part in the sum of the gradients all the same.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, *, idle: bool = False) -> Loss:
        """The summed loss of a batch."""
        loss = cast(Trains[Batch], self.model).loss(batch)
        if not idle:
            return loss
        nothing = {name: metric * 0 for name, metric in loss.metrics.items()}
        return Loss(loss.total * 0, loss.count * 0, nothing)


def scored(model: nn.Module, world: World, *, first: Batch) -> nn.Module:
    """A model as what scores batches; with several processes, one that averages the gradients over them.

    The first batch is tried out, once alone to see whether all weights take part (looking for those that do not costs
    time at every update), and once together: DistributedDataParallel chooses the order in which it sums gradients
    anew after its first backward pass, and sums of three or more processes depend on the order. So the first update
    of a resumed training sums as the same update of one that was never stopped. Random numbers are drawn; what the
    model keeps beside its weights, such as running means, is put back.
    """
    if world.size == 1:
        return LossModule(model)
    alone, kept = LossModule(model), [(buffer, buffer.clone()) for buffer in model.buffers()]
    alone(first).total.backward()
    unused = any(weight.grad is None for weight in model.parameters() if weight.requires_grad)
    somewhere = world.sum_(torch.tensor(float(unused), device=world.device)).item() > 0
    together = DistributedDataParallel(alone, find_unused_parameters=somewhere)
    together(first).total.backward()
    model.zero_grad(set_to_none=True)
    for buffer, before in kept:
        buffer.copy_(before)
    return together


def apart(module: nn.Module, *, sync: bool) -> AbstractContextManager[None]:
    """Around forward and backward of a part of an update: gradients stay here, unless it is the last part."""
    if sync or not isinstance(module, DistributedDataParallel):
        return nullcontext()
    return module.no_sync()


@dataclass(frozen=True)
class BatchPlace:
    """The samples of one update, and where in the data they are."""

    epoch: int
    position: int  # which batch of the epoch
    samples: Sequence[int]


def batch_order(feed: Feed[Any], *, epoch: int, position: int) -> Iterator[BatchPlace]:
    """The batches from a place in the data on, epoch after epoch, without end."""
    while True:
        order = feed.order(epoch)
        if not len(order):
            raise RegardError(f"epoch {epoch} has no batches: there is nothing to learn from")
        for here in range(position, len(order)):
            yield BatchPlace(epoch, here, order[here])
        epoch, position = epoch + 1, 0


def share_of(samples: Sequence[int], *, rank: int, size: int, parts: int) -> list[Sequence[int]]:
    """What one of `size` processes takes of an update, in parts: every sample goes to exactly one part of one.

    Rows are dealt out like cards, so that each gets long and short ones. Parts without rows are left out.
    """
    hands = size * parts
    dealt = (samples[hand::hands] for hand in range(rank * parts, (rank + 1) * parts))
    return [hand for hand in dealt if len(hand)]


_HINTS = {"threads": "--threads {0}", "deterministic": "--deterministic", "processes": "--nproc-per-node {0}"}


def conditions(world: World) -> dict[str, object]:
    """What the bits of a training depend on beside its recipe; a checkpoint keeps them."""
    found: dict[str, object] = {
        "processes": world.size,
        "device": world.device.type,
        "torch": str(torch.__version__),
    }
    if world.device.type == "cpu":
        return found | {"threads": torch.get_num_threads()}
    return found | {"deterministic": torch.are_deterministic_algorithms_enabled()}


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> str | None:
    """What is no longer as it was when a checkpoint was made, in one line; None if all is, or it did not say."""
    other = [name for name in now if name in before and before[name] != now[name]]
    if not other:
        return None
    changes = ", ".join(f"{name} {now[name]} instead of {before[name]}" for name in other)
    hints = " and ".join(_HINTS[name].format(before[name]) for name in other if name in _HINTS)
    return f"resumed with {changes}: it will end with slightly other weights than without the break" + (
        f" (the same bits need {hints})" if hints else ""
    )


def deterministic() -> None:
    """Ask torch for the same bits every time, at some cost on a GPU. To be called before anything ran there."""
    # cuBLAS reads this once, when it starts: a fixed workspace is what makes its sums come in one order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
