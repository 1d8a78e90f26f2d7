"""How similar two positions are, as a map: sinusoidal ones ripple, Gaussian ones fall like a bell.

Writes positions.png into the folder given as argument, or here.
"""

import sys
from pathlib import Path

import torch

import regard
from regard.layers import Gaussian, Sinusoidal

places = torch.arange(24)
names = [str(place) for place in places.tolist()]
schemes = {"Sinusoidal(32)": Sinusoidal(32), "Gaussian(32, decay=0.05)": Gaussian(32, decay=0.05, horizon=24)}

pictures = []
for name, scheme in schemes.items():
    vectors = scheme(places)
    similar = vectors @ vectors.mT / vectors[0].square().sum()
    print(f"{name:<26}", [round(value, 2) for value in similar[0, :10].tolist()])
    pictures.append(
        regard.heatmap(similar.clamp_min(0), names, names, title=name, note="p(i)·p(j), and 0 where negative")
    )

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
regard.sheet([pictures]).png(folder / "positions.png")
print("wrote", folder / "positions.png")
