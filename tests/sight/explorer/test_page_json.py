"""Every value can be encoded as JSON, and decodes to what it was."""

import json
import math

from regard.sight.explorer.page_json import told


def test_numbers_that_are_none_are_told_by_name() -> None:
    value = {"a": math.nan, "b": [math.inf, (-math.inf, 1.5)], "c": True, "d": None, "e": "NaN"}
    wanted = {"a": "NaN", "b": ["Infinity", ["-Infinity", 1.5]], "c": True, "d": None, "e": "NaN"}
    assert json.loads(told(value)) == wanted


def test_half_a_character_is_written_and_read_again() -> None:
    text = "a\ud800b\udc00\udbff 😀 é"
    written = told({text: [text]})
    written.encode()  # it is UTF-8
    assert json.loads(written) == {text: [text]}
