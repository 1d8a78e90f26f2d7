"""Are there more 4s than 2s? Told nothing but yes and no, a model of one query finds out which digits to look at.

Writes counter.png into the folder given as argument, or here.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard import counting
from regard.data.digit_counts import FIRST, CountFeed, count_samples
from regard.models import Counter, CounterConfig
from regard.runs import Training
from regard.training import Log, train

torch.manual_seed(1)
model = Counter(CounterConfig())
settings = Training(steps=700, learning_rate=3e-3, schedule="cosine", warmup=0, weight_decay=0.0)
out = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "counter.png"

with TemporaryDirectory() as folder:
    log = Log(Path(folder, "log.jsonl"))
    train(model, CountFeed(seed=1), settings, folder=Path(folder), seed=1, observers=[log])
    counting(model, count_samples(4, seed=67), log=log.path).png(out)

fresh = count_samples(10_000, seed=1000)
with torch.no_grad():
    right = (model.predict(fresh.inputs).argmax(-1) == fresh.labels).double().mean().item()
    weights, digits = model.weights(fresh.inputs), fresh.inputs.tokens - FIRST
print(f"right on fresh digits in more than 99 of 100 cases: {right > 0.99}")
print("mean weight on each digit:")
for digit in range(10):
    print(f"  {digit}  {'█' * round(100 * weights[digits == digit].mean().item())}")
print("wrote", out)
