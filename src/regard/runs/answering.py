"""Trained models with their tokenizers and labels: what `regard.load` returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor, nn

from regard.data.batches import END, START, Batch, Pairs, Sequences
from regard.data.given import instance, listed, texts_of, whole
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import beam
from regard.decoding.decode import Limits, greedy
from regard.decoding.forced import log_probabilities
from regard.decoding.sampling import sample, stream
from regard.errors import RegardError
from regard.models.kind import Kind, Verb
from regard.models.optimise import OptimisationReport, device_of
from regard.runs.inputs import Picture, Reader, Sound, TextReader
from regard.runs.recipe import with_changes
from regard.runs.settings import Decoding

ROWS = 64  # decoded together
ROWS_CLASSIFIED = 128
VERBS: tuple[Verb, ...] = get_args(Verb)


@dataclass(frozen=True)
class Answer:
    """One answer: its text, and how likely the model finds it."""

    text: str
    ranking: float  # the log-probability, divided by the length penalty if there is one
    log_probability: float  # of the whole text and its end
    tokens: list[int]
    rows: list[int] = field(
        default_factory=list
    )  # of the batch, a step each: see `decoding.hypothesis.beams`


def answers(
    model: Any,  # that `Generates`
    source: Batch,
    tokenizer: Tokenizer,
    decoding: Decoding,
    *,
    limits: Limits | None = None,  # most tokens of an answer; default as decoding says
    count: int = 1,
) -> list[list[Answer]]:
    """The `count` best answers to every row of a source, best first."""
    most = decoding.tokens if limits is None else limits
    width = max(decoding.beam, count)
    with torch.no_grad():
        found = (
            [[one] for one in greedy(model, source, limits=most)]
            if width == 1
            else beam(model, source, size=width, limits=most, penalty=decoding.penalty, count=count)
        )
    return [
        [
            Answer(tokenizer.decode(one.tokens), one.ranking, one.log_probability, one.tokens, one.rows)
            for one in best
        ]
        for best in found
    ]


class Loaded:
    """A trained model, ready to be used. Subclasses add tokenizers, labels and the verbs that the model can do."""

    kind: Kind | None = None  # of a run

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model

    def predict(self, batch: Any) -> Tensor:
        """The log-probability of every class, of a model that answers a batch at once."""
        return self.model.predict(batch)

    def translate(self, texts: Sequence[str], **changes: Any) -> list[str]:
        """The best translation of each text."""
        raise self._unable("translate")

    def generate(self, prompts: Sequence[str], *, seed: int = 0, **changes: Any) -> list[str]:
        """What follows each prompt."""
        raise self._unable("generate")

    def classify(self, inputs: Sequence[Any]) -> list[str]:
        """The likeliest class of each."""
        raise self._unable("classify")

    def caption(self, pictures: Sequence[Picture], **changes: Any) -> list[str]:
        """The best caption of each picture."""
        raise self._unable("caption")

    def transcribe(self, recordings: Sequence[Sound], **changes: Any) -> list[str]:
        """What is said in each recording."""
        raise self._unable("transcribe")

    def hypotheses(self, inputs: Sequence[Any], *, count: int = 1, **changes: Any) -> list[list[Answer]]:
        """The `count` best texts for each input, best first."""
        raise self._unable("answer in text")

    def score(self, *given: Sequence[Any]) -> list[float]:
        """The log-probability of each target, given its input; of a language model, of each text."""
        raise self._unable("score")

    @property
    def verbs(self) -> list[str]:
        """What it can do: the methods that its class has for it."""
        return [name for name in VERBS if getattr(type(self), name) is not getattr(Loaded, name)]

    def _unable(self, verb: str) -> RegardError:
        able = " and ".join(self.verbs) or "only be evaluated"
        return RegardError(f"a {type(self.model).__name__} cannot {verb}; it can {able}")

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def __repr__(self) -> str:
        report: OptimisationReport | None = getattr(self.model, "optimised", None)
        how = "as it was trained, for gradients too" if report is None else report.summary
        return f"{type(self).__name__}({type(self.model).__name__}, {how})"


class Translator(Loaded):
    """A translator with its tokenizers: text in, text out."""

    def __init__(
        self,
        model: nn.Module,  # that `Generates`
        tokenizers: dict[str, Tokenizer],
        decoding: Decoding | None = None,
    ) -> None:
        super().__init__(model)
        self.source = tokenizers["source"]
        self.target = tokenizers.get("target", self.source)
        self.decoding = decoding or Decoding()

    def translate(self, texts: Sequence[str], **changes: Any) -> list[str]:
        """The best translation of each text. `beam=5`, `penalty=1.0` … as in `Decoding`."""
        return [best[0].text for best in self.hypotheses(texts, **changes)]

    def hypotheses(self, inputs: Sequence[str], *, count: int = 1, **changes: Any) -> list[list[Answer]]:
        """The `count` best translations of each text, best first."""
        decoding = with_changes(self.decoding, changes, where="translate")
        whole("count", count, least=1)
        # A blank line has no translation, and none is made up.
        inputs = [text if text.strip() else "" for text in texts_of(inputs)]
        encoded = [[*ids, END] for ids in self.source.encode_all(inputs)]
        for text, ids in zip(inputs, encoded, strict=True):
            if len(ids) > decoding.most:
                raise RegardError(
                    f"{text[:30]!r} … is {len(ids):,} tokens long, and a source has at most {decoding.most:,}: cut it, or "
                    "set decoding.most"
                )
        # Sentences of like length together, so that little is filled up; their company changes no answer.
        order = sorted(range(len(inputs)), key=lambda i: len(encoded[i]))
        found: list[list[Answer]] = [[] for _ in inputs]
        for start in range(0, len(order), ROWS):
            rows = order[start : start + ROWS]
            source = Sequences.of([encoded[row] for row in rows]).to(self.device)
            limits = (source.lengths * decoding.longest).long() + decoding.extra
            best = answers(self.model, source, self.target, decoding, limits=limits, count=count)
            for row, translations in zip(rows, best, strict=True):
                # An empty line stays one.
                found[row] = (
                    translations if len(encoded[row]) > 1 else [Answer("", 0.0, 0.0, [])] * len(translations)
                )
        return found

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:  # type: ignore[override]
        """The log-probability of each target as the translation of its source."""
        if len(texts_of(sources)) != len(texts_of(targets)):
            raise RegardError(f"{len(sources)} sources but {len(targets)} targets")
        scores: list[float] = []
        for start in range(0, len(sources), ROWS):
            some = slice(start, start + ROWS)
            scores += [
                each.log_probability
                for each in log_probabilities(self.model, self.pairs(sources[some], targets[some]))
            ]
        return scores

    def pairs(self, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
        """Texts as a batch, on the device of the model."""
        return Pairs(TextReader(self.source).batch(sources), TextReader(self.target).batch(targets)).to(
            self.device
        )


class TextGenerator(Loaded):
    """A language model with its tokenizer: it continues text."""

    def __init__(
        self,
        model: nn.Module,  # that `Generates`
        tokenizers: dict[str, Tokenizer],
        decoding: Decoding | None = None,
        *,
        lines: bool = False,  # trained on one text a line, each begun by START, rather than on a stream
    ) -> None:
        super().__init__(model)
        self.tokenizer = tokenizers["source"]
        self.decoding = decoding or Decoding()
        self.lines = lines

    def generate(self, prompts: Sequence[str], *, seed: int = 0, **changes: Any) -> list[str]:
        """What follows each prompt. `tokens=200`, `temperature=0.8`, `top_k=20`, `top_p=0.9` as in `Decoding`."""
        found = sample(self.model, self.prompts(prompts), seed=seed, **self._sampling(changes))
        return [self.tokenizer.decode(one.tokens) for one in found]

    def stream(self, prompt: str, *, seed: int = 0, **changes: Any) -> Iterator[str]:
        """What follows a prompt, piece by piece as it is drawn; a letter of several bytes comes when it is whole."""
        settings = self._sampling(changes)
        instance("prompt", prompt, str, "give one text")
        tokens: list[int] = []
        said = ""
        for token in stream(self.model, self.prompts([prompt]), seed=seed, **settings):
            tokens.append(token)
            text = self.tokenizer.decode(tokens)
            if text.endswith("�"):
                continue
            if len(text) > len(said):
                yield text[len(said) :]
                said = text

    def _sampling(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """How tokens are drawn."""
        settings = with_changes(self.decoding, changes, where="generate")
        return {
            "limits": settings.tokens,
            "temperature": settings.temperature,
            "top_k": settings.top_k or None,
            "top_p": settings.top_p,
        }

    def score(self, texts: Sequence[str]) -> list[float]:  # type: ignore[override]
        """The log-probability of each text, given what texts of training begin with."""
        return [each.log_probability for each in log_probabilities(self.model, self.prompts(texts))]

    def prompts(self, prompts: Sequence[str]) -> Sequences:
        """Prompts as tokens, begun as the texts of training were: by START, or in a stream by a line break."""
        rows = self.tokenizer.encode_all(texts_of(prompts))
        opening = [START] if self.lines else self.tokenizer.encode("\n") or [START]
        return Sequences.of([[*opening, *ids] for ids in rows]).to(self.device)


class Labeller(Loaded):
    """A classifier with the names of its classes, of texts, pictures, recordings, or pairs of them."""

    def __init__(self, model: nn.Module, reader: Reader, labels: list[str]) -> None:
        super().__init__(model)
        self.reader, self.labels = reader, labels

    def classify(self, inputs: Sequence[Any]) -> list[str]:
        """The likeliest class of each."""
        return [max(each, key=each.__getitem__) for each in self.probabilities(inputs)]

    def probabilities(self, inputs: Sequence[Any]) -> list[dict[str, float]]:
        """How likely each class is, by its name."""
        found = []
        for start in range(0, len(listed(inputs, self.reader.what)), ROWS_CLASSIFIED):
            batch = self.reader.batch(inputs[start : start + ROWS_CLASSIFIED]).to(self.device)
            with torch.no_grad():
                likely = self.model.predict(batch).exp()
            found += [dict(zip(self.labels, each, strict=True)) for each in likely.tolist()]
        return found


class MediaDescriber(Loaded):
    """A captioner or transcriber with its tokenizer: a picture or a recording in, text out."""

    def __init__(
        self,
        model: nn.Module,  # that `Generates`
        reader: Reader,
        tokenizer: Tokenizer,
        decoding: Decoding | None = None,
    ) -> None:
        super().__init__(model)
        self.reader, self.tokenizer = reader, tokenizer
        self.decoding = decoding or Decoding()

    def hypotheses(self, inputs: Sequence[Any], *, count: int = 1, **changes: Any) -> list[list[Answer]]:
        """The `count` best texts for each input, best first. `beam=5`, `tokens=50` … as in `Decoding`."""
        decoding = with_changes(self.decoding, changes, where="hypotheses")
        whole("count", count, least=1)
        found = []
        for start in range(0, len(listed(inputs, self.reader.what)), ROWS):
            source = self.reader.batch(inputs[start : start + ROWS]).to(self.device)
            found += answers(self.model, source, self.tokenizer, decoding, count=count)
        return found

    def score(self, inputs: Sequence[Any], texts: Sequence[str]) -> list[float]:  # type: ignore[override]
        """The log-probability of each text for its input."""
        if len(listed(inputs, self.reader.what)) != len(listed(texts, "text")):
            raise RegardError(f"{len(inputs)} inputs but {len(texts)} texts")
        scores: list[float] = []
        for start in range(0, len(inputs), ROWS):
            some = slice(start, start + ROWS)
            pairs = Pairs(self.reader.batch(inputs[some]), TextReader(self.tokenizer).batch(texts[some]))
            scores += [each.log_probability for each in log_probabilities(self.model, pairs.to(self.device))]
        return scores


class ImageCaptioner(MediaDescriber):
    """A captioner with its tokenizer."""

    def caption(self, pictures: Sequence[Picture], **changes: Any) -> list[str]:
        """The best caption of each picture, a file or a tensor."""
        return [best[0].text for best in self.hypotheses(pictures, **changes)]


class SpeechTranscriber(MediaDescriber):
    """A transcriber with its tokenizer."""

    def transcribe(self, recordings: Sequence[Sound], **changes: Any) -> list[str]:
        """What is said in each recording, a file or a tensor."""
        return [best[0].text for best in self.hypotheses(recordings, **changes)]
