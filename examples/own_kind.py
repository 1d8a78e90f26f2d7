"""A model of your own: described by a Kind, it is trained by a recipe, loaded, used and explored like the others.

regard train mine.yaml --kind examples/own_kind.py
regard classify runs/mine "a text" --kind examples/own_kind.py
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn

import regard
from regard.data import Sequences
from regard.layers import mean_pooling
from regard.models import Kind, Labelling


@dataclass(frozen=True, kw_only=True)
class OneLookConfig:
    KIND: ClassVar[str] = "one-look"  # the name in recipes
    width: int = 32
    heads: int = 4
    vocabulary: int = 0  # from the data, like the classes
    classes: int = 2


class OneLook(Labelling[Sequences]):  # which has `loss` and `predict`
    def __init__(self, config: OneLookConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.attention = regard.MultiHeadAttention(config.width, config.heads)
        self.output = nn.Linear(config.width, config.classes)

    def scores(self, inputs: Sequences) -> Tensor:
        x = self.embedding(inputs.tokens)
        x = x + self.attention(x, mask=regard.lengths(inputs.lengths))
        return self.output(mean_pooling(x, inputs.lengths))


KIND = Kind(
    config=OneLookConfig, model=OneLook, reads=("text",), gives="class",
    task="classification", verbs=("classify",), view="text-class",
)  # fmt: skip

if __name__ == "__main__":
    from regard.runs import resolve
    from regard.training import begin

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "texts.tsv")
        table.write_text("".join(f"{word} {n} times\t{word}\n" for n in range(40) for word in ("yes", "no")))
        data = {"kind": "labelled", "train": str(table), "held_out": 0.1}
        training = {"steps": 60, "batch": 400, "warmup": 5, "learning_rate": 0.01}
        recipe = resolve({"data": data, "model": {"kind": "one-look"}, "training": training}, [KIND])
        run = begin(recipe, Path(folder, "run"), device="cpu").run.path
        print(regard.load(run, kinds=[KIND], device="cpu").classify(["yes 99 times", "no 98 times"]))
