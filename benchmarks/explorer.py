"""The explorer in a real browser: how soon it paints, how smoothly it pans, how large a file it writes.

    python benchmarks/explorer.py --out benchmarks/results

needs playwright and an installed chromium. Times are the page's own: from the beginning of its navigation to its first
painted map, and to the exact one. While panning, they are the gaps between frames.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from measuring import machine
from playwright.sync_api import sync_playwright

from regard.attention.masks import causal
from regard.attention.multihead import MultiHeadAttention
from regard.sight.explorer.example import Example
from regard.sight.explorer.export import export
from regard.sight.explorer.serving import serve
from regard.sight.explorer.watched import example_of
from regard.sight.watch import watch

LENGTHS = (32, 4096, 32_768)
VISITS = 5
FRAMES = """new Promise(done => { const gaps = []; let last = performance.now();
  const step = now => { gaps.push(now - last); last = now; gaps.length < 90 ? requestAnimationFrame(step) : done(gaps) };
  requestAnimationFrame(step) })"""
MARK = (
    "name => { const all = performance.getEntriesByName(name); return all.length ? all[0].startTime : null }"
)


class Stack(torch.nn.Module):
    """Layers of causal self-attention over vectors near those of their neighbours."""

    def __init__(self, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(MultiHeadAttention(width, heads) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x after all layers."""
        for layer in self.layers:
            x = x + layer(x, mask=causal())
        return x


def example(tokens: int, *, layers: int = 2, heads: int = 4, width: int = 256) -> Example:
    """A text of so many tokens, read by a random model."""
    torch.manual_seed(0)
    place = torch.arange(tokens)[:, None] * torch.exp(-torch.arange(width // 2) * 9.2 / (width // 2))
    vectors = torch.cat([place.sin(), place.cos()], -1) + 0.5 * torch.randn(tokens, width)
    model = Stack(layers, heads, width).eval()
    with torch.no_grad(), watch(model) as seen:
        model(vectors[None])
    return example_of(seen, [f" word{n}" for n in range(tokens)], name=f"{tokens:,} tokens")


def visited(browser: Any, shown: Example) -> dict[str, Any]:
    """First paints and exact maps of several visits, each to a server of its own; gaps between frames of the last."""
    first, exact, gaps = [], [], []
    for visit in range(VISITS):
        with serve([shown], browser=False) as showing:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{showing.url}&view=map")
            first.append(_marked(page, "regard-painted"))
            exact.append(_marked(page, "regard-exact"))
            if visit == VISITS - 1:
                gaps = _panned(page)
            page.close()
    return {"first": first, "exact": exact, "gaps": gaps}


def _marked(page: Any, name: str) -> float:
    for _ in range(3000):
        found = page.evaluate(MARK, name)
        if found is not None:
            return float(found)
        page.wait_for_timeout(20)
    raise TimeoutError(name)


def _panned(page: Any) -> list[float]:
    """Gaps between frames while the map, a few steps closer, is dragged about."""
    box = page.get_by_role("application").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    for _ in range(4):
        page.mouse.wheel(0, -240)
        page.wait_for_timeout(60)
    page.wait_for_timeout(1500)
    page.mouse.down()
    page.evaluate(f"window.gaps = {FRAMES}")
    for step in range(120):
        page.mouse.move(x + 150 * ((step % 40) / 40 - 0.5), y + 100 * ((step % 30) / 30 - 0.5))
    page.mouse.up()
    return [float(gap) for gap in page.evaluate("window.gaps")][1:]


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        export([example(256, layers=12, heads=12, width=768)], path)
        size = path.stat().st_size / 1e6
    rows = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for tokens in LENGTHS:
            rows[tokens] = visited(browser, example(tokens))
        browser.close()
    lines = [
        "# The explorer in a browser",
        "",
        "Made by `python benchmarks/explorer.py`. " + "; ".join(f"{k}: {v}" for k, v in about.items()) + ".",
        "",
        f"Milliseconds; the median of {VISITS} visits, and the slowest. Frames: gaps between them while dragging.",
        "",
        "| tokens | first paint | slowest | exact map | slowest | frame, median | 9 of 10 below |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for tokens, row in rows.items():
        gaps = sorted(row["gaps"])
        cells = [
            statistics.median(row["first"]),
            max(row["first"]),
            statistics.median(row["exact"]),
            max(row["exact"]),
            statistics.median(gaps),
            gaps[int(0.9 * len(gaps))],
        ]
        lines.append(f"| {tokens:,} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    lines += [
        "",
        f"An export of 12 layers × 12 heads × 256 tokens, page included: {size:.1f} MB (BertViz: 421 MB).",
    ]
    print("\n".join(lines))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "explorer.md").write_text("\n".join(lines) + "\n")
        (options.out / "explorer.json").write_text(
            json.dumps({"machine": about, "export MB": size, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
