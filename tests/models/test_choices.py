"""Mistakes in a config are named."""

import pytest

from regard import RegardError
from regard.models.choices import check_vocabulary
from regard.models.classifier import ClassifierConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TransformerConfig(norm="behind"), "norm='behind': one of 'before', 'after', 'inside'"),
        (lambda: TransformerConfig(positions="sin"), "positions='sin': one of 'sinusoidal'"),
        (lambda: TransformerConfig(width=0), "width=0"),
        (lambda: TransformerConfig(dropout=1.0), "dropout=1.0"),
        (lambda: TransformerConfig(tied="all", source_vocabulary=7, target_vocabulary=8), "of 7 and 8"),
        (lambda: Transformer(TransformerConfig(source_vocabulary=7)), "target_vocabulary=0"),
        (lambda: LanguageConfig(tied="all"), "tied='all': one of 'none', 'output'"),
        (lambda: LanguageModel(LanguageConfig()), "vocabulary=0"),
        (lambda: ClassifierConfig(pooling="max"), "pooling='max'"),
        (lambda: ClassifierConfig(classes=0), "classes=0"),
        (lambda: RecurrentConfig(attention="loud"), "attention='loud': one of 'none', 'dot'"),
        (lambda: RecurrentConfig(width=7), "width=7, bidirectional"),
        (lambda: RecurrentConfig(depth=0), "depth=0"),
        (lambda: RecurrentConfig(dropout=-0.1), "dropout=-0.1"),
        (lambda: RecurrentTranslator(RecurrentConfig(target_vocabulary=5)), "source_vocabulary=0"),
    ],
)
def test_a_mistake_is_named(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegardError, match=said):
        make()


def test_a_known_vocabulary_passes() -> None:
    assert check_vocabulary("vocabulary", 7) == 7
