"""Numbers and durations as people read them: thousands separators, few digits, never an exponent."""

from __future__ import annotations

import math
from typing import Any

_MOST_DECIMALS = 6
_LARGEST = 1e15
_SHOWN = 60


def format_number(value: float, digits: int = 4) -> str:
    """A number with that many significant digits; a dash where nothing was measured.

    >>> [format_number(value) for value in (12345.6, 0.123456, 1e-9, 0, float("nan"))]
    ['12,346', '0.1235', '< 0.000001', '0', '-']
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "unlimited" if value > 0 else "-unlimited"
    size = abs(value)
    if size > _LARGEST:
        return f"{'over ' if value > 0 else 'under -'}{_LARGEST:,.0f}"
    if 0 < size < 10.0**-_MOST_DECIMALS:
        return f"< {10.0**-_MOST_DECIMALS:.{_MOST_DECIMALS}f}"
    exponent = math.floor(math.log10(size)) if size else 0
    decimals = min(max(digits - 1 - exponent, 0), _MOST_DECIMALS)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def format_duration(seconds: float) -> str:
    """Seconds in the unit one would say.

    >>> [format_duration(seconds) for seconds in (36_020.4, 1.5, 0.25, 4e-5, 6e-13, math.inf)]
    ['36,020 s', '1.5 s', '250 ms', '0.04 ms', '< 0.001 ms', 'without end']
    """
    if math.isinf(seconds):
        return "without end"
    if seconds >= 1 or math.isnan(seconds):
        return f"{format_number(seconds, 3)} s"
    millis = seconds * 1000
    return "< 0.001 ms" if 0 < millis < 1e-3 else f"{format_number(millis, 3)} ms"  # noqa: PLR2004


def shorten(value: object) -> str:
    """A value of somebody else's file for an error message: escaped, on one line, and of limited length.

    >>> shorten("much"), shorten(10**400), shorten([[1, 2], [3]])
    ("'much'", 'a number of 401 digits', 'a list')
    """
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, int) and value.bit_length() > _SHOWN:
        readable = value.bit_length() < 10_000  # noqa: PLR2004 Python refuses to print much longer ones
        return f"a number of {len(str(abs(value))) if readable else 'thousands of'} digits"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def finite(value: Any) -> Any:
    """Plain values for JSON, which has no infinity: what is not finite becomes None.

    >>> finite({"a": [1.0, math.inf], 0.5: (math.nan, "x")})
    {'a': [1.0, None], '0.5': [None, 'x']}
    """
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
