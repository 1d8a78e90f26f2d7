"""Kernels in C for answering on the CPU, compiled on demand by the compiler of the machine, and called by address.

Torch starts ten operations for an 8-bit linear map and five for a step of attention, each with its own pass over memory.
These do the same in one or two passes. They use torch's own threads.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from regard.errors import RegardError

_FLAGS = ("-O3", "-march=native", "-fPIC", "-std=gnu11")
# Bits are promised of the first two; in the others sums may be taken in any order.
_SOURCES = {
    "native.c": ("-ffp-contract=off",),
    "whole.c": ("-ffp-contract=off",),
    "asking.c": ("-ffast-math",),
    "leading.c": ("-ffast-math",),
}
MOST = 32  # words that `leading` can find


class Native:
    """The compiled kernels."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        pointer, number, real = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
        whole = ctypes.c_int
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
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, None
        self._quantise, self._finish = self._library.quantise, self._library.finish
        self._finish_whole, self._ask = self._library.finish_whole, self._library.ask
        self._leading = self._library.leading
        self._added_norm, self._linear = self._library.added_norm, self._library.linear
        self.multiplies = bool(self._library.multiplies())  # whether this machine has `linear`

    def quantise(
        self, x: Float[Tensor, "r n"], *, tiny: float, signed: bool, rectified: bool
    ) -> tuple[Integer[Tensor, "r n"], Float[Tensor, " r"]]:
        """Bytes of each row, or of max(row, 0), with its largest number as 127, and that number."""
        rows, width = x.shape
        x = x.contiguous()
        bytes_ = torch.empty(rows, width, dtype=torch.int8 if signed else torch.uint8)
        largest = torch.empty(rows)
        turn = 128 if signed else 0
        self._quantise(
            x.data_ptr(), rows, width, tiny, turn, rectified, bytes_.data_ptr(), largest.data_ptr()
        )
        return bytes_, largest

    def finish(self, y: Float[Tensor, "r n"], largest: Float[Tensor, " r"], bias: Tensor | None) -> Tensor:
        """y · largest + bias, in place."""
        rows, width = y.shape
        self._finish(y.data_ptr(), rows, width, largest.data_ptr(), _address(bias))
        return y

    def finish_whole(
        self, sums: Int[Tensor, "1 n"], scale: Tensor, largest: Float[Tensor, " 1"], bias: Tensor | None
    ) -> Float[Tensor, "1 n"]:
        """sums · scale · largest + bias, of one row of whole numbers."""
        y = torch.empty(sums.shape)
        self._finish_whole(
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
        self._linear(
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
        self._added_norm(
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
        self._ask(
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
        self._leading(
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
    found = os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if found is None:
        raise RegardError("compiling needs a C compiler, and neither cc, gcc nor clang is here: install one")
    compiler = shlex.split(found)  # such as "ccache gcc"
    threads = _threads()
    with_threads = ("-fopenmp",) if threads else ("-fopenmp-simd",)
    folder = Path(__file__).parent
    named = [platform.processor(), _cpu(), *compiler, *_FLAGS, *with_threads]
    for source, flags in _SOURCES.items():
        named += [(folder / source).read_text(), *flags]
    version = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    place = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard" / f"native-{version}.so"
    )
    try:
        if not place.exists():
            _build(place, compiler, with_threads)
        if threads is not None:
            ctypes.CDLL(threads, mode=ctypes.RTLD_GLOBAL)
        return Native(place)
    except OSError as error:
        raise RegardError(
            f"compiled kernels are kept as {place}, which cannot be written or loaded ({error.strerror or error}); "
            "XDG_CACHE_HOME names another folder for them"
        ) from None


def _build(place: Path, compiler: list[str], with_threads: tuple[str, ...]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        for source, flags in _SOURCES.items():
            file, made = Path(__file__).parent / source, f"{scratch}/{source}.o"
            _run(*compiler, *_FLAGS, *with_threads, *flags, "-c", str(file), "-o", made)
        # Linked without -ffast-math, which would change how the whole process treats the smallest numbers.
        objects = [f"{scratch}/{source}.o" for source in _SOURCES]
        _run(*compiler, "-shared", *objects, "-o", f"{scratch}/native.so", "-lm")
        os.replace(f"{scratch}/native.so", place)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RegardError(
            f"the C compiler {command[0]} cannot be started ({error.strerror}); CC names it"
        ) from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[0]
        raise RegardError(f"the C compiler {command[0]} failed: {said}")


def _threads() -> str | None:
    """The library of threads that torch has loaded, to be shared; None where there is none like gcc's."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    return next((line.split()[-1] for line in maps if "libgomp" in line), None)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
