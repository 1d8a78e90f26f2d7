"""Contract 5: decoded text is the same alone, in a batch of 64, among other filling and in another order."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from regard.data.batches import END, START, Sequences
from regard.decoding.beam import beam
from regard.decoding.decode import greedy
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.optimise import optimise
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig

WORDS, LIMIT = 29, 7
Text = tuple[tuple[int, ...], bool]
Decode = Callable[[nn.Module, Sequences, torch.Tensor], list[list[Text]]]


def greedily(model: nn.Module, source: Sequences, limits: torch.Tensor) -> list[list[Text]]:
    return [[(tuple(each.tokens), each.finished)] for each in greedy(model, source, limits=limits)]


def by_beam(model: nn.Module, source: Sequences, limits: torch.Tensor) -> list[list[Text]]:
    found = beam(model, source, size=3, limits=limits, penalty=0.6, count=2)
    return [[(tuple(each.tokens), each.finished) for each in texts] for texts in found]


def transformer() -> nn.Module:
    return Transformer(
        TransformerConfig(
            width=32,
            heads=4,
            depth=1,
            decoder_depth=1,
            hidden_width=64,
            tied="none",
            source_vocabulary=WORDS,
            target_vocabulary=WORDS,
        )
    )


def additive_transformer() -> nn.Module:
    return Transformer(
        TransformerConfig(
            width=32,
            heads=4,
            depth=1,
            decoder_depth=1,
            hidden_width=64,
            score="additive",
            tied="none",
            source_vocabulary=WORDS,
            target_vocabulary=WORDS,
        )
    )


def bilinear_language() -> nn.Module:
    return LanguageModel(
        LanguageConfig(
            width=32, heads=4, depth=1, hidden_width=64, vocabulary=WORDS, tied="none", score="bilinear"
        )
    )


def recurrent() -> nn.Module:
    return RecurrentTranslator(
        RecurrentConfig(width=24, embedding_width=16, source_vocabulary=WORDS, target_vocabulary=WORDS)
    )


def language() -> nn.Module:
    return LanguageModel(
        LanguageConfig(width=32, heads=4, depth=1, hidden_width=64, vocabulary=WORDS, tied="none")
    )


def lively(model: nn.Module) -> nn.Module:
    """Weights large enough that texts differ, and some end."""
    generator = torch.Generator().manual_seed(5)
    for weight in model.parameters():
        if weight.ndim > 1:
            drawn = torch.randn(weight.shape, generator=generator, device="cpu").to(weight.device)
            weight.data = drawn * 1.5 / weight.shape[-1] ** 0.5
    model.output.weight.data[END] *= 3
    return model


def sources(count: int, *, first: int | None = None) -> list[list[int]]:
    """Sources of 1 to 9 tokens that end with END; or prompts, when they are to begin with START."""
    sizes = torch.randint(1, 9, (count,)).tolist()
    words = [torch.randint(3, WORDS, (size,)).tolist() for size in sizes]
    return [[*text, END] if first is None else [first, *text] for text in words]


def in_batches(rows: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def decoded(
    model: nn.Module, texts: list[list[int]], decode: Decode, *, rows: list[int], size: int, extra: int = 0
) -> list[list[Text]]:
    """The sources decoded in this order in batches of this size, with `extra` columns of noise behind them."""
    limits = torch.tensor([LIMIT - index % 3 for index in range(len(texts))])
    found: list[list[Text]] = [[] for _ in texts]
    for batch in in_batches(rows, size):
        source = Sequences.of([texts[i] for i in batch]).to(limits.device)
        if extra:
            wider = torch.cat([source.tokens, torch.zeros(len(batch), extra, dtype=torch.long)], dim=1)
            noise = torch.randint(3, WORDS, wider.shape)
            filling = torch.arange(wider.shape[1]) >= source.lengths[:, None]
            source = Sequences(noise.where(filling, wider), source.lengths)
        for index, answer in zip(batch, decode(model, source, limits[batch]), strict=True):
            found[index] = answer
    return found


@pytest.mark.usefixtures(
    "as_a_user"
)  # a thousand texts alone are many steps, and their shapes are checked elsewhere
@pytest.mark.parametrize("precision", [None, "float32", "int8"])  # None: as it was trained
@pytest.mark.parametrize("decode", [greedily, by_beam])
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (transformer, 40),
        (recurrent, 40),
        (language, 40),
        (additive_transformer, 20),
        (bilinear_language, 20),
        pytest.param(transformer, 250, marks=pytest.mark.slow),
        pytest.param(recurrent, 600, marks=pytest.mark.slow),
        pytest.param(language, 150, marks=pytest.mark.slow),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_text_does_not_depend_on_its_company(
    make: Callable[[], nn.Module],
    count: int,
    decode: Decode,
    precision: str | None,
) -> None:
    model = lively(make())
    if precision is not None:
        model = optimise(model, precision=precision).model
    prompted = make is language
    texts = sources(count, first=START if prompted else None)
    everyone = list(range(count))
    alone = decoded(model, texts, decode, rows=everyone, size=1)
    assert decoded(model, texts, decode, rows=everyone, size=64) == alone
    assert decoded(model, texts, decode, rows=torch.randperm(count).tolist(), size=64) == alone
    if not prompted:
        assert decoded(model, texts, decode, rows=everyone[::-1], size=50, extra=7) == alone
    best = [answer[0] for answer in alone]
    assert len({tokens for tokens, _ in best}) > count // 8
    assert sum(finished for _, finished in best) > count // 20
    assert len({len(tokens) for tokens, _ in best}) > 3
