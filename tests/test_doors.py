"""Every public door × everything that does not fit through it: one line of RegardError, never a traceback from inside."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from decoding.toys import Toy, hashed
from models.samples import pairs, sequences
from torch import nn

from regard import (
    Additive,
    ALiBi,
    Bilinear,
    Call,
    Classifier,
    ClassifierConfig,
    Cosine,
    Counter,
    CounterConfig,
    HeadSizes,
    LanguageConfig,
    LanguageModel,
    LowRank,
    MultiHeadAttention,
    RecurrentConfig,
    RecurrentTranslator,
    RegardError,
    RelativeBuckets,
    ScaledDot,
    TensorBias,
    Transformer,
    TransformerConfig,
    attend,
    beam,
    causal,
    documents,
    drop_heads,
    explain,
    greedy,
    intervene,
    keep,
    lengths,
    load,
    log_probabilities,
    lookup,
    packed,
    prefix,
    sample,
    scale_head,
    stream,
    watch,
    weigh,
    window,
)
from regard.data.batches import END, Labelled, Pairs, Sequences
from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, Residual, SwiGLU
from regard.layers.embedding import Embedding, Learned, Sinusoidal
from regard.layers.pooling import AttentionPooling, mean_pooling
from regard.layers.rotary import Rotary
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.answering import ImageCaptioner, Labeller, TextGenerator, Translator
from regard.runs.inputs import PairReader, PictureReader, SoundReader, TextReader

pytestmark = pytest.mark.usefixtures("as_a_user")
Door = Callable[[Any], object]
W = 8  # the width of everything here
WORDS = 13


class Strange:
    """Nothing that anybody asked for."""

    def __repr__(self) -> str:
        return "Strange(\n" + "many lines\n" * 30 + ")"


STRANGE: dict[str, Any] = {
    "text": "hello",
    "number": 3.5,
    "list": [1, 2],
    "dict": {"a": 1},
    "object": Strange(),
    "type": nn.Linear,
    "complex": torch.ones(2, 5, W, dtype=torch.complex64),
    "array of texts": np.array(["a", "b"]),
}
NOTHING = {"None": None}
BARE = {"bool tensor": torch.ones(5, 5, dtype=torch.bool), "bool array": np.ones((5, 5), bool), "True": True}
WHOLE = {"int tensor": torch.ones(2, 5, W, dtype=torch.long), "int": 3}
FLOATS = {"float tensor": torch.ones(2, 5, W)}
NARROW = {"wrong width": torch.ones(2, 5, W - 1), "one number": torch.tensor(1.0)}

NO_VECTORS = {**STRANGE, **NOTHING, **BARE, **WHOLE, **NARROW}
NO_ROWS = {name: bad for name, bad in NO_VECTORS.items() if name != "wrong width"}
NO_MASK = {**STRANGE, **BARE, **WHOLE, **FLOATS}
NO_PART = {**STRANGE, **BARE, **WHOLE}  # a bias may be a bare tensor of floats
NO_WHOLE = {**STRANGE, **NOTHING, **BARE, **FLOATS}
NO_NUMBER = {name: bad for name, bad in NO_WHOLE.items() if name != "number"}
NO_TOKENS = {**STRANGE, **NOTHING, **BARE, **FLOATS, "int": 3}
NO_BATCH = {**STRANGE, **NOTHING, **BARE, **WHOLE, **FLOATS}
NO_TEXTS = {**STRANGE, **NOTHING, **BARE, **WHOLE, **FLOATS, "texts and a number": ["a", 3], "bytes": b"abc"}
del NO_TEXTS["array of texts"]
NO_COUNT = {name: bad for name, bad in NO_WHOLE.items() if name != "None"}


def attention() -> dict[str, tuple[Door, dict[str, Any]]]:
    q, k, v = torch.randn(3, 2, 5, W)
    call = Call(q, k)
    heads = MultiHeadAttention(W, 2)
    memory = heads.remember(k)
    return {
        "attend query": (lambda bad: attend(bad, k, v), NO_VECTORS),
        "attend key": (lambda bad: attend(q, bad, v), NO_VECTORS),
        "attend value": (lambda bad: attend(q, k, bad), NO_ROWS),
        "attend mask": (lambda bad: attend(q, k, v, bad), NO_MASK),
        "attend bias": (lambda bad: attend(q, k, v, bias=bad), NO_PART),
        "attend score": (lambda bad: attend(q, k, v, score=bad), NO_MASK),
        "attend scale": (lambda bad: attend(q, k, v, scale=bad), NO_NUMBER),
        "attend dropout": (lambda bad: attend(q, k, v, dropout=bad), NO_WHOLE),
        "attend call value": (lambda bad: attend(call, bad), NO_ROWS),
        "Call query": (lambda bad: Call(bad, k), NO_VECTORS),
        "Call key": (lambda bad: Call(q, bad), NO_VECTORS),
        "Call mask": (lambda bad: Call(q, k, bad), NO_MASK),
        "Call bias": (lambda bad: Call(q, k, None, bad), NO_MASK),
        "Call score": (lambda bad: Call(q, k, None, None, bad), {**NO_MASK, **NOTHING}),
        "Call scale": (lambda bad: Call(q, k, None, None, ScaledDot(), bad), NO_NUMBER),
        "weigh query": (lambda bad: weigh(bad, k), NO_VECTORS),
        "weigh key": (lambda bad: weigh(q, bad), NO_VECTORS),
        "weigh mask": (lambda bad: weigh(q, k, bad), NO_MASK),
        "lookup call": (lambda bad: lookup(bad, v), NO_BATCH),
        "lookup value": (lambda bad: lookup(call, bad), NO_ROWS),
        "explain": (explain, NO_BATCH),
        "heads query": (heads, NO_VECTORS),
        "heads key": (lambda bad: heads(q, bad), {n: b for n, b in NO_VECTORS.items() if n != "None"}),
        "heads value": (lambda bad: heads(q, k, bad), {n: b for n, b in NO_VECTORS.items() if n != "None"}),
        "heads mask": (lambda bad: heads(q, mask=bad), NO_MASK),
        "heads cross mask": (lambda bad: heads(q, k, mask=bad), NO_MASK),
        "heads remember": (heads.remember, NO_VECTORS),
        "heads recall": (lambda bad: heads.recall(bad, memory), NO_VECTORS),
        "heads recall memory": (lambda bad: heads.recall(q, bad), NO_BATCH),
        "heads recall mask": (lambda bad: heads.recall(q, memory, mask=bad), NO_MASK),
        "heads step": (heads.step, NO_VECTORS),
        "heads step past": (
            lambda bad: heads.step(q, bad),
            {n: b for n, b in NO_BATCH.items() if n != "None"},
        ),
        "heads call": (heads.call, NO_VECTORS),
        "heads call mask": (lambda bad: heads.call(q, mask=bad), NO_MASK),
        "MultiHeadAttention width": (lambda bad: MultiHeadAttention(bad, 2), NO_WHOLE),
        "MultiHeadAttention heads": (lambda bad: MultiHeadAttention(W, bad), NO_WHOLE),
        "MultiHeadAttention sizes": (lambda bad: MultiHeadAttention(W, 2, sizes=bad), {**STRANGE, **WHOLE}),
        "MultiHeadAttention score": (lambda bad: MultiHeadAttention(W, 2, score=bad), NO_MASK),
        "MultiHeadAttention bias": (lambda bad: MultiHeadAttention(W, 2, bias=bad), NO_MASK),
        "MultiHeadAttention dropout": (lambda bad: MultiHeadAttention(W, 2, dropout=bad), NO_WHOLE),
        "HeadSizes": (
            lambda bad: MultiHeadAttention(W, 2, sizes=HeadSizes(key_width=bad)),
            {n: b for n, b in NO_WHOLE.items() if n != "None"},
        ),
        "causal offset": (lambda bad: causal(offset=bad), NO_COUNT),
        "window": (window, NO_WHOLE),
        "lengths": (lengths, NO_COUNT),
        "lengths keys": (lambda bad: lengths(keys=bad), NO_COUNT),
        "lengths padded": (lambda bad: lengths(3, padded=bad), NO_BATCH),
        "prefix": (prefix, NO_WHOLE),
        "documents": (documents, NO_TOKENS),
        "packed": (packed, {**NO_TOKENS, "one number": torch.tensor(3)}),
        "keep": (keep, {n: b for n, b in NO_BATCH.items() if n not in ("bool tensor", "bool array")}),
        "and": (lambda bad: causal() & bad, {**NO_MASK, **NOTHING}),
        "or": (lambda bad: causal() | bad, {**NO_MASK, **NOTHING}),
        "Cosine": (Cosine, NO_NUMBER),
        "Bilinear": (lambda bad: Bilinear(bad, W), NO_WHOLE),
        "LowRank": (lambda bad: LowRank(W, W, rank=bad), NO_WHOLE),
        "Additive": (lambda bad: Additive(W, W, hidden=bad), NO_WHOLE),
        "ALiBi": (ALiBi, NO_WHOLE),
        "RelativeBuckets": (RelativeBuckets, NO_WHOLE),
        "TensorBias": (TensorBias, {n: b for n, b in NO_VECTORS.items() if n != "wrong width"}),
    }


def layers() -> dict[str, tuple[Door, dict[str, Any]]]:
    def residual() -> Residual:
        return Residual(W)

    x = torch.randn(2, 5, W)
    encoder = EncoderBlock(MultiHeadAttention(W, 2), FeedForward(W, 9), residual)
    decoder = DecoderBlock(MultiHeadAttention(W, 2), MultiHeadAttention(W, 2), SwiGLU(W, 9), residual)
    pooling = AttentionPooling(MultiHeadAttention(W, 2))
    return {
        "EncoderBlock": (encoder, NO_VECTORS),
        "EncoderBlock mask": (lambda bad: encoder(x, mask=bad), NO_MASK),
        "EncoderBlock step": (encoder.step, NO_VECTORS),
        "DecoderBlock": (lambda bad: decoder(bad, x), NO_VECTORS),
        "DecoderBlock memory": (
            lambda bad: decoder(x, bad),
            {n: b for n, b in NO_VECTORS.items() if n != "None"},
        ),
        "DecoderBlock mask": (lambda bad: decoder(x, x, mask=bad), NO_MASK),
        "DecoderBlock memory_mask": (lambda bad: decoder(x, x, memory_mask=bad), NO_MASK),
        "DecoderBlock step state": (lambda bad: decoder.step(x, bad), NO_BATCH),
        "FeedForward": (FeedForward(W, 9), NO_VECTORS),
        "SwiGLU": (SwiGLU(W, 9), NO_VECTORS),
        "FeedForward width": (lambda bad: FeedForward(bad, 9), NO_WHOLE),
        "Residual": (lambda bad: Residual(W)(bad, lambda y: y), NO_VECTORS),
        "AttentionPooling": (pooling, NO_VECTORS),
        "AttentionPooling mask": (lambda bad: pooling(x, mask=bad), NO_MASK),
        "mean_pooling": (lambda bad: mean_pooling(bad, torch.tensor([5, 3])), NO_ROWS),
        "mean_pooling lengths": (lambda bad: mean_pooling(x, bad), NO_TOKENS),
        "Embedding": (Embedding(WORDS, W), NO_TOKENS),
        "Embedding tokens": (
            Embedding(WORDS, W),
            {"too large": torch.tensor([[WORDS]]), "negative": torch.tensor([[-1]])},
        ),
        "Embedding width": (lambda bad: Embedding(WORDS, bad), NO_WHOLE),
        "Sinusoidal": (Sinusoidal(W).add, NO_VECTORS),
        "Sinusoidal offset": (
            lambda bad: Sinusoidal(W).add(x, offset=bad),
            {**STRANGE, **NOTHING, "negative": -1},
        ),
        "Learned": (Learned(W, count=5).add, NO_VECTORS),
        "Rotary": (Rotary(W), NO_VECTORS),
    }


@cache
def made() -> dict[str, Any]:
    """Models of every kind, hardly trained, and what a loaded run makes of them."""
    small: dict[str, Any] = {"width": W, "heads": 2, "depth": 1, "hidden_width": 9}
    parts: dict[str, Any] = {
        "transformer": Transformer(
            TransformerConfig(**small, decoder_depth=1, source_vocabulary=WORDS, target_vocabulary=WORDS)
        ),
        "recurrent": RecurrentTranslator(
            RecurrentConfig(width=W, embedding_width=6, source_vocabulary=WORDS, target_vocabulary=WORDS)
        ),
        "language": LanguageModel(LanguageConfig(**small, vocabulary=WORDS)),
        "classifier": Classifier(ClassifierConfig(**small, vocabulary=WORDS, classes=3)),
        "counter": Counter(CounterConfig()),
        "vision": Vision(VisionConfig(**small, channels=1, image_size=(6, 10), patch=(3, 5), classes=3)),
        "captioner": Captioner(
            CaptionerConfig(
                **small,
                channels=1,
                image_size=(6, 10),
                patch=(3, 5),
                decoder_depth=1,
                target_vocabulary=WORDS,
            )
        ),
        "hearing": Hearing(HearingConfig(**small, classes=3)),
    }
    return {name: part.eval() for name, part in parts.items()}


def models() -> dict[str, tuple[Door, dict[str, Any]]]:
    found: dict[str, tuple[Door, dict[str, Any]]] = {}
    batch = pairs(source=WORDS, target=WORDS)
    texts = sequences(7, 4, 1, vocabulary=WORDS)
    labels = torch.tensor([0, 2, 1])
    for name in ("transformer", "recurrent"):
        model = made()[name]
        found |= {
            f"{name} loss": (model.loss, NO_BATCH),
            f"{name} logits": (model.logits, NO_BATCH),
            f"{name} source": (lambda bad, model=model: model.loss(Pairs(bad, batch.target)), NO_BATCH),
            f"{name} target": (lambda bad, model=model: model.loss(Pairs(batch.source, bad)), NO_BATCH),
            f"{name} start": (model.start, NO_BATCH),
            f"{name} step": (lambda bad, model=model: model.step(bad, model.start(batch.source)), NO_TOKENS),
            f"{name} step state": (
                lambda bad, model=model: model.step(torch.tensor([4, 4, 4]), bad),
                NO_BATCH,
            ),
            f"{name} step rows": (
                lambda bad, model=model: model.step(bad, model.start(batch.source)),
                {"too few": torch.tensor([4]), "unknown": torch.tensor([4, WORDS, 4])},
            ),
            f"{name} config": (type(model), NO_BATCH),
            f"{name} greedy": (lambda bad, model=model: greedy(model, bad, limits=3), NO_BATCH),
            f"{name} score": (lambda bad, model=model: log_probabilities(model, bad), NO_BATCH),
        }
    language, classifier, counter = (made()[name] for name in ("language", "classifier", "counter"))
    vision, captioner, hearing = (made()[name] for name in ("vision", "captioner", "hearing"))
    for name, ask in {
        "language loss": language.loss,
        "language logits": language.logits,
        "language start": language.start,
        "language step state": lambda bad: language.step(torch.tensor([4]), bad),
        "language config": LanguageModel,
        "classifier predict": classifier.predict,
        "classifier loss": classifier.loss,
        "classifier labels": lambda bad: classifier.loss(Labelled(texts, bad)),
        "classifier inputs": lambda bad: classifier.loss(Labelled(bad, labels)),
        "classifier config": Classifier,
        "counter predict": counter.predict,
        "counter loss": counter.loss,
        "counter call": counter.call,
        "counter config": Counter,
        "vision predict": vision.predict,
        "vision loss": vision.loss,
        "vision config": Vision,
        "captioner start": captioner.start,
        "captioner loss": captioner.loss,
        "captioner config": Captioner,
        "hearing predict": hearing.predict,
        "hearing loss": hearing.loss,
        "hearing config": Hearing,
    }.items():
        found[name] = (ask, {n: b for n, b in NO_BATCH.items() if name != "classifier inputs" or n != "None"})
    found["encode"] = (made()["transformer"].encode, NO_BATCH)
    for field in (
        "width",
        "heads",
        "hidden_width",
        "dropout",
        "kv_heads",
        "norm",
        "smoothing",
        "target_vocabulary",
    ):
        bad = NO_NUMBER if field in ("dropout", "smoothing") else NO_WHOLE
        allowed = {"None"} if field == "kv_heads" else set()
        found[f"TransformerConfig {field}"] = (
            lambda given, field=field: TransformerConfig(**{field: given}),
            {n: b for n, b in bad.items() if n not in allowed},
        )
    return found


def decoding() -> dict[str, tuple[Door, dict[str, Any]]]:
    model, source = made()["transformer"], Sequences.of([[4, 5, END], [6, END]])
    toy = Toy(hashed(9))

    def drawn(**options: Any) -> object:
        return sample(model, source, **{"limits": 3, "seed": 0, **options})

    return {
        "greedy model": (lambda bad: greedy(bad, source, limits=3), NO_BATCH),
        "greedy limits": (lambda bad: greedy(toy, source, limits=bad), NO_WHOLE),
        "beam model": (lambda bad: beam(bad, source, size=2, limits=3), NO_BATCH),
        "beam size": (lambda bad: beam(model, source, size=bad, limits=3), NO_WHOLE),
        "beam count": (lambda bad: beam(model, source, size=2, limits=3, count=bad), NO_WHOLE),
        "beam penalty": (lambda bad: beam(model, source, size=2, limits=3, penalty=bad), NO_NUMBER),
        "sample model": (lambda bad: sample(bad, source, limits=3, seed=0), NO_BATCH),
        "sample seed": (lambda bad: drawn(seed=bad), NO_WHOLE),
        "sample limits": (lambda bad: drawn(limits=bad), NO_WHOLE),
        "sample temperature": (lambda bad: drawn(temperature=bad), NO_NUMBER),
        "sample top_k": (lambda bad: drawn(top_k=bad), {n: b for n, b in NO_WHOLE.items() if n != "None"}),
        "sample top_p": (lambda bad: drawn(top_p=bad), NO_NUMBER),
        "sample numbers": (lambda bad: drawn(numbers=bad), {**STRANGE, **BARE, **FLOATS, "int": 3}),
        "stream model": (lambda bad: list(stream(bad, source, limits=3, seed=0)), NO_BATCH),
        "stream seed": (lambda bad: list(stream(model, source, limits=3, seed=bad)), NO_WHOLE),
        "score model": (lambda bad: log_probabilities(bad, source), NO_BATCH),
        "score batch": (lambda bad: log_probabilities(model, bad), NO_BATCH),
    }


class Letters:
    """A tokenizer of letters, as loaded runs have one."""

    def encode_all(self, texts: Any) -> list[list[int]]:
        return [[4 + ord(letter) % 9 for letter in text] for text in texts]

    def encode(self, text: str) -> list[int]:
        return self.encode_all([text])[0]

    def decode(self, tokens: Any) -> str:
        return " ".join(map(str, tokens))


def loaded() -> dict[str, tuple[Door, dict[str, Any]]]:
    letters: Any = Letters()
    translator = Translator(made()["transformer"], {"source": letters})
    writer = TextGenerator(made()["language"], {"source": letters})
    names = ["a", "b", "c"]
    sorter = Labeller(made()["classifier"], TextReader(letters), names)
    looking = PictureReader((6, 10), 1)
    looker = Labeller(made()["vision"], looking, names)
    hearer = Labeller(made()["hearing"], SoundReader(HearingConfig()), names)
    both = PairReader(looking, SoundReader(HearingConfig()))
    describer = ImageCaptioner(made()["captioner"], looking, letters)
    no_list = {n: b for n, b in NO_BATCH.items() if n not in ("list", "array of texts")}
    no_pictures = {**NO_BATCH, "numbers": [3, 4], "nested": [[1.0, 2.0]], "wrong shape": [torch.zeros(2, 3)]}
    del no_pictures["text"], no_pictures["array of texts"]
    return {
        "translate": (translator.translate, {**NO_TEXTS, "[3]": [3], "[None]": [None], "[[]]": [[]]}),
        "translate beam": (lambda bad: translator.translate(["hello"], beam=bad), NO_WHOLE),
        "translate count": (lambda bad: translator.hypotheses(["hello"], count=bad), NO_WHOLE),
        "translate setting": (lambda bad: translator.translate(["hello"], **{bad: 3}), {"unknown": "beem"}),
        "translator score": (lambda bad: translator.score(bad, ["a"]), NO_TEXTS),
        "translator score targets": (lambda bad: translator.score(["a"], bad), NO_TEXTS),
        "generate": (writer.generate, NO_TEXTS),
        "generate seed": (lambda bad: writer.generate(["a"], seed=bad), NO_WHOLE),
        "generate tokens": (lambda bad: writer.generate(["a"], tokens=bad), NO_WHOLE),
        "writer stream": (
            lambda bad: list(writer.stream(bad)),
            {n: b for n, b in NO_BATCH.items() if n != "text"},
        ),
        "writer score": (writer.score, NO_TEXTS),
        "classify texts": (sorter.classify, NO_TEXTS),
        "classify pictures": (looker.classify, no_pictures),
        "classify a picture": (
            looker.classify,
            {"one": "x.png", "missing": ["nowhere.png"], "bytes": [b"x"]},
        ),
        "classify sounds": (hearer.classify, {**no_list, "numbers": [3], "missing": ["nowhere.wav"]}),
        "classify pairs": (both.batch, {**NO_BATCH, "numbers": [3], "three": [(1, 2, 3)], "texts": ["ab"]}),
        "caption": (describer.caption, no_pictures),
        "load": (load, {n: b for n, b in NO_BATCH.items() if n != "None"} | NOTHING),
        "load device": (lambda bad: load("nowhere", device=bad), {"unknown": "abacus"}),
    }


def sight() -> dict[str, tuple[Door, dict[str, Any]]]:
    model, x = MultiHeadAttention(W, 2), torch.randn(2, 5, W)

    def watched(bad: Any) -> None:
        with watch(bad):
            pass

    def changed(bad: Any, changes: Any = None) -> None:
        with intervene(bad, {} if changes is None else changes):
            model(x)

    changes = {n: b for n, b in NO_BATCH.items() if n not in ("None", "dict")}
    return {
        "watch": (watched, NO_BATCH),
        "intervene": (changed, NO_BATCH),
        "intervene changes": (lambda bad: changed(model, bad), changes),
        "intervene change": (lambda bad: changed(model, {"MultiHeadAttention": bad}), NO_BATCH),
        "drop_heads": (drop_heads, NO_WHOLE),
        "scale_head": (lambda bad: scale_head(bad, 2.0), NO_WHOLE),
        "scale_head factor": (lambda bad: scale_head(0, bad), NO_NUMBER),
    }


@pytest.mark.parametrize("room", [attention, layers, models, decoding, loaded, sight])
def test_what_does_not_fit_is_refused_in_one_line(room: Callable[[], dict[str, tuple[Door, Any]]]) -> None:
    wrong = []
    for door, (ask, bad) in room().items():
        for name, given in bad.items():
            try:
                answer = ask(given)
            except RegardError as error:
                if "\n" in str(error) or not 15 < len(str(error)) < 400:
                    wrong.append(f"{door}, {name}: {str(error)!r}")
            except Exception as error:  # what this is about
                wrong.append(f"{door}, {name}: {type(error).__name__}: {str(error)[:100]!r}")
            else:
                wrong.append(f"{door}, {name}: taken, and gave {answer!r:.60}")
    assert not wrong, "\n".join([f"{len(wrong)} mistakes:", *wrong])


def test_numpy_is_taken_where_it_does_no_harm() -> None:
    q, k, v = (part.numpy() for part in torch.randn(3, 2, 5, W))
    tensors = [torch.from_numpy(part) for part in (q, k, v)]
    allowed = np.tril(np.ones((5, 5), bool))
    assert torch.equal(attend(q, k, v, keep(allowed)), attend(*tensors, keep(torch.from_numpy(allowed))))
    assert torch.equal(weigh(q, k), weigh(*tensors[:2]))
    added = np.random.default_rng(3).normal(size=(5, 5)).astype(np.float32)
    assert torch.equal(attend(q, k, v, bias=added), attend(*tensors, bias=torch.from_numpy(added)))
    counts = np.array([5, 3])
    assert torch.equal(attend(q, k, v, lengths(counts)), attend(*tensors, lengths(torch.tensor([5, 3]))))
    assert causal(offset=np.int64(2)).picture(2, 4) == causal(offset=2).picture(2, 4)
    heads = MultiHeadAttention(W, 2)
    torch.testing.assert_close(heads(q.astype(np.float64)), heads(tensors[0]))
    feed = FeedForward(W, 9)
    assert torch.equal(feed(q), feed(tensors[0]))
    table = Embedding(WORDS, W)
    assert torch.equal(table(np.array([[1, 2]])), table(torch.tensor([[1, 2]])))
    for small in (torch.int8, torch.int16, torch.uint8):
        assert torch.equal(table(torch.tensor([[1, 2]], dtype=small)), table(torch.tensor([[1, 2]])))
