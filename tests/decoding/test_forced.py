"""The likelihood of a given text, against stepping through it."""

import pytest
import torch
from decoding.toys import Toy, hashed, log_softmax, sources
from torch import Tensor, nn

from regard import RegardError
from regard.data.batches import END, START, Pairs, Sequences
from regard.decoding.beam import beam
from regard.decoding.forced import log_probabilities
from regard.decoding.sampling import sample
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig


class Whole(nn.Module):
    """A toy as a module that takes pairs or sequences whole; what is filled up gets NaN."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.of, self.dtype = hashed(9, ending=0.5), dtype

    def logits(self, batch: Pairs | Sequences) -> Tensor:
        assert not self.training
        if isinstance(batch, Pairs):
            before = [
                (tuple(source[:n]), [START, *target[:-1]], m)
                for source, n, target, m in zip(
                    batch.source.tokens.tolist(),
                    batch.source.lengths.tolist(),
                    batch.target.tokens.tolist(),
                    batch.target.lengths.tolist(),
                    strict=True,
                )
            ]
        else:
            rows = zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)
            before = [((), row, n) for row, n in rows]
        return torch.tensor(
            [
                [
                    self.of(source, tuple(text[: i + 1])) if i < m else [float("nan")] * 9
                    for i in range(len(text))
                ]
                for source, text, m in before
            ],
            dtype=self.dtype,
        )


def test_a_beams_texts_are_scored_as_the_beam_did() -> None:
    model = Whole()
    found = beam(Toy(model.of), Sequences.of(sources(11)), size=3, limits=7, count=2)
    hypotheses = [(s, each) for s, both in zip(sources(11), found, strict=True) for each in both]
    targets = [[*each.tokens, *[END] * each.finished] for _, each in hypotheses]
    scored = log_probabilities(model, Pairs(Sequences.of([s for s, _ in hypotheses]), Sequences.of(targets)))
    assert len({len(target) for target in targets}) > 1
    for (_, hypothesis), target, ours in zip(hypotheses, targets, scored, strict=True):
        assert ours.log_probability == pytest.approx(hypothesis.log_probability, abs=1e-5)
        assert len(ours.tokens) == len(target)
        assert ours.log_probability == sum(ours.tokens)
    assert model.training


def translators() -> dict[str, nn.Module]:
    both = {"source_vocabulary": 31, "target_vocabulary": 31}
    return {
        "transformer": Transformer(
            TransformerConfig(width=16, heads=2, depth=1, decoder_depth=1, hidden_width=32, **both)
        ),
        "output-context": RecurrentTranslator(RecurrentConfig(width=12, embedding_width=8, **both)),
        "recurrent-context": RecurrentTranslator(
            RecurrentConfig(width=12, embedding_width=8, wiring="recurrent-context", **both)
        ),
    }


@pytest.mark.parametrize("name", translators())
def test_a_translator_in_training_scores_what_it_decoded(name: str) -> None:
    model, texts = translators()[name], sources(9)
    found = beam(model, Sequences.of(texts), size=3, limits=6, count=3)
    hypotheses = [(source, each) for source, best in zip(texts, found, strict=True) for each in best]
    targets = [[*each.tokens, *[END] * each.finished] for _, each in hypotheses]
    scored = log_probabilities(
        model, Pairs(Sequences.of([source for source, _ in hypotheses]), Sequences.of(targets))
    )
    expected = [each.log_probability for _, each in hypotheses]
    assert [each.log_probability for each in scored] == pytest.approx(expected, abs=1e-4)


def test_a_language_model_in_training_scores_what_it_wrote() -> None:
    model = LanguageModel(LanguageConfig(width=16, heads=2, depth=2, hidden_width=32, vocabulary=31))
    prompts = [[START, *source[:-1]] for source in sources(9)]
    found = sample(model, Sequences.of(prompts), limits=6, seed=0, temperature=2.0)
    texts = [
        [*prompt, *each.tokens, *[END] * each.finished] for prompt, each in zip(prompts, found, strict=True)
    ]
    for prompt, each, scored in zip(
        prompts, found, log_probabilities(model, Sequences.of(texts)), strict=True
    ):
        assert sum(scored.tokens[len(prompt) - 1 :]) == pytest.approx(each.log_probability, abs=1e-4)


def test_a_sequence_is_scored_from_its_second_token_on() -> None:
    model, texts = Whole(), [[START, 5, 6, END], [START, 4], [START, 8, END]]
    scored = log_probabilities(model, Sequences.of(texts))
    for text, ours in zip(texts, scored, strict=True):
        expected = [log_softmax(model.of((), tuple(text[:i])))[text[i]] for i in range(1, len(text))]
        assert ours.tokens == pytest.approx(expected, abs=1e-5)


def test_half_precision_logits_are_widened_first() -> None:
    batch = Sequences.of([[START, 5, 6, END]])
    coarse = Whole(torch.bfloat16).eval().logits(batch).double().log_softmax(-1)[0]
    expected = [coarse[i, token].item() for i, token in enumerate((5, 6, END))]
    assert log_probabilities(Whole(torch.bfloat16), batch)[0].tokens == pytest.approx(expected, abs=1e-6)


def test_nan_is_reported_with_its_place() -> None:
    class Broken(Whole):
        def logits(self, batch: Pairs | Sequences) -> Tensor:
            logits = super().logits(batch)
            logits[1, 2, 4] = float("nan")
            return logits

    with pytest.raises(RegardError, match="step 2, row 1: the model gave NaN"):
        log_probabilities(Broken(), Sequences.of([[START, 5, 6, END], [START, 5, 6, END]]))
