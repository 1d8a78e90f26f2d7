"""Recurrence: a state that is carried along a sequence, by any of three cells.

| cell   | equation                                                     | first seen      |
|--------|--------------------------------------------------------------|-----------------|
| `rnn`  | h' = tanh(Wx + Uh)                                           | Elman 1990      |
| `gru`  | h' = (1 − z) ⊙ n + z ⊙ h, with gates z, r                    | Cho 2014        |
| `lstm` | c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c'), with gates i, f, o    | Hochreiter 1997 |

A state is one tensor [b, depth, parts, width] whatever the cell: an LSTM has the parts h and c, the others h alone.
"""

from collections.abc import Callable
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.errors import RegardError

Cell = Literal["rnn", "gru", "lstm"]
_STACKS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Recurrence(nn.Module):
    """A stack of recurrent layers. Both ways: half of the width reads from the left, half from the right."""

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        cell: Cell = "lstm",
        depth: int = 1,
        both_ways: bool = False,
        dropout: float = 0.0,  # between layers
    ) -> None:
        super().__init__()
        if depth < 1 or width < 1 or (both_ways and width % 2):
            raise RegardError(
                f"Recurrence(width={width}, depth={depth}): at least 1 each, and an even width to be read both ways"
            )
        self.width, self.cell, self.depth = width, cell, depth
        self.parts = 2 if cell == "lstm" else 1
        between = dropout if depth > 1 else 0.0
        self.stack = _STACKS[cell](
            inputs,
            width // 2 if both_ways else width,
            depth,
            batch_first=True,
            bidirectional=both_ways,
            dropout=between,
        )

    def forward(
        self, x: Float[Tensor, "b n i"], state: Float[Tensor, "b _depth _parts _width"] | None = None
    ) -> tuple[Float[Tensor, "b n _width"], Float[Tensor, "b _depth _parts _width"]]:
        """The states of the last layer at every position, and the state after the last position."""
        states, last = self.stack(x, None if state is None else self._torch_state(state))
        return states, self._own_state(last)

    def read(
        self, x: Float[Tensor, "b n i"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n _width"], Float[Tensor, "b _depth _parts _width"]]:
        """`forward` over padded sequences: zeros at padding, and the state after the last real position.

        Read both ways, the half from the right is the one after the first position.
        """
        count = lengths.cpu()
        if int(count.min()) < 1:
            raise RegardError(
                f"sequences of lengths {count.tolist()}: a recurrence reads at least one position"
            )
        packed = pack_padded_sequence(x, count, batch_first=True, enforce_sorted=False)
        states, last = self.stack(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])[0], self._own_state(
            last
        )

    def read_on(
        self, x: Float[Tensor, "b n i"], lengths: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b n _width"], Float[Tensor, "b _depth _parts _width"]]:
        """`read`, step by step, without waiting to learn how long the sequences are. An empty one ends in zeros."""
        real = torch.arange(x.shape[1], device=x.device)[:, None] < lengths
        x, last = torch.where(real[..., None], x.transpose(0, 1), 0.0), []
        for layer in range(self.depth):
            if layer and self.stack.dropout:
                x = F.dropout(x, self.stack.dropout, self.training)
            states, ends = self._read_layer(x, real, layer)
            x = torch.where(real[..., None], states, 0.0)
            last.append(ends)
        return x.transpose(0, 1), torch.stack(last, 1)

    def _read_layer(self, x: Tensor, real: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """[n, b, width] and [b, parts, width]. Both ways go side by side; where nothing is real, a state stays."""
        ways = ["", "_reverse"] if self.stack.bidirectional else [""]
        weights = [self._weights(f"{layer}{way}") for way in ways]
        given = torch.stack([_along(F.linear(x, w, c), back) for back, (w, _, c, _) in enumerate(weights)], 1)
        within = torch.stack([_along(real, back) for back in range(len(ways))], 1)[..., None]
        matrix = torch.stack([u for _, u, _, _ in weights]).mT.to(given.dtype)
        offset = torch.stack([d for _, _, _, d in weights])[:, None].to(given.dtype)
        state = given.new_zeros(self.parts, len(ways), x.shape[1], self.stack.hidden_size).unbind(0)
        states = []
        for gates, counts in zip(given.unbind(0), within.unbind(0), strict=True):
            new = _moved(self.cell, gates, torch.baddbmm(offset, state[0], matrix), state)
            state = tuple(torch.where(counts, *parts) for parts in zip(new, state, strict=True))
            states.append(state[0])
        sides = torch.stack(states).unbind(1)
        beside = torch.cat([_along(side, back) for back, side in enumerate(sides)], -1)
        return beside, rearrange(torch.stack(state), "part way b w -> b part (way w)")

    def step(
        self, x: Float[Tensor, "b i"], state: Float[Tensor, "b depth parts width"]
    ) -> Float[Tensor, "b depth parts width"]:
        """The state after one more input: the cells of the stack, without what a whole sequence needs around them."""
        states = []
        for layer in range(self.depth):
            if layer and self.stack.dropout:
                x = F.dropout(x, self.stack.dropout, self.training)
            states.append(self._cell(x, state[:, layer], layer))
            x = states[-1][:, 0]
        return torch.stack(states, dim=1)

    def _weights(self, layer: str) -> list[Tensor]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self.stack, f"{name}_l{layer}") for name in names]

    def _cell(self, x: Tensor, state: Tensor, layer: int) -> Tensor:
        weights = self._weights(f"{layer}")
        if self.cell == "lstm":
            return torch.stack(torch.lstm_cell(x, [state[:, 0], state[:, 1]], *weights), dim=1)
        cell = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
        return cell(x, state[:, 0], *weights)[:, None]

    def _own_state(self, last: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """From torch's [depth · ways, b, width / ways], one tensor a part."""
        parts = torch.stack(last if isinstance(last, tuple) else (last,))
        return rearrange(parts, "part (depth way) b w -> b depth part (way w)", depth=self.depth)

    def _torch_state(self, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        ways = 2 if self.stack.bidirectional else 1
        parts = rearrange(state, "b depth part (way w) -> part (depth way) b w", way=ways).contiguous()
        return (parts[0], parts[1]) if self.parts == 2 else parts[0]


def _along(x: Tensor, back: int) -> Tensor:
    """As it is read: from the left, or from the right."""
    return x.flip(0) if back else x


def _moved(cell: Cell, new: Tensor, old: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A state after one step, from what its input and itself say to the gates, all [ways, b, …]."""
    hidden = state[0]
    if cell == "rnn":
        return (torch.tanh(new + old),)
    if new.is_cuda:  # one kernel instead of a dozen
        flat = [part.flatten(0, 1) for part in (new, old, *state)]
        if cell == "gru":
            return (torch.ops.aten._thnn_fused_gru_cell(flat[0], flat[1], flat[2])[0].view_as(hidden),)
        found = torch.ops.aten._thnn_fused_lstm_cell(flat[0], flat[1], flat[3])[:2]
        return tuple(part.view_as(hidden) for part in found)
    if cell == "gru":
        (reset, update, fresh), (reset_too, update_too, kept) = new.chunk(3, -1), old.chunk(3, -1)
        held = torch.sigmoid(update + update_too)
        return (torch.lerp(torch.tanh(fresh + torch.sigmoid(reset + reset_too) * kept), hidden, held),)
    gates = (new + old).chunk(4, -1)
    let_in, forget, let_out = (torch.sigmoid(gates[number]) for number in (0, 1, 3))
    memory = forget * state[1] + let_in * torch.tanh(gates[2])
    return let_out * torch.tanh(memory), memory
