"""A torch.nn.TransformerEncoder, watched: the same bits, the heaviest keys of a word, and a map of every head.

The model is not trained; its queries and keys are projected alike, so that like finds like. Writes watch_encoder.png
into the folder given as argument, or here.
"""

import sys
from pathlib import Path

import torch
from torch import nn

import regard
from regard.data.letter_vectors import spell

torch.manual_seed(0)
words = [
    "how",
    "much",
    "wood",
    "would",
    "a",
    "woodchuck",
    "chuck",
    "if",
    "a",
    "woodchuck",
    "could",
    "chuck",
    "wood",
]
vectors = spell(words)
x = nn.functional.pad(vectors, (0, -vectors.shape[-1] % 4))[None]
width = x.shape[-1]

layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
with torch.no_grad():
    alike = torch.randn(width, width) * width**-0.25
    layer.self_attn.in_proj_weight[: 2 * width] = torch.cat([alike, alike])
model = nn.TransformerEncoder(layer, 3).eval()

with torch.no_grad():
    plain = model(x)
    with regard.watch(model) as seen:
        watched = model(x)
print("the same bits:", torch.equal(plain, watched))
print(seen)

asked = words.index("chuck")
keys, weights = (part[0, :, asked].tolist() for part in seen["layers.0.self_attn"].top(3))
for head in range(4):
    found = zip(keys[head], weights[head], strict=True)
    print(f"head {head}: chuck looks at", ", ".join(f"{words[key]} {weight:.2f}" for key, weight in found))

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
regard.overview(seen, title=" ".join(words)).png(folder / "watch_encoder.png")
print("wrote", folder / "watch_encoder.png")
