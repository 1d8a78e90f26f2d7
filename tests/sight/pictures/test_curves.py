import json
import math
from pathlib import Path

import pytest
from sight.pictures.drawn import printed

from regard import RegardError
from regard.sight.pictures.curves import curves_of, loss_of, read_history, smoothed


def written(path: Path, *entries: object, tail: str = "") -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + tail)
    return path


def update(step: int, loss: float | None, rate: float = 0.1) -> dict:
    return {
        "event": "update",
        "step": step,
        "epoch": 0,
        "loss": loss,
        "metrics": {},
        "rate": rate,
        "seconds": 1.0,
    }


def evaluation(step: int, **metrics: float | None) -> dict:
    return {"event": "evaluation", "step": step, "metrics": metrics, "seconds": 1.0}


def test_a_log_becomes_points_over_updates(tmp_path):
    log = written(
        tmp_path / "log.jsonl",
        update(1, 3.0),
        update(2, None, 0.2),
        evaluation(2, loss=2.5, bleu=11.0),
        evaluation(4, loss=2.0, bleu=None),
        {"event": "end", "step": 4, "metrics": {"loss": 1.9}, "seconds": 9.0},
    )
    history = read_history(log)
    assert history.loss == [(1, 3.0), (2, None)]
    assert history.rate == [(1, 0.1), (2, 0.2)]
    assert history.evaluated == {"loss": [(2, 2.5), (4, 2.0)], "bleu": [(2, 11.0), (4, None)]}
    assert history.ends == (0.0, 4)


def test_each_kind_of_number_has_a_chart_on_one_axis(tmp_path):
    steps = [update(n, 2.0 - n / 200, n / 1000) for n in range(1, 101)]
    measured = [
        evaluation(n, loss=1.0, perplexity=2.7, accuracy=0.5, exact=0.2, bleu=30.0, chrf=50.0)
        for n in (50, 100)
    ]
    picture = curves_of(written(tmp_path / "log.jsonl", *steps, *measured), title="a run")
    assert [chart.y for chart in picture.parts] == ["loss", "validation", "validation score", "learning rate"]
    assert [[series.name for series in chart.named()] for chart in picture.parts] == [
        ["training", "validation"],
        ["accuracy", "exact"],
        ["bleu", "chrf"],
        [""],
    ]
    assert [chart.percent for chart in picture.parts] == [False, True, False, False]
    assert {chart.across for chart in picture.parts} == {(0.0, 100.0)}
    assert [chart.x for chart in picture.parts] == ["", "", "", "updates"]
    picture.png(tmp_path / "x.png")
    picture.svg(tmp_path / "x.svg")
    assert "a run" in printed(picture.terminal())


def test_a_loss_that_falls_far_has_a_logarithmic_axis(tmp_path):
    assert loss_of(written(tmp_path / "a", update(1, 6.0), update(2, 0.01))).log
    assert not loss_of(written(tmp_path / "b", update(1, 6.0), update(2, 1.0))).log
    assert not loss_of(written(tmp_path / "c", update(1, 6.0), update(2, 0.0))).log


def test_a_smoothed_point_is_the_mean_of_its_neighbours():
    points = [(1, 2.0), (2, 4.0), (3, None), (4, 12.0), (5, 0.0)]
    assert smoothed(points, 1) == [(1, 3.0), (2, 3.0), (3, None), (4, 6.0), (5, 6.0)]
    assert smoothed(points, 0) == points
    log = smoothed([(1, 1.0), (2, 100.0), (3, 10.0)], 1, log=True)
    assert [y for _, y in log] == pytest.approx([10.0, 10.0, math.sqrt(1000)])


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path):
    log = written(tmp_path / "log.jsonl", update(1, 3.0), update(2, 2.0), tail='{"event": "update", "st')
    assert read_history(log).loss == [(1, 3.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "has no update"),
        ('{"event": "update"', "has no update"),
        (
            '{"event": "up\n{"event": "update", "step": 1, "loss": 1}\n',
            r"log\.jsonl:1: this is not a line of JSON",
        ),
        ("[1]\n", r"log\.jsonl:1: a line of a log is an object, not \[1\]"),
        ('{"event": "update", "step": 1, "loss": null, "rate": null}\n', "no number that could be drawn"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, content, named):
    (tmp_path / "log.jsonl").write_text(content)
    with pytest.raises(RegardError, match=named) as error:
        curves_of(tmp_path / "log.jsonl")
    assert "\n" not in str(error.value)


def test_a_log_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RegardError, match=r"nothing\.jsonl cannot be read"):
        curves_of(tmp_path / "nothing.jsonl")


def test_a_single_evaluation_is_enough(tmp_path):
    picture = curves_of(written(tmp_path / "log.jsonl", evaluation(0, accuracy=1.0)))
    assert [chart.y for chart in picture.parts] == ["validation"]
    picture.png(tmp_path / "x.png")
