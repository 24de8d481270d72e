"""Durations: numbers of seconds, or text as people write it, such as "2s", "500 ms" or "1 minute 30 seconds"."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Annotated, Any

from foretide.errors import DurationError
from foretide.formatting import shorten

_UNITS: dict[Fraction, tuple[str, ...]] = {
    Fraction(1, 1_000_000): ("us", "microsecond", "microseconds"),
    Fraction(1, 1000): ("ms", "msec", "millisecond", "milliseconds"),
    Fraction(1): ("s", "sec", "secs", "second", "seconds"),
    Fraction(60): ("m", "min", "mins", "minute", "minutes"),
    Fraction(3600): ("h", "hr", "hour", "hours"),
    Fraction(86_400): ("d", "day", "days"),
    Fraction(604_800): ("w", "week", "weeks"),
}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?"
_PLAIN = re.compile(_NUMBER, re.ASCII)
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*", re.ASCII)
_LONGEST = 200
_MAX_INTERVAL = 10_000_000_000  # Spark counts microseconds in 64 bits
MAX_SECONDS = 9_000_000_000_000
"""The longest duration: sums and products of durations stay far from overflowing."""

ALLOWED = "seconds as a number, or text such as '2s', '500 ms' or '1 minute 30 seconds'"
"""What a duration may be, for sentences that say what to give."""


class _InSeconds:
    """Marks a number as seconds.

    What checks types by pydantic takes text for such a number too. The method is pydantic's way to be told so; nothing
    of pydantic is needed here.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        read = {"type": "no-info", "function": _read}
        return {"type": "function-before", "function": read, "schema": handler(source)}


Seconds = Annotated[float, _InSeconds()]
"""A number of seconds. In a settings file it may be text as well."""


def _read(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


class _AsInterval:
    """Marks a text as an interval of Spark; what checks types by pydantic takes any duration for it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        read = {"type": "no-info", "function": lambda value: interval_text(parse_duration(value))}
        return {"type": "function-before", "function": read, "schema": handler(source)}


IntervalText = Annotated[str, _AsInterval()]
"""A duration as Spark writes it, such as `500 milliseconds`. In a settings file it may be any duration."""


def is_duration(hint: Any) -> bool:
    """Whether a type hint is that of `Seconds` or of `IntervalText`."""
    return any(isinstance(mark, _InSeconds | _AsInterval) for mark in getattr(hint, "__metadata__", ()))


def parse_duration(value: str | float) -> float:
    """Seconds, from a number of them or from text.

    >>> parse_duration("2s"), parse_duration("500 ms"), parse_duration("1 minute 30 seconds"), parse_duration(7)
    (2.0, 0.5, 90.0, 7.0)
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise _wrong(value)
    return _number(value)


def _parse_text(text: str) -> float:
    words = text.strip().lower()
    if len(words) > _LONGEST:
        raise _wrong(text)
    if _PLAIN.fullmatch(words):
        return _number(Fraction(words))
    total, at = Fraction(0), 0
    while (part := _PART.match(words, at)) is not None and part[2] in _SECONDS:
        total, at = total + Fraction(part[1]) * _SECONDS[part[2]], part.end()
    if not words or at < len(words):
        raise _wrong(text)
    return _number(total)


def _number(seconds: float | Fraction) -> float:
    if seconds > MAX_SECONDS:
        raise DurationError(f"a duration of more than {MAX_SECONDS:,} s is too long; give {ALLOWED}")
    return float(seconds)


def _wrong(value: object) -> DurationError:
    return DurationError(f"{shorten(value)} is not a duration; give {ALLOWED}")


def duration_text(seconds: float) -> str:
    """Seconds as people write them, in the largest unit that they are a whole number of.

    >>> [duration_text(seconds) for seconds in (604_800.0, 300.0, 90.0, 0.5, 0.0)]
    ['7 d', '5 min', '90 s', '500 ms', '0 s']
    """
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds % unit == 0 and (seconds >= unit or unit == 1):
            return f"{seconds / unit:,.0f} {name}"
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:g} s"


def interval_text(seconds: float) -> str:
    """Seconds as Spark writes an interval, which knows whole units only.

    >>> interval_text(0.5), interval_text(60.0), interval_text(0.00025)
    ('500 milliseconds', '60000 milliseconds', '250 microseconds')
    """
    if seconds > _MAX_INTERVAL:
        raise DurationError(f"an interval of Spark must be at most {_MAX_INTERVAL:,} seconds; give {ALLOWED}")
    micros = round(seconds * 1_000_000)
    return f"{micros} microseconds" if micros % 1000 else f"{micros // 1000} milliseconds"
