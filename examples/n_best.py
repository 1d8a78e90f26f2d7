"""The best few translations of a beam search, with scores: where there are two, the search finds both.

English says "you" to one and to many; of its two French translations a model that saw both finds each half as likely.
"""

import math
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import regard
from regard.runs import resolve
from regard.training import begin

WHO = {"I am": ["je suis"], "you are": ["tu es", "vous êtes"], "we are": ["nous sommes"]}
HOW = {
    "here": "ici",
    "late": "en retard",
    "there": "là",
    "early": "en avance",
    "ready": "à l'heure",
    "away": "loin",
}
ADDED = {"": "", " today": " aujourd'hui", " now": " maintenant", " again": " encore", " too": " aussi"}

with TemporaryDirectory() as folder:
    table = Path(folder, "pairs.tsv")
    rows = [
        f"{who} {how}{also}\t{said} {comment}{aussi}\n"
        for (who, ways), (how, comment), (also, aussi) in product(WHO.items(), HOW.items(), ADDED.items())
        for said in ways
    ]
    table.write_text("".join(rows), "utf-8")
    sizes = {"width": 64, "heads": 4, "depth": 1, "decoder_depth": 1, "hidden_width": 128}
    recipe = resolve(
        {
            "data": {"kind": "pairs", "train": str(table), "held_out": 0.1},
            "tokens": {"kind": "word"},
            "model": {"kind": "transformer", **sizes, "dropout": 0.0, "smoothing": 0.0},
            "training": {
                "steps": 150,
                "batch": 512,
                "learning_rate": 2e-3,
                "warmup": 20,
                "schedule": "cosine",
            },
        }
    )
    translator = regard.load(begin(recipe, Path(folder, "run")).run.path)

best = translator.hypotheses(["you are late today"], beam=4, count=4)[0]
for each in best:
    print(f"{each.ranking:8.2f}  p = {math.exp(each.log_probability):.2f}  {each.text}")

# What the search says of its texts is what forced decoding says of them.
scores = translator.score(["you are late today"] * 4, [each.text for each in best])
apart = max(abs(score - each.log_probability) for score, each in zip(scores, best, strict=True))
print("scored again, the same to 1e-3:", apart < 1e-3)
