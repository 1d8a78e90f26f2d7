"""How the C kernels are built: each source once for every instruction set, all of them into one plain shared library.

The library uses nothing of Python and is called through ctypes, so one wheel serves every Python. It is optional: where
no C compiler works, the package is installed without it, and says so when a model is optimised.
"""

import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = Path("src/regard/attention/kernels")
FOR_ALL = ("cpu.c",)
PER_LEVEL = (
    "added_norm.c",
    "float32_linear.c",
    "int8_linear.c",
    "leading.c",
    "quantise.c",
    "small_queries.c",
    "varlen.c",
)
# No fused multiply-adds but those a kernel names: the bits are the same on every instruction set. The other flags change no
# result.
FLAGS = [
    "-O3",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
]
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"]
LEVELS = {  # in the order of instruction_set() in cpu.c
    "baseline": [],
    "avx2": AVX2,
    "avx512": AVX512,
    "avx512vnni": [*AVX512, "-mavx512vnni"],
}


class BuildKernels(build_ext):
    """Compile the sources for each instruction set of the machine that is built for."""

    def get_ext_filename(self, fullname: str) -> str:
        """A name without a Python version, which the library does not depend on."""
        return f"{Path(*fullname.split('.'))}.so"

    def build_extension(self, ext: Extension) -> None:
        """Compile and link."""
        objects = self._compiled(FOR_ALL, "baseline", [])
        x86 = self.plat_name.endswith(("x86_64", "amd64"))
        for level, flags in LEVELS.items():
            if x86 or level == "baseline":
                objects += self._compiled(PER_LEVEL, level, flags)
        self.compiler.link_shared_object(objects, self.get_ext_fullpath(ext.name), libraries=["m"])

    def _compiled(self, names: tuple[str, ...], level: str, flags: list[str]) -> list[str]:
        return self.compiler.compile(
            [str(KERNELS / name) for name in names],
            output_dir=f"{self.build_temp}/{level}",
            macros=[("LEVEL", level)],
            extra_postargs=[*FLAGS, *flags, "-Wno-psabi"],
        )


class PlainWheel(bdist_wheel):
    """A wheel for one platform and every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI, platform."""
        return "py3", "none", super().get_tag()[2]


sources = sorted(str(path) for path in KERNELS.glob("*.[ch]"))
with tempfile.TemporaryDirectory() as built:  # a folder in the tree would keep files of older versions
    setup(
        ext_modules=[Extension("regard.attention.kernels.kernels", sources, optional=True)],
        cmdclass={"build_ext": BuildKernels, "bdist_wheel": PlainWheel},
        options={"build": {"build_base": built}},
    )
