"""JSON for the page that can always be encoded: non-finite numbers by name, lone surrogates as escapes."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character: Python holds it, UTF-8 does not


def told(value: Any) -> str:
    """The JSON of a value. A number that is none becomes "NaN", an infinite one "Infinity" or "-Infinity"."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value
