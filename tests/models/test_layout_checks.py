"""Batches that a model cannot read are refused in one line."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from models.samples import images, pairs, sequences
from torch import nn

from regard import (
    Classifier,
    ClassifierConfig,
    Counter,
    CounterConfig,
    LanguageConfig,
    LanguageModel,
    RecurrentConfig,
    RecurrentTranslator,
    RegardError,
    Transformer,
    TransformerConfig,
    beam,
    greedy,
    log_probabilities,
    sample,
    stream,
)
from regard.data.batches import Labelled, Packed, Pairs, Sequences, Spans
from regard.layers.embedding import Embedding, Learned
from regard.models.objective import WordLoss, cross_entropy
from regard.models.vision import Vision, VisionConfig

pytestmark = pytest.mark.usefixtures("as_a_user")


SOURCE, TARGET, CLASSES = 13, 17, 3
BAD = [SOURCE, TARGET, -1, -100, 10**6, 2**40]  # no row of any table here
Door = Callable[[Sequences], object]

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest, as_a_user: None) -> Iterator[str]:
    yield request.param
    if request.param == "cuda":
        torch.cuda.synchronize()
        assert (torch.ones(1, device="cuda") + 1).item() == 2


def small(**more: Any) -> dict[str, Any]:
    return {"width": 8, "heads": 2, "depth": 1, "hidden_width": 12, "longest": 16, **more}


def transformer(**more: Any) -> Transformer:
    config = TransformerConfig(
        **small(decoder_depth=1, source_vocabulary=SOURCE, target_vocabulary=TARGET, **more)
    )
    return Transformer(config).eval()


def doors(device: str) -> dict[str, tuple[nn.Module, Door]]:
    """The models by the ways in which they read texts of SOURCE words."""
    right = pairs(source=SOURCE, target=SOURCE).to(device)
    writer = transformer().to(device)
    target = Transformer(
        TransformerConfig(**small(decoder_depth=1, source_vocabulary=SOURCE, target_vocabulary=SOURCE))
    )
    target = target.to(device).eval()
    recurrent = RecurrentTranslator(
        RecurrentConfig(source_vocabulary=SOURCE, target_vocabulary=SOURCE, width=8, embedding_width=6)
    )
    recurrent = recurrent.to(device).eval()
    language = LanguageModel(LanguageConfig(**small(vocabulary=SOURCE))).to(device).eval()
    classifier = Classifier(ClassifierConfig(**small(vocabulary=SOURCE, classes=CLASSES))).to(device).eval()
    counter = Counter(CounterConfig(vocabulary=SOURCE)).to(device)

    def labelled(batch: Sequences) -> Labelled[Sequences]:
        return Labelled(batch, torch.zeros(len(batch), dtype=torch.long, device=device))

    return {
        "transformer source": (target, lambda s: target.loss(Pairs(s, right.target))),
        "transformer target": (target, lambda s: target.loss(Pairs(right.source, s))),
        "transformer logits": (target, lambda s: target.logits(Pairs(right.source, s))),
        "transformer encode": (writer, writer.encode),
        "transformer start": (writer, writer.start),
        "greedy": (writer, lambda s: greedy(writer, s, limits=3)),
        "beam": (writer, lambda s: beam(writer, s, size=2, limits=3)),
        "sample": (writer, lambda s: sample(writer, s, limits=3, seed=0)),
        "score": (target, lambda s: log_probabilities(target, Pairs(right.source, s))),
        "recurrent source": (recurrent, lambda s: recurrent.loss(Pairs(s, right.target))),
        "recurrent target": (recurrent, lambda s: recurrent.loss(Pairs(right.source, s))),
        "recurrent greedy": (recurrent, lambda s: greedy(recurrent, s, limits=3)),
        "language loss": (language, language.loss),
        "language logits": (language, language.logits),
        "language sample": (language, lambda s: sample(language, s, limits=3, seed=0)),
        "language score": (language, lambda s: log_probabilities(language, s)),
        "classifier": (classifier, classifier.predict),
        "classifier loss": (classifier, lambda s: classifier.loss(labelled(s))),
        "counter": (counter, counter.predict),
        "counter loss": (counter, lambda s: counter.loss(labelled(s))),
        "counter weights": (counter, counter.weights),
    }


def altered(token: int, place: tuple[int, int]) -> Sequences:
    batch = sequences(7, 4, 1, vocabulary=SOURCE)
    batch.tokens[place] = token
    return batch


@pytest.mark.parametrize("door", doors("cpu"))
def test_a_token_that_the_table_does_not_have_is_refused_by_name(door: str, device: str) -> None:
    _, ask = doors(device)[door]
    ask(sequences(7, 4, 1, vocabulary=SOURCE).to(device))
    for token in [SOURCE, -1, 2**40]:
        for place in ((0, 0), (0, 6), (1, 5)):  # the first, the last, and padding
            batch = altered(token, place)
            made_there = Sequences(batch.tokens.to(device), batch.lengths.to(device))
            for given in (batch.to(device), made_there):
                with pytest.raises(RegardError, match=rf"token {token}\b.*0 to 12") as caught:
                    ask(given)
                assert "\n" not in str(caught.value)


@pytest.mark.parametrize("door", [name for name in doors("cpu") if "counter" not in name])
@pytest.mark.parametrize("wrong", [8, -1])
def test_a_length_that_does_not_fit_is_refused(door: str, wrong: int, device: str) -> None:
    _, ask = doors(device)[door]
    batch = sequences(7, 4, 1, vocabulary=SOURCE)
    batch.lengths[1] = wrong
    for given in (batch.to(device), Sequences(batch.tokens.to(device), batch.lengths.to(device))):
        with pytest.raises(RegardError, match=rf"lengths from .*{wrong}"):
            ask(given)


@pytest.mark.parametrize("label", [CLASSES, -1, 2**40])
@pytest.mark.parametrize("mixup", [0.0, 0.4])
def test_a_label_without_a_class_is_refused(label: int, mixup: float, device: str) -> None:
    config = VisionConfig(
        **small(channels=2, image_size=(6, 10), patch=(3, 5), classes=CLASSES, mixup=mixup)
        | {"positions": "none"}
    )
    seeing = Vision(config).to(device).train()
    classifier = Classifier(ClassifierConfig(**small(vocabulary=SOURCE, classes=CLASSES))).to(device)
    labels = torch.tensor([0, label, 1])
    texts = sequences(7, 4, 1, vocabulary=SOURCE)
    for model, inputs in ((seeing, images(3)), (classifier, texts)):
        there = inputs.to(device)
        for batch in (Labelled(inputs, labels).to(device), Labelled(there, labels.to(device))):
            with pytest.raises(RegardError, match=rf"label {label}: there are 3 classes, from 0 to 2"):
                model.loss(batch)
    with pytest.raises(RegardError, match="3 inputs and 2 labels"):
        classifier.loss(Labelled(texts.to(device), labels[:2].to(device)))


@pytest.mark.parametrize(
    "changes",
    [
        {"lengths": torch.tensor([7, 4])},
        {"lengths": torch.tensor([7, 4, 2])},
        {"lengths": torch.tensor([9, 4, -1])},
        {"longest": 5},
        {"shortest": 2},
        {"lengths": torch.tensor([7, 4, 2]), "filled": True},
    ],
    ids=str,
)
def test_packed_lengths_that_are_not_those_of_the_row_are_refused(
    changes: dict[str, Any], device: str
) -> None:
    model = LanguageModel(LanguageConfig(**small(vocabulary=SOURCE, positions="learned"))).to(device)
    batch = Packed.of([[4] * 7, [5] * 4, [6]])
    model.loss(batch.to(device))
    wrong = replace(batch, **changes)
    made_there = replace(wrong, tokens=wrong.tokens.to(device), lengths=wrong.lengths.to(device))
    for given in (wrong.to(device), made_there):
        with pytest.raises(RegardError, match="length"):
            model.loss(given)


def test_a_position_that_was_not_learned_is_refused(device: str) -> None:
    learned = Learned(8, count=5).to(device)
    for wrong in (5, -1, 2**40):
        with pytest.raises(RegardError, match="position"):
            learned(torch.tensor([0, wrong], device=device))
    x = torch.zeros(2, 3, 8, device=device)
    for offset in (3, -1, torch.tensor([0, 3], device=device)):
        with pytest.raises(RegardError, match=r"position|offset"):
            learned.add(x, offset=offset)
    with pytest.raises(RegardError, match="positions"):
        transformer(positions="learned").to(device).encode(Sequences.of([[4] * 17]).to(device))


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 2.2e-308, 1e-300, 1e-12, 0.5, 1e300, 1.7e308])
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.3}, {"top_k": 1, "top_p": 1e-300}])
def test_no_temperature_asks_for_a_token_past_the_end(
    temperature: float, options: dict[str, Any], device: str
) -> None:
    model = transformer().to(device)
    source = sequences(7, 4, 1, vocabulary=SOURCE).to(device)
    with pytest.MonkeyPatch.context() as patch:
        for drawn in (0.0, 0.5, 1 - 2**-52):
            patch.setattr(
                "regard.decoding.sampling.uniform",
                lambda seed, rows, step, drawn=drawn: torch.full_like(rows, drawn, dtype=torch.float64),
            )
            found = sample(model, source, limits=4, seed=0, temperature=temperature, **options)
            assert all(0 < token < TARGET for text in found for token in text.tokens)
    if temperature < 1e-300:
        nearly = sample(model, source, limits=4, seed=0, temperature=temperature)
        assert [each.tokens for each in nearly] == [each.tokens for each in greedy(model, source, limits=4)]
    assert list(stream(model, source_of_one(device), limits=3, seed=1, temperature=temperature)) is not None


def source_of_one(device: str) -> Sequences:
    return Sequences.of([[4, 5, 2]]).to(device)


def test_numbers_of_rows_that_are_too_few_are_refused(device: str) -> None:
    model, source = transformer().to(device), sequences(7, 4, 1, vocabulary=SOURCE).to(device)
    with pytest.raises(RegardError, match="2 numbers for 3 rows"):
        sample(model, source, limits=4, seed=0, numbers=torch.tensor([0, 1], device=device))


def test_a_step_with_a_token_that_there_is_not_gives_nothing_that_could_be_taken_for_an_answer(
    device: str,
) -> None:
    model = transformer().to(device)
    state = model.start(sequences(7, 4, vocabulary=SOURCE).to(device))
    tokens = torch.tensor([4, TARGET], device=device)
    if device == "cpu":
        with pytest.raises(RegardError, match="token 17"):
            model.step(tokens, state)
        return
    logits, _ = model.step(tokens, state)
    assert logits[0].isfinite().all()
    assert logits[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_an_embedding_has_the_same_bits_on_every_device(dtype: torch.dtype, device: str) -> None:
    table = Embedding(SOURCE, 7).to(dtype)
    tokens = torch.randint(0, SOURCE, (3, 5))
    assert torch.equal(table(tokens), table.to(device)(tokens.to(device)).cpu())


def test_losses_by_themselves_are_not_a_number_for_a_word_that_there_is_not(device: str) -> None:
    vectors, table = torch.randn(4, 8, device=device), torch.randn(SOURCE, 8, device=device)
    for wrong in (SOURCE, 2**40):
        targets = torch.tensor([1, 2, 3, wrong], device=device)
        assert WordLoss()(vectors, table, targets).total.isnan()
        assert cross_entropy(vectors @ table.T, targets).total.isnan()


@pytest.mark.gpu
def test_a_decode_that_is_replayed_refuses_a_token_too() -> None:
    model = transformer().to("cuda")
    right = sequences(7, 4, 1, vocabulary=SOURCE).to("cuda")
    for _ in range(3):
        greedy(model, right, limits=3)
        beam(model, right, size=2, limits=3)
    for token in BAD:
        if 0 <= token < SOURCE:
            continue
        for given in (altered(token, (0, 3)).to("cuda"),):
            with pytest.raises(RegardError, match=f"token {token}"):
                greedy(model, given, limits=3)
            with pytest.raises(RegardError, match=f"token {token}"):
                beam(model, given, size=2, limits=3)
    torch.cuda.synchronize()
    assert len(greedy(model, right, limits=3)) == 3


def test_what_is_sent_to_another_device_takes_its_spans_along() -> None:
    batch = sequences(7, 4, 1, vocabulary=SOURCE)
    assert batch.to("cpu").spans is None
    spans = batch.to("meta").spans
    assert spans == Spans((int(batch.tokens.min()), int(batch.tokens.max())), (1, 7), 12)
    assert Packed.of([[4, 9], [5]]).to("meta").spans == Spans((4, 9), (1, 2), 3)
    assert Labelled(batch, torch.tensor([2, 0, 1])).to("meta").span == (0, 2)
    assert Spans.of(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long)).tokens == (0, 0)
