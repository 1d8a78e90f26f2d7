"""Torch's own tests of its attention and Transformer classes, run over ours.

    python tests/interop/torch_upstream.py CHECKOUT/test

`CHECKOUT` is a checkout of PyTorch's sources, best of the installed version; nothing of it is kept here. The tests
need `expecttest` beside what ours need. Each file runs twice in a process of its own: first as it is, then with our
classes and function in place of torch's and inside `strict_nan()`. A test that stock torch itself fails or skips
says nothing. Of the others, those that fail with ours must be exactly those of `torch_upstream_exceptions.txt`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

HERE = Path(__file__).resolve().parent
EXCEPTIONS = HERE / "torch_upstream_exceptions.txt"
SWAP = "REGARD_SWAP_TORCH"
SELECTED = {
    "nn/test_multihead_attention.py": "test",
    "test_transformers.py": "TestTransformers",
    "test_nn.py": "ransformer or MultiheadAttention",
    "test_modules.py": "ransformer or MultiheadAttention",
}
NAMES = (
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
)


def swap() -> None:
    """Put our classes and function where torch's are."""
    from regard.interop import torch as ours

    modules = torch.nn.modules
    for name in NAMES:
        for place in (torch.nn, modules, modules.activation, modules.transformer):
            if hasattr(place, name):
                setattr(place, name, getattr(ours, name))
    torch.nn.functional.multi_head_attention_forward = ours.multi_head_attention_forward


def stand_in() -> None:
    """Give torch's test support the names that tests of torch 2.6 import and torch 2.13 no longer has."""
    support = import_module("torch.testing._internal.common_nn")
    support.__dict__.setdefault("new_module_tests", [])
    support = import_module("torch.testing._internal.common_cuda")
    support.__dict__.setdefault("tf32_is_not_fp32", lambda: False)
    support = import_module("torch.testing._internal.common_mkldnn")
    support.__dict__.setdefault("bf32_on_and_off", lambda *_: lambda test: test)


# This file is a pytest plugin too, which is loaded before any test is.


def pytest_configure() -> None:
    if os.environ.get(SWAP):
        swap()
    stand_in()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    from regard.interop.torch import strict_nan

    with strict_nan():
        return (yield)


def run(folder: Path, file: str, wanted: str, swapped: bool) -> dict[str, str]:
    """The outcome of each test of a file: passed, failed or skipped."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(HERE), *filter(None, sys.path)]))
    environment.pop(SWAP, None)
    if swapped:
        environment[SWAP] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "torch_upstream", "--noconftest", "-c", os.devnull]
        command += [
            "--rootdir",
            str(folder),
            "-p",
            "no:cacheprovider",
            "-q",
            "--tb=line",
            f"--junitxml={report}",
        ]
        command += ["-W", "ignore", "-k", wanted, file]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if not report.exists():
            raise SystemExit(f"{file} did not run:\n{done.stdout}\n{done.stderr}")
        cases = ElementTree.parse(report).iter("testcase")
        return {
            f"{file}::{case.get('classname', '').split('.')[-1]}::{case.get('name')}": _outcome(case)
            for case in cases
        }


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def exceptions() -> dict[str, str]:
    """The committed list: test → why it cannot pass."""
    lines = (
        line for line in EXCEPTIONS.read_text().splitlines() if line.strip() and not line.startswith("#")
    )
    return dict(line.split(None, 1) for line in lines)


def compare(file: str, stock: dict[str, str], ours: dict[str, str]) -> tuple[list[str], bool]:
    """What there is to say about a file, and whether it is as the committed list says."""
    listed = {test for test in exceptions() if test.startswith(f"{file}::")}
    passed = {test for test, outcome in stock.items() if outcome == "passed"}
    failed = {test for test in passed if ours.get(test) != "passed"}
    counts = Counter(stock.values())
    lines = [
        f"{file}: stock torch passes {counts['passed']}, fails {counts['failed']}, skips {counts['skipped']}; "
        f"of those it passes ours passes {len(passed - failed)}, {len(failed & listed)} are excepted",
        *(f"  fails, and is not excepted: {test}" for test in sorted(failed - listed)),
        *(f"  is excepted, and does not fail: {test}" for test in sorted(listed - failed)),
        *(f"  stock torch fails it too: {test}" for test in sorted(stock) if stock[test] == "failed"),
    ]
    return lines, failed == listed


def main() -> int:
    """Run everything, or one file, and say how it went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the test folder of a PyTorch checkout")
    parser.add_argument("--only", choices=SELECTED, help="run only this file")
    arguments = parser.parse_args()
    good = True
    for file, wanted in SELECTED.items():
        if arguments.only in (None, file):
            stock, ours = (
                run(arguments.folder.resolve(), file, wanted, swapped) for swapped in (False, True)
            )
            lines, as_listed = compare(file, stock, ours)
            good = good and as_listed
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
