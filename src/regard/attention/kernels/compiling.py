"""The C sources of this folder as one library, made on demand by the compiler of the machine and kept in the user's cache."""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from regard.errors import RegardError

_FLAGS = ("-O3", "-march=native", "-fPIC", "-std=gnu11")
# Bits are promised of the first two; in the others sums may be taken in any order.
_SOURCES = {
    "native.c": ("-ffp-contract=off",),
    "whole.c": ("-ffp-contract=off",),
    "asking.c": ("-ffast-math",),
    "leading.c": ("-ffast-math",),
}


def library() -> ctypes.CDLL:
    """All kernels, compiled if that was not done before."""
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
        return ctypes.CDLL(str(place))
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
