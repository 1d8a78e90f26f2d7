import json
from pathlib import Path

import pytest
from sight.pictures.drawn import printed

import regard
from regard import RegardError
from regard.data.numbers import draw_numbers, part_of
from regard.figures import bottleneck_figure, number_translators
from regard.figures.bottleneck_figure import MODELS, TRANSFORMER, WITH, WITHOUT, bottleneck
from regard.figures.number_translators import NumberTranslator

FIGURES = Path(__file__).parents[2] / "docs" / "pictures" / "figures"
RIGHT = "translated exactly, by digits"


@pytest.mark.usefixtures("as_a_user")
def test_numbers_and_chart_are_of_the_three_models(monkeypatch, tmp_path):
    monkeypatch.setattr(number_translators, "_TRAINED", 500)
    monkeypatch.setattr(bottleneck_figure, "ASKED", 40)
    lines = []
    made = regard.figures.bottleneck(steps=2, progress=lines.append)
    assert [line.split(":")[0] for line in lines] == [name for name in MODELS for _ in range(2)]
    told = json.loads(made.write(tmp_path)[2].read_text())
    assert sum(told["numbers asked, by digits"].values()) == 40
    assert [series.name for series in made.picture.series] == [WITHOUT, WITH, TRANSFORMER]
    for series in made.picture.series:
        assert dict(series.points) == {int(k): v for k, v in told[series.name][RIGHT].items()}
        assert len(told[series.name]["loss"]) == 2
    assert max(map(len, printed(made.picture.terminal()).splitlines())) <= 80


@pytest.mark.usefixtures("as_a_user")  # for a translator that is none
def test_shares_are_counted_by_the_number_of_digits(monkeypatch):
    """With translators of which one knows no number above a million."""

    def known(name, recipe, settings, **more):
        limit = 10**6 if name == WITHOUT else 10**9
        monkeypatch.setattr(
            NumberTranslator, "right", lambda self, numbers: [n < self.parameters for n in numbers]
        )
        return NumberTranslator(translator=Fixed(), parameters=limit, losses=[(1.0, 0.5)])

    class Fixed:
        def translate(self, texts, *, beam):
            return ["mille" for _ in texts]

    monkeypatch.setattr(bottleneck_figure, "number_translator", known)
    made = bottleneck()
    assert made.numbers[WITHOUT][RIGHT] == {str(digits): float(digits < 7) for digits in range(1, 10)}
    assert set(made.numbers[WITH][RIGHT].values()) == {1.0}
    assert made.see[0].startswith("Of numbers with 9 digits, 0 % are right without attention, 100 % with it")
    assert "becomes “mille”; right is “" in made.see[1]


def test_the_models_have_about_equally_many_parameters():
    sizes = json.loads((FIGURES / "bottleneck.json").read_text())
    parameters = [sizes[name]["parameters"] for name in MODELS]
    assert max(parameters) < 1.02 * min(parameters)


def test_no_number_that_is_asked_is_trained_on():
    assert {part_of(number) for number in draw_numbers(bottleneck_figure.ASKED, seed=1, part="test")} == {
        "test"
    }


@pytest.mark.slow
@pytest.mark.usefixtures("as_a_user")
def test_long_numbers_need_attention():
    made = bottleneck(steps=450)
    without, with_, transformer = (made.numbers[name][RIGHT]["9"] for name in MODELS)
    assert without < 0.3
    assert min(with_, transformer) > 0.7
    assert made.numbers[WITHOUT][RIGHT]["1"] == 1.0


@pytest.mark.parametrize(
    ("settings", "said"), [({"seed": -1}, "--seed -1"), ({"steps": 0}, "--steps 0: from 1")]
)
def test_a_mistake_is_refused_before_anything_is_trained(settings, said):
    lines = []
    with pytest.raises(RegardError, match=said):
        bottleneck(**settings, progress=lines.append)
    assert not lines
