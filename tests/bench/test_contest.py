"""A contest: ratios within rounds, and answers beside them."""

import pytest

from regard.bench.contest import Contender, bars, contest, table
from regard.bench.record import Setting
from regard.bench.tables import Table, middle, near, short


def clock(*times):
    """Takes these times, after one to warm up."""
    left = iter([0.0, *times])
    return Contender(run=lambda: None, timed=lambda: next(left), peak=lambda: times[0], check="same")


def rows():
    both = {"regard": clock(10.0, 20.0, 40.0), "other": clock(20.0, 30.0, 400.0)}
    return contest("suite", "task", both, Setting(rounds=3), tokens=100)


def test_a_ratio_is_the_median_of_those_within_rounds():
    ours, other = rows()
    assert (ours.ratio, ours.ratio_spread) == (1.0, (1.0, 1.0))
    assert (other.ratio, other.ratio_spread) == (2.0, (1.5, 10.0))  # 20/10, 30/20, 400/40
    assert (other.milliseconds, other.spread) == (30.0, (20.0, 400.0))
    assert other.tokens_per_second == pytest.approx(100 / 0.030)
    assert other.megabytes == 20.0


def test_what_is_run_here_is_timed_and_weighed():
    (row,) = contest("suite", "task", {"regard": Contender(run=lambda: None)}, Setting(rounds=2))
    assert row.milliseconds >= 0
    assert row.tokens_per_second is None


def test_memory_that_is_not_known_is_not_told():
    nobody = Contender(run=lambda: None, peak=lambda: float("nan"))
    rows = contest("suite", "task", {"regard": nobody}, Setting(rounds=1))
    assert rows[0].megabytes is None
    assert table("Suite", rows).rows[1][3] == "–"


def test_a_table_has_a_line_for_the_task_and_one_for_each():
    made = table("Suite", rows())
    assert [row[0] for row in made.rows] == ["task:", "regard", "other"]
    assert made.rows[2] == ["other", "30.0±633%", "3,333", "2.00 (1.50–10.0)", "20.0", "same"]
    assert made.markdown().splitlines()[2:5] == [
        "| contender | ms | tokens/s | × regard | peak MB | answer |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| task: |  |  |  |  |  |",
    ]


def test_bars_are_as_long_as_one_is_fast():
    ((heading, (ours, other)),) = bars("Suite", rows()).groups
    assert heading == "task"
    assert (ours.amount, other.amount) == (1.0, 0.5)
    assert other.ends == pytest.approx((0.1, 1 / 1.5))
    assert other.said.startswith("0.50, 3,333 tokens/s")


def test_numbers_have_about_three_digits():
    assert [short(value) for value in (0.1234, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]
    assert middle(2.0, (1.0, 3.0)) == "2.00 (1.00–3.00)"
    assert near(200.0, (190.0, 210.0)) == "200±5%"


def test_a_table_in_the_terminal_shows_what_looks_like_markup():
    from sight.pictures.drawn import printed

    assert "[bold]x[/]" in printed(Table(title="[red]", columns=["a"], rows=[["[bold]x[/]"]]).terminal())
