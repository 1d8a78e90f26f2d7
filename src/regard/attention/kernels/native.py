"""The package's C kernels for inference on the CPU, called through ctypes.

Torch starts ten operations for an 8-bit linear map and five for attention of a single query, each with its own pass over
memory. These do the same in one or two passes, on torch's own threads. A float32 map of one row is as fast as its weights
are read. They are built with the package (setup.py).
"""

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.autograd import forward_ad

MAX_LEADING = 32  # words that `leading` can find
Level = Literal["baseline", "avx2", "avx512", "avx512vnni"]  # instruction sets, in the order of cpu.c
LEVELS: tuple[Level, ...] = get_args(Level)
LIBRARY = Path(__file__).with_name("kernels.so")
NOT_BUILT = "the C kernels are not built: install a C compiler and reinstall regard"


class Kernels:
    """The kernels as compiled for one instruction set; the results have the same bits for each."""

    def __init__(self, library: ctypes.CDLL, level: Level) -> None:
        pointer, number, real, whole = ctypes.c_void_p, ctypes.c_long, ctypes.c_float, ctypes.c_int

        def found(name: str, *arguments: Any, gives: Any = None) -> Callable[..., Any]:
            function = getattr(library, f"{name}_{level}")
            function.argtypes, function.restype = arguments, gives
            return function

        self.level = level
        self.multiplies_int8 = level == "avx512vnni"  # whether `int8_linear` is one of them
        self.multiplies_float32 = (
            level != "baseline"
        )  # whether `float32_linear` and those of `varlen_cpu` are
        self._quantise = found("quantise", pointer, number, number, real, whole, whole, pointer, pointer)
        self._finish = found("finish", pointer, number, number, pointer, pointer)
        self._finish_whole = found("finish_whole", pointer, pointer, number, pointer, pointer, pointer)
        self._added_norm = found(
            "added_norm", pointer, pointer, number, number, pointer, pointer, real, pointer
        )
        self._leading = found("leading", pointer, number, number, number, number, whole, pointer, pointer)
        self._small_queries = found("small_queries", *[pointer] * 7, real, *[number] * 7, pointer)
        if self.multiplies_int8:
            self._int8_linear = found(
                "int8_linear", pointer, number, number, real, whole, pointer, number, *[pointer] * 4
            )
        if self.multiplies_float32:
            self._float32_linear = found(
                "float32_linear", pointer, number, number, whole, pointer, number, *[pointer] * 3
            )
            self.varlen_forward = found("varlen_forward", *[pointer] * 8, real, gives=whole)
            self.varlen_backward = found("varlen_backward", *[pointer] * 12, real, gives=whole)

    def __reduce__(self) -> tuple[Callable[[Level], "Kernels | None"], tuple[Level]]:
        return kernels_for, (self.level,)  # so that optimised models can be copied

    def quantise(
        self, x: Float[Tensor, "r n"], *, tiny: float, signed: bool, rectified: bool
    ) -> tuple[Integer[Tensor, "r n"], Float[Tensor, " r"]]:
        """Bytes of each row, or of max(row, 0), with its largest number as 127, and that number."""
        rows, width = x.shape
        x = x.contiguous()
        bytes_ = torch.empty(rows, width, dtype=torch.int8 if signed else torch.uint8, device="cpu")
        largest = _floats(rows)
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
        y = _floats(*sums.shape)
        self._finish_whole(
            sums.data_ptr(),
            y.data_ptr(),
            y.shape[1],
            scale.data_ptr(),
            largest.data_ptr(),
            _address(bias),
        )
        return y

    def int8_linear(
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
        x, y = x.contiguous(), _floats(rows, len(scale))
        space = torch.empty(rows * (2 * width + 11), dtype=torch.uint8, device="cpu")
        self._int8_linear(
            x.data_ptr(), rows, width, tiny, rectified, panels.data_ptr(), len(scale), scale.data_ptr(),
            _address(bias), space.data_ptr(), y.data_ptr(),
        )  # fmt: skip
        return y

    def float32_linear(
        self,
        x: Float[Tensor, "r n"],
        panels: Float[Tensor, "panels n 32"],
        outputs: int,
        bias: Tensor | None,
        *,
        rectified: bool,
    ) -> Float[Tensor, "r {outputs}"]:
        """The map of each row, or of max(row, 0), by the weights of `in_float_panels`."""
        rows, width = x.shape
        x, y = x.contiguous(), _floats(rows, outputs)
        space = _floats(rows * -(-width // 256) * 272)
        self._float32_linear(
            x.data_ptr(), rows, width, rectified, panels.data_ptr(), outputs, _address(bias), space.data_ptr(), y.data_ptr()
        )  # fmt: skip
        return y

    def added_norm(
        self, x: Float[Tensor, "*b n"], added: Float[Tensor, "*b n"], norm: nn.LayerNorm
    ) -> Float[Tensor, "*b n"]:
        """norm(x + added)."""
        x, added = x.contiguous(), added.contiguous()
        y, width = _floats(*x.shape), x.shape[-1]
        self._added_norm(
            x.data_ptr(), added.data_ptr(), x.numel() // width, width, norm.weight.data_ptr(), norm.bias.data_ptr(),
            norm.eps, y.data_ptr(),
        )  # fmt: skip
        return y

    def small_queries(
        self,
        query: Float[Tensor, "s h q d"],
        key: Float[Tensor, "s g k d"],
        value: Float[Tensor, "s g k dv"],
        *,
        added: Float[Tensor, "... _q _k"] | None,  # 0, or −inf where a query may not look
        scale: float,
    ) -> Float[Tensor, "s h q dv"]:
        """softmax(scale · QKᵀ + added) V, for queries that may all look at something."""
        sources, heads, queries, width = query.shape
        keys, values = key.shape[2], value.shape[3]
        out = _floats(sources, queries, heads, values).transpose(1, 2)
        pairs = sources * heads * queries * (keys + 1)
        scratch = _floats(2 * pairs)  # scores, and as many places of 32 bits
        scores = scratch.data_ptr()
        places = scores + scratch.element_size() * pairs
        steps_of_added: tuple[int, ...] = (0, 0, 0)
        if added is not None:
            added = added.expand(sources, heads, queries, keys)  # an axis that is repeated has steps of 0
            added = added if added.stride(-1) == 1 or keys == 1 else added.contiguous()
            steps_of_added = added.stride()[:3]
        steps = (ctypes.c_long * 15)(
            *query.stride()[:3],
            *key.stride()[:3],
            *value.stride()[:3],
            *steps_of_added,
            *out.stride()[:3],
        )
        self._small_queries(
            query.data_ptr(), key.data_ptr(), value.data_ptr(), _address(added), out.data_ptr(), scores,
            places, scale, sources, heads, heads // key.shape[1], queries, keys, width, values, steps,
        )  # fmt: skip
        return out

    def leading(
        self, logits: Float[Tensor, "r words"], count: int, *, first: int
    ) -> tuple[Float[Tensor, "r {count}"], Int[Tensor, "r {count}"]]:
        """Log-probabilities of the `count` likeliest words from `first` on, and which they are; of equals the first.

        NaN where a row has no probabilities. Where fewer words are possible, −inf of word 0 fills up.
        """
        (rows, words), logits = logits.shape, logits if logits.stride(-1) == 1 else logits.contiguous()
        found = _floats(rows, count).fill_(-torch.inf)
        places = torch.zeros(rows, count, dtype=torch.long, device="cpu")
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
    """Weights from −127 to 127 as `Kernels.int8_linear` reads them: w + 128, 32 outputs at a time, four inputs side by side."""
    out, width = whole.shape
    filled = nn.functional.pad(whole.short(), (0, -width % 4, 0, -out % 32)) + 128
    return filled.to(torch.uint8).view(-1, 32, (width + 3) // 4, 4).transpose(1, 2).contiguous()


def in_float_panels(weight: Float[Tensor, "out n"]) -> Float[Tensor, "panels n 32"]:
    """Weights as `Kernels.float32_linear` reads them: 32 outputs at a time, those of an input side by side."""
    out, width = weight.shape
    filled = nn.functional.pad(weight, (0, 0, 0, -out % 32))
    return filled.view(-1, 32, width).transpose(1, 2).contiguous()


@lru_cache(maxsize=1)
def kernels() -> Kernels | None:
    """The kernels for the best instruction set of this CPU; None where the package was installed without a C compiler."""
    library = _library()
    return None if library is None else Kernels(library, LEVELS[library.instruction_set()])


def kernels_for(level: Level) -> Kernels | None:
    """The kernels for one instruction set; None where they are not built or the CPU does not have it."""
    library = _library()
    if library is None or LEVELS.index(level) > library.instruction_set():
        return None
    return Kernels(library, level)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    if not LIBRARY.exists():
        return None
    library = ctypes.CDLL(str(LIBRARY))
    threads = _openmp()
    if threads is not None:
        names = ("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num")
        library.use_threads.argtypes, library.use_threads.restype = [ctypes.c_void_p] * 3, None
        library.use_threads(*(ctypes.cast(getattr(threads, name), ctypes.c_void_p) for name in names))
    return library


def _openmp() -> ctypes.CDLL | None:
    """The OpenMP runtime that torch has loaded, to share its threads; None where there is none like gcc's."""
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    path = next((line.split(maxsplit=5)[5] for line in maps if "libgomp" in line), None)
    return None if path is None else ctypes.CDLL(path)


def _floats(*shape: int) -> Tensor:
    """Space for float32, whatever torch's default is."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def untraced(x: Tensor) -> bool:
    """Whether a kernel that torch does not know may compute with a tensor: nothing records which operators are called.

    Compilers and exporters do, and so do the transforms of torch.func, forward-mode derivatives and subclasses of tensors.
    """
    return (
        not torch.compiler.is_compiling()
        and type(x) in (Tensor, nn.Parameter)
        and torch._C._get_tracing_state() is None
        and not torch._C._are_functorch_transforms_active()
        and not has_tangent(x)
    )


def has_tangent(x: Tensor) -> bool:
    """Whether a forward-mode derivative of a tensor is wanted."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(x).tangent is not None  # type: ignore[no-untyped-call]


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
