"""A warning points at the line of the user, and on the command line it is one line."""

import types
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard import errors
from regard.cli import app, main
from regard.errors import warn


def test_a_warning_points_at_the_line_that_called_the_library() -> None:
    inside = types.ModuleType("regard.somewhere")  # as users have it: without the check of shapes in between
    exec(Path(errors.__file__).read_text("utf-8"), inside.__dict__)
    exec("def outer():\n    inner()\n\ndef inner():\n    warn('half empty')", inside.__dict__)
    inside.__dict__["contextmanager"] = contextmanager
    exec("@contextmanager\ndef during():\n    yield\n    warn('half empty')", inside.__dict__)
    with pytest.warns(inside.RegardWarning, match="half empty") as seen:
        inside.outer()
    with pytest.warns(inside.RegardWarning, match="half empty") as ended, inside.during():
        pass
    assert [each.filename for each in [*seen, *ended]] == [__file__] * 2


def test_the_command_line_says_each_warning_once_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def recipes() -> None:
        for _ in range(3):
            warn("the glass\nis half empty")
        warnings.warn("of somebody else", UserWarning, stacklevel=1)

    monkeypatch.setattr(
        next(each for each in app.registered_commands if each.callback.__name__ == "recipes"),
        "callback",
        recipes,
    )
    with pytest.raises(SystemExit) as left, pytest.warns(UserWarning, match="of somebody else"):
        main(["recipes"])
    assert left.value.code == 0
    assert capsys.readouterr().err.count("regard: the glass is half empty\n") == 1
