"""The mask of a prefix language model, composed: a prompt seen by all, then words that look back, in a padded batch.

Writes prefix_lm_mask.png into the folder given as argument, or here.
"""

import sys
from pathlib import Path

import torch

import regard
from regard.data.letter_vectors import spell

words = ["translate", "the", "watchmen", ":", "les", "gardiens", "<pad>", "<pad>"]
prompt, real = 4, 6

mask = (regard.causal() | regard.prefix(prompt)) & regard.lengths(torch.tensor([real]))
print(mask)
print(mask.picture(len(words), len(words)))

x = spell(words)[None]  # a batch of one
weights = regard.weigh(x, x, mask)[0]
allowed = mask.dense(len(words), len(words))[0]
picture = regard.heatmap(
    weights, words, words, allowed=allowed, title="A prefix language model", note=str(mask)
)

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
picture.png(folder / "prefix_lm_mask.png")
print("wrote", folder / "prefix_lm_mask.png")
