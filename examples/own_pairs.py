"""A translator trained from pairs of your own in a few seconds, asked for what it has never seen, and looked at.

The pairs are made here: "the red house" is "la maison rouge", so it has to look back for the colour. Writes own_pairs.png
into the folder given as argument, or here.
"""

import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import regard
from regard import picture_of
from regard.runs import resolve
from regard.training import begin

FIRST = {"the": "la", "a": "une", "this": "cette", "my": "ma", "your": "ta"}
COLOURS = {"red": "rouge", "yellow": "jaune", "green": "verte", "white": "blanche", "black": "noire"}
THINGS = {"house": "maison", "table": "table", "car": "voiture", "flower": "fleur", "door": "porte"}

pairs = [
    (f"{the} {red} {house}", f"{la} {maison} {rouge}")
    for (the, la), (red, rouge), (house, maison) in product(FIRST.items(), COLOURS.items(), THINGS.items())
]
unseen = pairs[7::17]  # one pair in seventeen is kept away from training

with TemporaryDirectory() as folder:
    table = Path(folder, "pairs.tsv")
    table.write_text("".join("\t".join(pair) + "\n" for pair in pairs if pair not in unseen))
    recipe = resolve(
        {
            "data": {"kind": "pairs", "train": str(table), "held_out": 0.05},
            "tokens": {"kind": "word"},
            "model": {
                "kind": "transformer",
                "width": 64,
                "depth": 1,
                "decoder_depth": 1,
                "hidden_width": 128,
            },
            "training": {"steps": 150, "batch": 512, "learning_rate": 3e-3, "warmup": 20, "evaluate": 50},
        }
    )
    run = begin(recipe, Path(folder, "run")).run  # what `regard train` does, without its progress bar
    translator = regard.load(run.path)

answers = translator.translate([source for source, _ in unseen])
for (source, target), answer in zip(unseen, answers, strict=True):
    print(f"{source:<20}{answer:<24}{'as it should be' if answer == target else target}")

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "own_pairs.png"
picture_of(translator, "the red house", title="the red house").png(out)
print("wrote", out)
