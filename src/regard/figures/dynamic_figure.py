"""Fixed and dynamic weights: one pair of positions under a convolution, a dense layer over positions, and attention."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F

from regard.attention.multihead import MultiHeadAttention
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.figures.agreement_sentences import (
    LENGTH,
    NOUNS,
    ORDERS,
    AgreementSentence,
    agreement_sentence,
    encoded,
    every_sentence,
    vocabulary,
)
from regard.figures.figure_result import FigureResult, Progress, silent
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import Panels

WIDTH, KERNEL = 16, 5
_RATE = 0.01
_EVERY = 60  # updates between two lines of progress


# Each layer makes the answer at the verb, the last word, from the vectors of all: [batch, 7, width] to [batch, width].
# `shares` says how much of it comes from each of the seven places, for one sentence [7, width]; they sum to 1.


class _Convolution(nn.Module):
    """Weights by distance: a kernel of five, of which the last word has the three up to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.layer(x.mT)[..., -1]
        return answers

    def shares(self, x: Tensor) -> Tensor:
        """The lengths of the kernel's matrices, 0 where it does not reach; x plays no part."""
        lengths = self.layer.weight.norm(dim=(0, 1))[: KERNEL // 2 + 1]
        return F.pad(lengths / lengths.sum(), (LENGTH - len(lengths), 0))


class _Dense(nn.Module):
    """A matrix for each place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(LENGTH * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.layer(x.flatten(-2))
        return answers

    def shares(self, x: Tensor) -> Tensor:
        """The lengths of the matrices; x plays no part."""
        lengths = self.layer.weight.reshape(WIDTH, LENGTH, WIDTH).norm(dim=(0, 2))
        return lengths / lengths.sum()


class _Attention(nn.Module):
    """One head, without positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = MultiHeadAttention(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.layer(x)[..., -1, :]
        return answers

    def shares(self, x: Tensor) -> Tensor:
        """The weights of the verb."""
        return weigh(self.layer.call(x[None]))[0, 0, -1]


_Mixing = _Convolution | _Dense | _Attention
KINDS: dict[str, type[_Mixing]] = {
    "convolution": _Convolution,
    "dense layer": _Dense,
    "attention": _Attention,
}


class _Answering(nn.Module):
    """Word vectors, one layer that mixes places, and a linear map to the nouns; trained to name the subject."""

    def __init__(self, mixing: _Mixing) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(vocabulary()), WIDTH)
        self.mixing = mixing
        self.nouns = nn.Linear(WIDTH, len(NOUNS))

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.nouns(self.mixing(self.vectors(words)))
        return logits


def dynamic(
    *,
    seed: Annotated[int, "Of the first parameters."] = 0,
    steps: Annotated[int, "Updates of each of the three layers, over all sentences at once."] = 180,
    progress: Progress = silent,
) -> FigureResult:
    """From which words the verb's answer comes, under a convolution, a dense layer over positions, and attention.

    The answer at position i is Σⱼ W[i−j] xⱼ, Σⱼ W[i,j] xⱼ, or Σⱼ A[i,j] V xⱼ, where only A depends on the words.
    """
    for option, given, low, high in (("--seed", seed, 0, 2**31), ("--steps", steps, 1, 10_000)):
        if not low <= given <= high:
            raise RegardError(f"{option} {given}: give {low} to {high}")
    sentences = every_sentence()
    learned = [each for each in sentences if not each.held_out]
    tested = [each for each in sentences if each.held_out]
    trained_on, held_out = encoded(learned), encoded(tested)
    shown = _shown()
    shares: dict[str, list[list[float]]] = {}
    accuracy: dict[str, dict[str, float]] = {"sentences trained on": {}, "held-out pairs of nouns": {}}
    changes: dict[str, float] = {}
    for name, kind in KINDS.items():
        model = _trained(kind, trained_on, seed=seed, steps=steps, name=name, progress=progress)
        for part, (words, nouns) in zip(accuracy.values(), (trained_on, held_out), strict=True):
            with torch.no_grad():
                part[name] = round(float((model(words).argmax(-1) == nouns).float().mean()), 6)
        with torch.no_grad():
            vectors = model.vectors(encoded(shown)[0])
            shares[name] = [_rounded(model.mixing.shares(x)) for x in vectors]
        changes[name] = _change(model.mixing, vectors)
    parts = [
        matrix(
            [shares[name][number] for name in KINDS],
            rows=list(KINDS),
            columns=sentence.words,
            title=f"The subject is word {sentence.subject + 1}",
            marked=torch.arange(LENGTH) == sentence.subject,
            top=1.0,
        )
        for number, sentence in enumerate(shown)
    ]
    on_subject = [shares["attention"][number][each.subject] for number, each in enumerate(shown)]
    places = ", ".join(str(each.subject + 1) for each in shown)
    return FigureResult(
        name="dynamic",
        picture=Panels(
            parts=parts,
            title="From which words the verb's answer comes, as the subject moves",
            note="outlined: the subject. Shares of each place: norms of fixed matrices, or attention weights; all three trained",
        ),
        numbers={
            "seed": seed, "steps": steps, "sentences trained on": len(learned), "sentences tested": len(tested),
            "shown": [{"words": list(each.words), "subject": each.subject} for each in shown],
            "shares": shares,
            "subjects named right": accuracy,
            "relative change of the map from words to answer between sentences": changes,
        },
        see=(
            f"The subject is word {places}. Convolution and dense layer have the same row each time: their weights are fixed.",
            f"Attention follows the subject, with weights of {' '.join(f'{each:.2f}' for each in on_subject)}: they depend on the words.",
            "Subjects named right, of sentences trained on and of new pairs of nouns: "
            + "; ".join(f"{name} {' and '.join(f'{part[name]:.0%}' for part in accuracy.values())}" for name in KINDS)
            + ".",
        ),
    )  # fmt: skip


def _shown() -> list[AgreementSentence]:
    """One sentence of each order, of a held-out pair of nouns; singular and plural subjects in turn."""
    cat, cow = NOUNS.index("cat"), NOUNS.index("cow")
    return [
        agreement_sentence(order, cat, cow, "sleep", plural=number % 2 == 0)
        for number, order in enumerate(ORDERS)
    ]


def _trained(
    kind: type[_Mixing],
    data: tuple[Tensor, Tensor],
    *,
    seed: int,
    steps: int,
    name: str,
    progress: Progress,
) -> _Answering:
    """A layer with word vectors and answers of its own, trained on all sentences at once."""
    words, nouns = data
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _Answering(kind())
    optimiser = torch.optim.Adam(model.parameters(), lr=_RATE)
    for step in range(1, steps + 1):
        loss = F.cross_entropy(model(words), nouns)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % _EVERY == 0:
            progress(f"{name}: loss {loss.item():.3f} after {step} of {steps} updates")
    return model


def _change(mixing: _Mixing, sentences: Tensor) -> float:
    """How far the derivative of the answer by the word vectors, a matrix for each place, is from that of the first sentence.

    The largest distance, as a part of its length: 0 for a layer whose weights are fixed.
    """
    maps = [jacobian(lambda x: mixing(x[None])[0], each) for each in sentences]  # type: ignore[no-untyped-call]
    return round(max(float((each - maps[0]).norm() / maps[0].norm()) for each in maps[1:]), 6)


def _rounded(shares: Tensor) -> list[float]:
    return [round(share, 4) for share in shares.tolist()]
