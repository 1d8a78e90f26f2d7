"""Each kind of model is described once, beside its model."""

from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import pytest

from regard import (
    ClassifierConfig,
    LanguageConfig,
    LanguageModel,
    RecurrentConfig,
    RecurrentTranslator,
    RegardError,
    Transformer,
    TransformerConfig,
)
from regard.data.given import check_vocabulary
from regard.models import vision
from regard.models.kind import Kind
from regard.models.kinds import KINDS
from regard.runs.recipe import joined, kind_of
from regard.runs.settings import Data


def test_a_name_and_a_config_belong_to_one_kind() -> None:
    assert len({each.name for each in KINDS}) == len({each.config for each in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_configs_and_presets_are_of_their_kind(kind: Kind) -> None:
    for config in (kind.config(), *(preset() for preset in kind.presets.values())):
        assert kind_of(config, KINDS) is kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_verbs_agree_with_what_goes_in_and_comes_out(kind: Kind) -> None:
    wanted = {
        ("text", "text"): {"translate", "generate"},
        ("picture", "text"): {"caption"},
        ("sound", "text"): {"transcribe"},
    }
    if kind.gives == "class":
        assert set(kind.verbs) <= {"classify"}
    else:
        assert kind.verbs[0] in wanted[kind.reads[0], kind.gives]
        assert kind.verbs[1:] == ("score",)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_pictures_are_for_kinds_of_data_that_there_are(kind: Kind) -> None:
    assert kind.pictures.keys() <= {each.KIND for each in get_args(Data)}


def test_a_config_without_a_name_is_refused() -> None:
    @dataclass(frozen=True)
    class Nameless:
        width: int = 8

    with pytest.raises(RegardError, match="KIND"):
        replace(vision.KIND, config=Nameless)


def test_a_kind_of_ones_own_has_a_name_of_its_own() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(vision.VisionConfig):
        KIND: ClassVar[str] = "mine"

    mine = replace(vision.KIND, config=Mine)
    assert joined(KINDS, [mine]) == (*KINDS, mine)
    assert joined(KINDS, [vision.KIND]) == KINDS
    assert kind_of(Mine(), joined(KINDS, [mine])) is mine
    with pytest.raises(RegardError, match=r"Mine.*kinds"):
        kind_of(Mine(), KINDS)

    @dataclass(frozen=True, kw_only=True)
    class Taken(vision.VisionConfig):
        KIND: ClassVar[str] = "vision"

    with pytest.raises(RegardError, match="vision"):
        joined(KINDS, [replace(vision.KIND, config=Taken)])


@pytest.mark.usefixtures("as_a_user")
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
