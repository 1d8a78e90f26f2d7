"""Where a head looks is not whether it matters: the head with the heaviest weight can be dropped, the light one cannot.

A model of one attention layer says, at the "?", whether an a or a b came before. Its weights are set by hand.
"""

import torch
from torch import Tensor, nn

import regard

SIGNS = ["<s>", "a", "b", ".", "?"]


class Finder(nn.Module):
    """Two heads over five signs: one looks at the first and finds nothing there, one finds the letter."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = regard.MultiHeadAttention(8, 2, affine=False)
        query, key, value, output = torch.zeros(4, 8, 8).unbind()  # rows 0–3 of the first three are head 0
        query[0, :5], key[0, 0] = 4.0, 4.0  # head 0: every sign looks at <s>, whose value is 0
        query[4, 4], key[4, 1:3] = 2.0, 1.0  # head 1: "?" looks at a and b a little more than at the others
        value[[0, 4], 1], value[[0, 4], 2] = 1.0, -1.0  # either head would tell a from b if it looked there
        output[0, [0, 4]], output[1, [0, 4]] = 8.0, -8.0
        with torch.no_grad():
            self.attention.input.all.weight.copy_(torch.cat([query, key, value]))
            self.attention.output.weight.copy_(output)

    def forward(self, signs: Tensor) -> Tensor:
        """The scores of a and b, at the last sign."""
        x = nn.functional.one_hot(signs, 8).float()
        answer: Tensor = self.attention(x)[:, -1, :2]
        return answer


if __name__ == "__main__":
    model, text = Finder(), ["<s>", ".", ".", "a", ".", ".", ".", ".", "?"]
    signs, letter = torch.tensor([[SIGNS.index(sign) for sign in text]]), torch.tensor([0])
    with torch.no_grad():
        with regard.watch(model) as seen:
            model(signs)
        found = seen.matters(lambda: nn.functional.cross_entropy(model(signs), letter))

    keys, weights = (part[0, :, -1].tolist() for part in seen["attention"].peak())
    print(f"{'':<8}{'? looks most at':<24}loss without it")
    for head, change in enumerate(found.change["attention"].tolist()):
        most = f"{text[keys[head]]} {weights[head]:.2f}"
        print(f"head {head:<3}{most:<24}{found.metric:.2f} → {found.metric + change:.2f}")
