"""Kernels in C for answering on the CPU, compiled on demand and called by address.

Torch starts ten operations for an 8-bit linear map and five for a step of attention, each with its own pass over memory.
These do the same in one or two passes. They use torch's own threads.
"""

import ctypes
from functools import lru_cache

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from regard.attention.kernels.compiling import library

MOST = 32  # words that `leading` can find


class Native:
    """The compiled kernels."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number, real, whole = ctypes.c_void_p, ctypes.c_long, ctypes.c_float, ctypes.c_int
        for name, arguments in (
            ("quantise", [pointer, number, number, real, whole, whole, pointer, pointer]),
            ("finish", [pointer, number, number, pointer, pointer]),
            ("finish_whole", [pointer, pointer, number, pointer, pointer, pointer]),
            ("added_norm", [pointer, pointer, number, number, pointer, pointer, real, pointer]),
            (
                "linear",
                [pointer, number, number, real, whole, pointer, number, pointer, pointer, pointer, pointer],
            ),
            ("leading", [pointer, number, number, number, number, whole, pointer, pointer]),
            ("ask", [pointer] * 7 + [real] + [number] * 7 + [pointer]),
        ):
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, None
        self._c = library
        self.multiplies = bool(library.multiplies())  # whether this machine has `linear`

    def quantise(
        self, x: Float[Tensor, "r n"], *, tiny: float, signed: bool, rectified: bool
    ) -> tuple[Integer[Tensor, "r n"], Float[Tensor, " r"]]:
        """Bytes of each row, or of max(row, 0), with its largest number as 127, and that number."""
        rows, width = x.shape
        x = x.contiguous()
        bytes_ = torch.empty(rows, width, dtype=torch.int8 if signed else torch.uint8)
        largest = torch.empty(rows)
        turn = 128 if signed else 0
        self._c.quantise(
            x.data_ptr(), rows, width, tiny, turn, rectified, bytes_.data_ptr(), largest.data_ptr()
        )
        return bytes_, largest

    def finish(self, y: Float[Tensor, "r n"], largest: Float[Tensor, " r"], bias: Tensor | None) -> Tensor:
        """y · largest + bias, in place."""
        rows, width = y.shape
        self._c.finish(y.data_ptr(), rows, width, largest.data_ptr(), _address(bias))
        return y

    def finish_whole(
        self, sums: Int[Tensor, "1 n"], scale: Tensor, largest: Float[Tensor, " 1"], bias: Tensor | None
    ) -> Float[Tensor, "1 n"]:
        """sums · scale · largest + bias, of one row of whole numbers."""
        y = torch.empty(sums.shape)
        self._c.finish_whole(
            sums.data_ptr(),
            y.data_ptr(),
            y.shape[1],
            scale.data_ptr(),
            largest.data_ptr(),
            _address(bias),
        )
        return y

    def linear(
        self,
        x: Float[Tensor, "r n"],
        panels: Integer[Tensor, "panels n4 32 4"],
        scale: Float[Tensor, " out"],
        bias: Tensor | None,
        *,
        tiny: float,
        rectified: bool,
    ) -> Float[Tensor, "r out"]:
        """The map of each row in whole numbers: quantise, multiply by the weights of `in_panels`, and finish."""
        rows, width = x.shape
        x, y = x.contiguous(), torch.empty(rows, len(scale))
        room = torch.empty(rows * (2 * width + 11), dtype=torch.uint8)
        self._c.linear(
            x.data_ptr(), rows, width, tiny, rectified, panels.data_ptr(), len(scale), scale.data_ptr(),
            _address(bias), room.data_ptr(), y.data_ptr(),
        )  # fmt: skip
        return y

    def added_norm(
        self, x: Float[Tensor, "*b n"], added: Float[Tensor, "*b n"], norm: nn.LayerNorm
    ) -> Float[Tensor, "*b n"]:
        """norm(x + added)."""
        x, added = x.contiguous(), added.contiguous()
        y, width = torch.empty(x.shape), x.shape[-1]
        self._c.added_norm(
            x.data_ptr(), added.data_ptr(), x.numel() // width, width, norm.weight.data_ptr(), norm.bias.data_ptr(),
            norm.eps, y.data_ptr(),
        )  # fmt: skip
        return y

    def ask(
        self,
        query: Float[Tensor, "s h q d"],
        key: Float[Tensor, "s g k d"],
        value: Float[Tensor, "s g k dv"],
        *,
        added: Float[Tensor, "_s 1 _q k"] | None,  # 0, or −inf where nobody may look
        scale: float,
    ) -> Float[Tensor, "s h q dv"]:
        """softmax(scale · QKᵀ + added) V, for queries that may all look at something."""
        sources, heads, queries, width = query.shape
        keys, values = key.shape[2], value.shape[3]
        out = torch.empty(sources, queries, heads, values).transpose(1, 2)
        pairs = sources * heads * queries * (keys + 1)
        scores, places = torch.empty(pairs), torch.empty(pairs, dtype=torch.int32)
        by_source, by_query = (0, 0) if added is None else (added.stride(0), added.stride(2))
        if added is not None and added.shape[0] == 1:
            by_source = 0
        if added is not None and added.shape[2] == 1:
            by_query = 0
        steps = (ctypes.c_long * 14)(
            *query.stride()[:3],
            *key.stride()[:3],
            *value.stride()[:3],
            by_source,
            by_query,
            *out.stride()[:3],
        )
        self._c.ask(
            query.data_ptr(), key.data_ptr(), value.data_ptr(), _address(added), out.data_ptr(), scores.data_ptr(),
            places.data_ptr(), scale, sources, heads, heads // key.shape[1], queries, keys, width, values, steps,
        )  # fmt: skip
        return out

    def leading(
        self, logits: Float[Tensor, "r words"], count: int, *, first: int
    ) -> tuple[Float[Tensor, "r {count}"], Int[Tensor, "r {count}"]]:
        """Log-probabilities of the `count` likeliest words from `first` on, and which they are; of equals the first.

        NaN where a row has no probabilities. Where fewer words are possible, −inf of word 0 fills up.
        """
        (rows, words), logits = logits.shape, logits if logits.stride(-1) == 1 else logits.contiguous()
        found = torch.full((rows, count), -torch.inf)
        places = torch.zeros(rows, count, dtype=torch.long)
        self._c.leading(
            logits.data_ptr(),
            rows,
            logits.stride(0),
            words,
            first,
            count,
            found.data_ptr(),
            places.data_ptr(),
        )
        return found, places


def in_panels(whole: Int[Tensor, "out n"]) -> Integer[Tensor, "panels n4 32 4"]:
    """Weights from −127 to 127 as `Native.linear` reads them: w + 128, 32 outputs at a time, four inputs side by side."""
    out, width = whole.shape
    filled = nn.functional.pad(whole.short(), (0, -width % 4, 0, -out % 32)) + 128
    return filled.to(torch.uint8).view(-1, 32, (width + 3) // 4, 4).transpose(1, 2).contiguous()


_used: list[Native] = []


def native() -> Native | None:
    """The kernels, where somebody has asked for them."""
    return _used[0] if _used else None


def use_native() -> Native:
    """Compile the kernels if that was not done before, and use them from now on."""
    if not _used:
        _used.append(_compiled())
    return _used[0]


@lru_cache(maxsize=1)
def _compiled() -> Native:
    return Native(library())


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
